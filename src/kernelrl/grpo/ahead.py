"""Judging begins while the policy still generates: a completion is handed over as soon as it has ended.

With transformers' generation alone: vLLM gives a batch when all of it is there. A candidate is judged ahead where that
does not disturb what is measured: without timing, or on other machines. Otherwise its build is made ahead, which is
most of the work, and timing waits until the cores are free.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import torch
from transformers import StoppingCriteria

from kernelrl.executor.api import Executor, Request
from kernelrl.executor.engines.local import LocalExecutor
from kernelrl.verdict import Verdict

NUM_THREADS = 256
"""They only wait; the executor has workers of its own."""
Key = tuple[str, str]


class JudgedAhead:
    """An executor that is given requests before it is asked for their verdicts."""

    def __init__(self, executor: Executor):
        self._executor = executor
        self._threads = ThreadPoolExecutor(NUM_THREADS, thread_name_prefix="ahead")
        self._begun: dict[Key, Future[Verdict]] = {}
        self._group = secrets.token_hex(8)
        self._builds_alone = isinstance(executor, LocalExecutor) and executor.settings.timing

    def begin(self, request: Request) -> None:
        """Judge it, or build it, in the background; a request that was begun already is left alone."""
        request = request.model_copy(update={"group": self._group})
        key = _key(request)
        if key is not None and key not in self._begun:
            self._begun[key] = self._threads.submit(self._build if self._builds_alone else self._judge, request)

    def evaluate(self, requests: Sequence[Request]) -> list[Verdict]:
        """Verdicts in the order of the requests; what was begun and is not among them is dropped."""
        requests = [request.model_copy(update={"group": self._group}) for request in requests]
        begun, self._begun, self._group = self._begun, {}, secrets.token_hex(8)
        if self._builds_alone:
            for build in begun.values():
                if not build.cancel():
                    build.exception()
            return self._executor.evaluate(requests)
        known = {index: begun[key] for index, it in enumerate(requests) if (key := _key(it)) in begun}
        rest = [index for index in range(len(requests)) if index not in known]
        verdicts = dict(zip(rest, self._executor.evaluate([requests[index] for index in rest]), strict=True))
        verdicts |= {index: future.result() for index, future in known.items()}
        return [verdicts[index] for index in range(len(requests))]

    def _judge(self, request: Request) -> Verdict:
        (verdict,) = self._executor.evaluate([request])
        return verdict

    def _build(self, request: Request) -> Verdict:
        assert isinstance(self._executor, LocalExecutor)
        return self._executor.build_ahead(request, None)


def _key(request: Request) -> Key | None:
    return None if request.candidate is None else (request.task.digest, request.candidate.digest)


class HandOver(StoppingCriteria):
    """Stops nothing: tells of every row of a batch once, when it has ended.

    Args:
        ended: called with the row and the ids of its completion.
        ends: ids of the tokens that end a completion.
        num_prompt_tokens: of the padded prompts.
    """

    def __init__(self, ended: Callable[[int, list[int]], None], ends: Sequence[int], num_prompt_tokens: int):
        self._ended = ended
        self._ends = torch.tensor(list(ends))
        self._start = num_prompt_tokens
        self._told: set[int] = set()

    def __call__(self, input_ids: torch.LongTensor, scores: Any, **kwargs: Any) -> torch.BoolTensor:
        last_B = torch.isin(input_ids[:, -1].cpu(), self._ends)
        for row in last_B.nonzero().flatten().tolist():
            if row not in self._told:
                self._told.add(row)
                self._ended(row, input_ids[row, self._start :].tolist())
        none_B = torch.zeros(len(input_ids), dtype=torch.bool, device=input_ids.device)
        return none_B  # type: ignore[return-value]


@contextmanager
def handing_over(model: Any, ended: Callable[[int, list[int]], None], ends: Sequence[int]) -> Iterator[None]:
    """Calls of `model.generate` inside tell of completions that have ended."""
    generate = model.generate

    def told(*args: Any, **kwargs: Any) -> Any:
        criteria = [*kwargs.pop("stopping_criteria", ()), HandOver(ended, ends, kwargs["input_ids"].shape[1])]
        return generate(*args, stopping_criteria=criteria, **kwargs)

    model.generate = told
    try:
        yield
    finally:
        del model.generate  # that of its class again
