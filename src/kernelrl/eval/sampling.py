"""One policy of an evaluation: its answers to the tasks, judged and written to its ledger.

Generation and judging take turns on purpose: a kernel timed on a machine that generates at the same time would be timed
wrongly.
"""

from __future__ import annotations

import logging
import time
from collections import Counter, defaultdict
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from kernelrl.candidate import Completion
from kernelrl.console import track
from kernelrl.errors import UserError
from kernelrl.eval import trajectories
from kernelrl.eval.channels import Judge
from kernelrl.eval.figure import program_of
from kernelrl.eval.ready import ReadyKernels, ReadySettings, RecordedCompletions, RecordedSettings
from kernelrl.eval.settings import EvalSettings, PolicySettings
from kernelrl.executor.api import Executor, Request, no_answer
from kernelrl.policies import backends
from kernelrl.policies.backends.base import TOO_LONG, Backend
from kernelrl.policies.backends.settings import Settings
from kernelrl.policies.prompts import Message, to_text
from kernelrl.policies.protocol import Answer, Policy
from kernelrl.policies.settings import ModelSettings
from kernelrl.records import Ledger, Record
from kernelrl.rewards import Reward
from kernelrl.strategies.protocol import Strategy
from kernelrl.task import Task

if TYPE_CHECKING:  # seconds that a report need not wait for
    from kernelrl.policies.verifier import Verifier

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Work:
    """What is the same for every policy."""

    settings: EvalSettings
    tasks: list[Task]
    prompts: dict[str, list[Message]]
    dialect: str
    seed: int
    reward: Reward
    references: dict[str, list[str]]
    executor: Executor
    verifier: Verifier | None
    model: ModelSettings
    strategy: Strategy
    judge: Judge | None
    """What judges completions in place of the executor: the channel's, where they are no kernels."""


