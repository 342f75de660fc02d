"""Language models as teachers: any OpenAI-compatible endpoint, or a local `transformers` model.

Each task is asked for `samples` times, with a prompt that shows one example of the task's category. Answers are
kept in a disk cache, so a rerun asks nothing twice; failures are not, so a rerun asks for them again. Not covered:
refinement by feedback, which is search.
"""

from __future__ import annotations

import hashlib
import json
import logging
import time
from collections import Counter, deque
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future
from dataclasses import asdict
from pathlib import Path
from typing import Any, Protocol

import diskcache
from omegaconf import DictConfig

from kernelrl.candidate import Completion
from kernelrl.configs import to_dict
from kernelrl.data.teachers import Proposal, Teacher
from kernelrl.errors import UserError
from kernelrl.policies.endpoint import Answer, Endpoint
from kernelrl.policies.prompts import Message, build_prompt
from kernelrl.task import Task

REPORT_EVERY_S = 30.0

log = logging.getLogger(__name__)


class Backend(Protocol):
    """Something that answers."""

    ahead: int
    """Number of unanswered questions that keeps it busy."""

    def ask(self, messages: list[Message], seeds: Sequence[int]) -> list[Future[Answer]]:
        """One answer for each seed, sooner or later. A future raises a UserError where asking more is no use."""
        ...

    def close(self) -> None:
        """Drop what is not answered yet."""
        ...


