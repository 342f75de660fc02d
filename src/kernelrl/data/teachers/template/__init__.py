"""The embedded teacher: writes kernels by rule, without a language model.

Chains (`data/graph/chain.py`) get `cpp` kernels of their own (`chain.py`). Every other task is traced into a graph of
PyTorch's core operators (`trace.py`), turned into loops (`lower.py`), which are fused (`schedule.py`) and written as
C++ (`cpp.py`) or Triton (`triton.py`): one proposal for each level of optimisation, with reasoning that says what was
done (`reasoning.py`). Not covered: programs that do not trace, and operators without a lowering; for them there is no
proposal.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from functools import partial
from typing import Any

from omegaconf import DictConfig

from kernelrl.data.teachers import Proposal, Teacher
from kernelrl.data.teachers.template import chain
from kernelrl.data.teachers.template.levels import LEVELS, UnwritableError, write
from kernelrl.data.workers import Limits, Lost, run_in_order
from kernelrl.errors import UserError
from kernelrl.task import Task

LIMITS = Limits(timeout_s=120.0, memory_mb=16_384)
"""Of a worker, which runs a task's program while it traces it; most tasks take less than a second."""


class TemplateTeacher(Teacher):
    name = "template"
    dialects = frozenset({"cpp", "triton"})

    def __init__(self, chain_levels: int = 1) -> None:
        self.chain_levels = chain_levels
        self.unwritten: Counter[str] = Counter()

    def propose(self, task: Task, dialect: str) -> list[Proposal]:
        """Written in this process: for programs that are known to do no harm."""
        return self._count(propose(task, dialect, self.chain_levels))

    def proposals(self, tasks: Iterable[Task], dialect: str) -> Iterator[tuple[Task, Proposal]]:
        """Written in worker processes: a program that hangs or crashes while traced costs no other task its kernels."""
        write_one = partial(propose, dialect=dialect, chain_levels=self.chain_levels)
        for task, outcome in run_in_order(write_one, tasks, LIMITS):
            for proposal in self._count(outcome):
                yield task, proposal

    def summary(self) -> dict[str, Any]:
        return {"unwritten": dict(self.unwritten)} if self.unwritten else {}

    def _count(self, outcome: list[Proposal] | str | Lost) -> list[Proposal]:
        if isinstance(outcome, list):
            return outcome
        self.unwritten[f"{outcome.reason} {outcome.error}".strip() if isinstance(outcome, Lost) else outcome] += 1
        return []


def make(cfg: DictConfig) -> TemplateTeacher:
    levels = cfg.get("chain_levels", 1)
    if not 1 <= levels <= len(chain.LEVELS):
        raise UserError(f"teacher.chain_levels={levels} is not possible; give 1 to {len(chain.LEVELS)}")
    return TemplateTeacher(levels)


def propose(task: Task, dialect: str, chain_levels: int) -> list[Proposal] | str:
    """A task's proposals, best first, or why there are none. The task's program is run."""
    if dialect == "cpp" and task.origin == "synthetic" and task.ops and chain.CPP.keys() >= {*task.ops}:
        return chain.propose(task, chain_levels)
    try:
        return write(task, dialect, LEVELS)
    except UnwritableError as error:
        return str(error)