def sample_and_judge(work: Work, name: str, sampling: PolicySettings, ledger: Ledger) -> dict[str, Any]:
    """Fill the ledger of one policy. Returns how many samples were there before, judged or as kept answers of a server,
    and the seconds that this took.

    Cases of one program (`Task.case_of`) are asked for once, with the first of them, and the answer is judged on all.
    A batch holds all samples of its tasks, because some rewards compare a sample with its group. Batches are the same
    in every run, each sample with its own seed: a resumed run draws what the interrupted one would have drawn.

    A question that a policy refuses, because it is too long or for what a server says, is a sample that fails.

    Raises:
        UserError: the policy refuses every question, or a server has left some without an answer; what it did answer is
            kept.
    """
    if work.strategy.name != "single":
        assert not isinstance(sampling, ReadySettings | RecordedSettings)  # see `read_strategy`
        return _sample_trajectories(work, name, sampling, ledger)
    started = time.monotonic()
    settings = work.settings
    earlier = list(ledger)
    known = {record.id: record for record in earlier}
    if ledger.skipped:
        log.warning("%s: %d torn or corrupt line(s) skipped; sampling them again", ledger.folder, ledger.skipped)
    programs = group_cases(work.tasks)
    size = max(1, settings.batch_size // settings.samples)
    num_correct = sum(record.verdict.correct for record in earlier)
    failures: Counter[str] = Counter()
    num_kept, num_refused, reason = 0, 0, None
    with (
        closing(_open(work, name, sampling)) as policy,
        track(len(work.tasks) * settings.samples, f"eval {name}") as progress,
    ):
        _require_room(work, name, policy)
        for number, start in enumerate(range(0, len(programs), size)):
            asked = [(cases, sample) for cases in programs[start : start + size] for sample in range(settings.samples)]
            batch = [(f"eval/{name}/{task.id}/{sample}", task) for cases, sample in asked for task in cases]
            mine = settings.part is None or number % settings.parts == settings.part
            if mine and any(id not in known for id, _ in batch):
                questions = [(cases[0], sample) for cases, sample in asked]
                answers = _draw(work, policy, questions, start * settings.samples)
                refused = [answer.refused for answer in answers if answer.refused is not None]
                failed = [answer.failure for answer in answers if answer.failure is not None and answer.refused is None]
                failures.update(failed)
                by_server = [answer for answer in answers if answer.refused and answer.failure != TOO_LONG]
                if len(by_server) == len(answers) and not known and number == 0:
                    raise UserError(f"eval.policies.{name}: every question is refused: {refused[0]}")
                num_refused += len(refused)
                reason = reason or next(iter(refused), None)
                if failed and len(failed) == len(answers):
                    break  # it answers nothing
                if not failed:
                    given = [
                        answer if task is cases[0] else replace(answer, prompt_tokens=None, completion_tokens=None)
                        for (cases, _), answer in zip(asked, answers, strict=True)
                        for task in cases
                    ]
                    drawn = [
                        (id, task, answer) for (id, task), answer in zip(batch, given, strict=True) if id not in known
                    ]
                    num_kept += sum(answer.cached for _, _, answer in drawn)
                    records = _judge(work, name, drawn, [known[id] for id, _ in batch if id in known])
                    ledger.append(records)
                    num_correct += sum(record.verdict.correct for record in records)
            progress.advance(len(batch), note=f"{num_correct} correct")
    if num_refused:  # the same question would be refused again
        log.warning("eval.policies.%s: %d questions were refused and count as failures: %s", name, num_refused, reason)
    if failures:
        kinds = ", ".join(f"{count} x {kind}" for kind, count in failures.items())
        raise UserError(
            f"eval.policies.{name}: questions without an answer ({kinds}); "
            "what was answered is kept, and the same command asks for the rest"
        )
    return {"num_resumed": len(known) + num_kept, "seconds": round(time.monotonic() - started, 1)}


def _sample_trajectories(work: Work, name: str, sampling: Settings, ledger: Ledger) -> dict[str, Any]:
    """Fill the ledger of one policy by the strategy; see `sample_and_judge`."""
    settings = work.settings
    problems = trajectories.make_problems(name, work.tasks, work.prompts, work.dialect, settings.samples, work.seed)
    mine = problems if settings.part is None else problems[settings.part :: settings.parts]
    with closing(backends.open_policy(sampling, work.model, f"eval.policies.{name}")) as policy:
        return trajectories.sample(
            work.strategy, name, policy, work.executor, work.reward, mine, ledger, work.seed, settings.batch_size
        )


def _open(work: Work, name: str, sampling: PolicySettings) -> Policy | ReadyKernels | RecordedCompletions:
    where = f"eval.policies.{name}"
    if isinstance(sampling, RecordedSettings):
        return RecordedCompletions(sampling, [task.id for task in work.tasks], work.settings.samples, where)
    if isinstance(sampling, ReadySettings):
        names = [_kernel_name(cases[0]) for cases in group_cases(work.tasks)]
        kernels = ReadyKernels(sampling, names, work.settings.samples, where)
        if kernels.missing:
            first, number = kernels.missing[0], len(kernels.missing)
            log.warning("%s: no kernel for %d of %d tasks, e.g. %s", where, number, len(names), first)
        return kernels
    return backends.open_policy(sampling, work.model, where)


def _require_room(work: Work, name: str, policy: Policy | ReadyKernels | RecordedCompletions) -> None:
    """Check that some prompt leaves room for a whole answer in the policy's context.

    Raises:
        UserError: none does; says what to do about it.
    """
    if not isinstance(policy, Backend):
        return
    reasons = (policy.too_long(work.prompts[task.id]) for task in work.tasks)
    first = next(reasons)
    if first is not None and all(reason is not None for reason in reasons):
        raise UserError(f"eval.policies.{name}: no task leaves room for an answer: {first}")


def _draw(
    work: Work, policy: Policy | ReadyKernels | RecordedCompletions, questions: Sequence[tuple[Task, int]], first: int
) -> list[Answer]:
    """An answer to each question, a task and a number of sample; `first` is the number of the first one in the run."""
    if isinstance(policy, ReadyKernels):
        return [policy.answer(_kernel_name(task), sample) for task, sample in questions]
    if isinstance(policy, RecordedCompletions):
        return [policy.answer(task.id, sample) for task, sample in questions]
    seeds = [work.seed * 1_000_003 + first + index for index in range(len(questions))]
    return policy.sample([work.prompts[task.id] for task, _ in questions], seeds)


def group_cases(tasks: Sequence[Task]) -> list[list[Task]]:
    """The tasks in their order, with the cases of one program together where the first of them stands."""
    programs: dict[str, list[Task]] = defaultdict(list)
    for task in tasks:
        programs[program_of(task)].append(task)
    return list(programs.values())


def _kernel_name(task: Task) -> str:
    """Where the kernel for the task lies in a folder of kernels."""
    return task.case_of or task.id


def _judge(work: Work, name: str, drawn: list[tuple[str, Task, Answer]], earlier: Sequence[Record]) -> list[Record]:
    """Records of new samples.

    Args:
        drawn: id, task and answer of each.
        earlier: records of the same groups that an interrupted run has left.
    """
    completions = [Completion.parse(answer.text) for _, _, answer in drawn]
    tasks = [task for _, task, _ in drawn]
    if work.judge is not None:
        verdicts = [work.judge(task, completion) for task, completion in zip(tasks, completions, strict=True)]
    else:
        requests = [
            Request(task=task, candidate=completion.candidate(work.dialect), dialect=work.dialect)
            for task, completion in zip(tasks, completions, strict=True)
        ]
        refused = [answer.refused for _, _, answer in drawn]
        judged = iter(
            work.executor.evaluate([each for each, why in zip(requests, refused, strict=True) if why is None])
        )
        verdicts = [
            next(judged) if why is None else no_answer(each, why) for each, why in zip(requests, refused, strict=True)
        ]
    opinions: list[float | None] = [None] * len(drawn)
    if work.verifier is not None:
        opinions = work.verifier.opinions(tasks, completions, verdicts)
    scores = work.reward.of_groups(
        [*zip(completions, verdicts, strict=True), *((Completion.parse(r.completion), r.verdict) for r in earlier)],
        [*(task.id for task in tasks), *(record.task_id for record in earlier)],
        progress=1.0,
        references=work.references,
        opinions=[*opinions, *(record.opinion for record in earlier)],
    )[: len(drawn)]
    return [
        Record.of(
            id=id,
            policy=name,
            prompt=to_text(work.prompts[task.id]),
            completion=completion.text,
            verdict=verdict,
            rewards=score.parts,
            reward=score.total,
            opinion=opinion,
            **answer.usage,
        )
        for (id, task, answer), completion, verdict, score, opinion in zip(
            drawn, completions, verdicts, scores, opinions, strict=True
        )
    ]
