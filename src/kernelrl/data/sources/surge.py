"""Candidates whose verdict is known, for a policy to predict it (SURGE, arXiv 2502.11167): surrogate execution.

Reads the ledgers of a run. A task is a judged candidate with the program that it was to replace: `Task.given` is the
candidate and its status, which no prompt shows, and the category is that status.
"""

from __future__ import annotations

import hashlib
from pathlib import Path

from omegaconf import DictConfig

from kernelrl.data.judged import Example, read_examples
from kernelrl.data.sources import TaskSplit
from kernelrl.errors import UserError
from kernelrl.task import Given, Task


def load(cfg: DictConfig) -> TaskSplit:
    """The candidates of a run, right and wrong ones in turn as far as there are; all are held out.

    Args:
        cfg: `run` (folder of a run, a stage or a ledger) and `num` (null: all).

    Raises:
        UserError: the folder is not given, has no records, or none of them holds a kernel with a verdict.
    """
    if cfg.run is None:
        raise UserError("tasks.run is not set; give the folder of a run whose candidates were judged, e.g. outputs/toy")
    examples = sorted(read_examples([Path(cfg.run).expanduser()]), key=_digest)
    if not examples:
        raise UserError(f"tasks.run={cfg.run}: no record with a kernel and a verdict in it")
    right = [example for example in examples if example.correct]
    wrong = [example for example in examples if not example.correct]
    both = min(len(right), len(wrong))
    in_turn = [example for pair in zip(right, wrong, strict=False) for example in pair]
    chosen = [*in_turn, *right[both:], *wrong[both:]][: cfg.num]
    return TaskSplit([], [_to_task(number, example) for number, example in enumerate(chosen)])


def _to_task(number: int, example: Example) -> Task:
    text = example.text
    return Task(
        id=f"surge/{number:05}-{_digest(example)[:8]}",
        source=text.program,
        category=example.status,
        origin="surge",
        given=Given(dialect=text.dialect, source=text.kernel, status=example.status),
    )


def _digest(example: Example) -> str:
    return hashlib.sha256(repr(example.text).encode()).hexdigest()
