"""What verified proposals say beyond the right kernels, in the forms of TRL's trainers.

Preference pairs (DPO and reward models) are two answers to one question: a correct kernel, and one that is not, or is
slower. Slower means that the intervals of the speedups do not touch; where nothing was timed, that the same teacher
calls it a lower level. Labels (KTO, verifiers) are single answers with what became of them. Refinements (SFT) are a
wrong answer, its verdict as a policy hears it (`strategies/feedback.py`), and a right kernel.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from pathlib import Path

from kernelrl.candidate import Completion
from kernelrl.data.disk_map import DiskMap
from kernelrl.data.tables import PROPOSALS, Row, iterate_table
from kernelrl.policies.prompts import build_prompt
from kernelrl.records import Ledger
from kernelrl.strategies.feedback import Feedback
from kernelrl.strategies.refine import AGAIN
from kernelrl.strategies.wording import assistant, user
from kernelrl.task import Task

COLUMNS = "split task_id dialect teacher kernel_level completion verdict record".split()
FAILED = frozenset({"illegal", "compile_error", "runtime_error", "incorrect", "timeout", "killed"})
"""Statuses of kernels that are worse than any correct one; the others say nothing about a kernel."""


def pairs(verified: Path, tasks: Mapping[str, Task], style: str) -> Iterator[Row]:
    """Rows of `preferences_train.parquet`, a question's best kernel in each; at most one pair for each other kernel.

    Args:
        verified: folder of the proposals, which lie in order of the tasks.
        style: of the prompts.
    """
    for proposals in _questions(verified):
        correct = _correct(proposals)
        if not correct:
            continue
        best = max(correct, key=_low)  # of equal ones the first, which its teacher thinks best
        for other in proposals:
            if why := _why_worse(other, best, correct):
                yield _about(other, tasks, style) | {
                    "chosen": [assistant(best["completion"])],
                    "rejected": [assistant(other["completion"])],
                    "why": why,
                    "chosen_record": best["record"],
                    "rejected_record": other["record"],
                }


def labels(verified: Path, tasks: Mapping[str, Task], style: str) -> Iterator[Row]:
    """Rows of `labels_train.parquet`: every proposal of which it is known whether it is right."""
    for proposals in _questions(verified):
        for row in proposals:
            status = row["verdict"]["status"]
            if status == "correct" or status in FAILED:
                about = {"label": status == "correct", "status": status, "record": row["record"]}
                yield _about(row, tasks, style) | {"completion": [assistant(row["completion"])], **about}


def refinements(verified: Path, tasks: Mapping[str, Task], style: str) -> Iterator[Row]:
    """Rows of `refinements_train.parquet`: each wrong attempt at a task for which somebody wrote a right kernel.

    The right kernel is the best of the same teacher where it has one, so that the reasoning goes on as it began. A
    conversation is what `strategy=refine` asks with: of the wrong turn the reasoning is dropped.
    """
    heard = _feedback(verified, (wrong["record"] for wrong, _ in _attempts(verified)))
    for wrong, right in _attempts(verified):
        feedback = heard[wrong["record"]]
        if feedback is None:
            continue  # its line in the ledger is torn
        about = _about(wrong, tasks, style)
        turns = [assistant(Completion.parse(wrong["completion"]).answer.strip()), user(feedback)]
        yield about | {
            "prompt": [*about["prompt"], *turns],
            "completion": [assistant(right["completion"])],
            "teacher": right["teacher"],
            "status": wrong["verdict"]["status"],
            "wrong_record": wrong["record"],
            "record": right["record"],
        }


def _attempts(verified: Path) -> Iterator[tuple[Row, Row]]:
    """Wrong attempts, each with a right kernel for the same question."""
    for proposals in _questions(verified):
        correct = _correct(proposals)
        for row in proposals:
            if correct and row["verdict"]["status"] in FAILED:
                same_teacher = [other for other in correct if other["teacher"] == row["teacher"]]
                yield row, max(same_teacher or correct, key=_low)


def _feedback(verified: Path, wanted: Iterable[str]) -> DiskMap[str | None]:
    """What a policy hears of attempts, by their record; None where the ledger has none."""
    heard: DiskMap[str | None] = DiskMap()
    for id in wanted:
        heard.add(id)
    tell = Feedback()
    for record in Ledger(verified / "records") if len(heard) else ():
        if record.id in heard:
            heard[record.id] = f"{tell(record.verdict, Completion.parse(record.completion).source)}\n\n{AGAIN}"
    return heard


def _questions(verified: Path) -> Iterator[list[Row]]:
    """The proposals for training, those of one task and dialect together."""
    rows = (row for row in iterate_table(verified / PROPOSALS, COLUMNS) if row["split"] == "train")
    for _, some in groupby(rows, key=lambda row: (row["task_id"], row["dialect"])):
        yield list(some)


def _correct(proposals: Sequence[Row]) -> list[Row]:
    return [row for row in proposals if row["verdict"]["status"] == "correct"]


def _about(row: Row, tasks: Mapping[str, Task], style: str) -> Row:
    """What every row says of its task."""
    task = tasks[row["task_id"]]
    return {
        "prompt": build_prompt(task, row["dialect"], style),
        "task_id": task.id,
        "category": task.category,
        "origin": task.origin,
        "licence": task.licence,
        "dialect": row["dialect"],
    }


def _why_worse(other: Row, best: Row, correct: Sequence[Row]) -> str | None:
    """`incorrect` and the like, `slower` or `lower level`; None: it is not known to be worse."""
    status = other["verdict"]["status"]
    if status in FAILED:
        return str(status)
    if status != "correct" or other is best:
        return None
    mine, theirs = best["verdict"]["speedup"], other["verdict"]["speedup"]
    if mine and theirs:
        return "slower" if theirs["high"] < mine["low"] else None
    same_teacher = [row["kernel_level"] for row in correct if row["teacher"] == best["teacher"]]
    lower = other["teacher"] == best["teacher"] and other["kernel_level"] != same_teacher[0]
    return "lower level" if lower and best["kernel_level"] == same_teacher[0] else None


def _low(row: Row) -> float:
    speedup = row["verdict"]["speedup"]
    return float(speedup["low"]) if speedup else 0.0