class LLMTeacher(Teacher):
    """Args:
    cfg: see `configs/teacher/llm.yaml`.
    """

    name = "llm"
    dialects = frozenset({"cpp", "triton", "cuda"})

    def __init__(self, cfg: DictConfig):
        self._cfg = cfg
        self._identity = {"model": cfg.model, "request": to_dict(cfg.request)}
        self._counts: Counter[str] = Counter()
        self._failures: Counter[str] = Counter()
        self._tokens: Counter[str] = Counter()
        self._unknown_tokens = False
        self._reported = time.monotonic()
        _check(cfg)

    def propose(self, task: Task, dialect: str) -> list[Proposal]:
        return [proposal for _, proposal in self.proposals([task], dialect)]

    def proposals(self, tasks: Iterable[Task], dialect: str) -> Iterator[tuple[Task, Proposal]]:
        backend = _make_backend(self._cfg)
        waiting: deque[tuple[Task, list[Future[Answer]]]] = deque()
        folder = Path(self._cfg.cache_dir).expanduser()
        with diskcache.Cache(folder, eviction_policy="none") as cache:  # what was paid for is never thrown away
            try:
                for task in tasks:
                    waiting.append((task, self._ask(task, dialect, backend, cache)))
                    while sum(not future.done() for _, futures in waiting for future in futures) >= backend.ahead:
                        yield from self._collect(*waiting.popleft())
                while waiting:
                    yield from self._collect(*waiting.popleft())
            finally:
                backend.close()
                log.info("teacher llm: %s", self._note())

    def summary(self) -> dict[str, Any]:
        """Tokens and cost are those of this run: what came from the cache cost nothing."""
        return {
            "model": self._cfg.model,
            **{name: self._counts[name] for name in ("answers", "cached", "no_kernel")},
            "failed": dict(self._failures),
            "prompt_tokens": None if self._unknown_tokens else self._tokens["prompt"],
            "completion_tokens": None if self._unknown_tokens else self._tokens["completion"],
            "cost": None if self._unknown_tokens else self._cost(self._tokens["prompt"], self._tokens["completion"]),
        }

    def _ask(self, task: Task, dialect: str, backend: Backend, cache: diskcache.Cache) -> list[Future[Answer]]:
        """A future for each sample; those in the cache are done already."""
        messages = build_prompt(task, dialect, self._cfg.style)
        seeds = [self._cfg.seed * 10_007 + sample for sample in range(self._cfg.samples)]
        keys = {seed: _key(self._identity, messages, seed) for seed in seeds}
        known = {seed: cache[key] for seed, key in keys.items() if key in cache}
        missing = [seed for seed in seeds if seed not in known]
        asked = dict(zip(missing, backend.ask(messages, missing) if missing else (), strict=True))
        for seed, future in asked.items():
            future.add_done_callback(lambda done, seed=seed: self._store(done, keys[seed], cache))
        self._counts["cached"] += len(known)
        return [asked[seed] if seed in asked else _done(Answer(**known[seed])) for seed in seeds]

    def _store(self, done: Future[Answer], key: str, cache: diskcache.Cache) -> None:
        """Keep an answer as soon as it is there: a killed run has paid for it."""
        if done.cancelled() or done.exception() is not None:
            return
        answer = done.result()
        if answer.failure is None:
            cache[key] = asdict(answer)
            if answer.prompt_tokens is None or answer.completion_tokens is None:
                self._unknown_tokens = True
            self._tokens.update(prompt=answer.prompt_tokens or 0, completion=answer.completion_tokens or 0)

    def _collect(self, task: Task, futures: list[Future[Answer]]) -> Iterator[tuple[Task, Proposal]]:
        for future in futures:
            answer = future.result()
            if time.monotonic() - self._reported > REPORT_EVERY_S:
                self._reported = time.monotonic()
                log.info("teacher llm: %s", self._note())
            if answer.failure is not None:
                self._failures[answer.failure] += 1
                continue
            self._counts["answers"] += 1
            proposal = self._read(answer)
            if proposal is None:
                self._counts["no_kernel"] += 1
            else:
                yield task, proposal

    def _read(self, answer: Answer) -> Proposal | None:
        """The kernel and what was said before it; None: there is no kernel in the answer."""
        completion = Completion.parse(answer.text)
        if completion.source is None:
            return None
        before_the_code = completion.answer.partition("```")[0].strip()  # what follows explains, and is no reasoning
        reasoning = answer.reasoning.strip() or completion.reasoning or before_the_code
        return Proposal(reasoning, completion.source)

    def _cost(self, prompt_tokens: int, completion_tokens: int) -> float | None:
        prices = self._cfg.prices
        if prices.prompt is None or prices.completion is None:
            return None
        return float((prompt_tokens * prices.prompt + completion_tokens * prices.completion) / 1e6)

    def _note(self) -> str:
        figures = self.summary()
        cost = "cost unknown" if figures["cost"] is None else f"cost {figures['cost']:.4f}"
        failed = ", ".join(f"{count} {kind}" for kind, count in self._failures.items()) or "none"
        return (
            f"{figures['answers']} answers ({figures['cached']} from the cache), "
            f"{figures['no_kernel']} without a kernel, "
            f"failed: {failed}, {figures['prompt_tokens']} + {figures['completion_tokens']} tokens, {cost}"
        )


def make(cfg: DictConfig) -> LLMTeacher:
    return LLMTeacher(cfg)


def _check(cfg: DictConfig) -> None:
    if cfg.model is None:
        raise UserError("teacher.model is not set; give the name of a served model, or a folder with teacher=local_llm")
    if cfg.samples < 1:
        raise UserError(f"teacher.samples={cfg.samples}: at least 1 is needed")
    if cfg.backend not in ("endpoint", "local"):
        raise UserError(f"teacher.backend={cfg.backend!r} is not known; choose endpoint or local")


def _make_backend(cfg: DictConfig) -> Backend:
    if cfg.backend == "endpoint":
        return Endpoint(cfg, "teacher")
    from kernelrl.data.teachers.llm.local import LocalModel

    return LocalModel(cfg)


def _key(identity: dict[str, Any], messages: list[Message], seed: int) -> str:
    """Of a question in the cache: who is asked, what, and for which sample; not where the model is served."""
    return hashlib.sha256(json.dumps([identity, messages, seed], sort_keys=True).encode()).hexdigest()


def _done(answer: Answer) -> Future[Answer]:
    future: Future[Answer] = Future()
    future.set_result(answer)
    return future
