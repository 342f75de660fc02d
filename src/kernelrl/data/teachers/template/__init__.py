"""The embedded teacher: writes kernels by rule, without a language model.

Chains (`data/graph/chain.py`) get `cpp` kernels of their own (`chain.py`). Every other task is traced into a graph of
PyTorch's core operators (`trace.py`), turned into loops (`lower.py`), which are fused (`schedule.py`) and written as
C++ (`cpp.py`) or Triton (`triton.py`): one proposal for each level of optimisation, with reasoning that says what was
done (`reasoning.py`). Not covered: programs that do not trace, and operators without a lowering; for them there is no
proposal.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

from omegaconf import DictConfig

from kernelrl.data.teachers import Proposal, Teacher
from kernelrl.data.teachers.template import chain
from kernelrl.data.teachers.template.levels import LEVELS, UnwritableError, write
from kernelrl.errors import UserError
from kernelrl.task import Task


class TemplateTeacher(Teacher):
    name = "template"
    dialects = frozenset({"cpp", "triton"})

    def __init__(self, chain_levels: int = 1) -> None:
        self.chain_levels = chain_levels
        self.unwritten: Counter[str] = Counter()

    def propose(self, task: Task, dialect: str) -> list[Proposal]:
        if dialect == "cpp" and task.origin == "synthetic" and task.ops and chain.CPP.keys() >= {*task.ops}:
            return chain.propose(task, self.chain_levels)
        try:
            return write(task, dialect, LEVELS)
        except UnwritableError as error:
            self.unwritten[str(error)] += 1
            return []

    def summary(self) -> dict[str, Any]:
        return {"unwritten": dict(self.unwritten)} if self.unwritten else {}


def make(cfg: DictConfig) -> TemplateTeacher:
    levels = cfg.get("chain_levels", 1)
    if not 1 <= levels <= len(chain.LEVELS):
        raise UserError(f"teacher.chain_levels={levels} is not possible; give 1 to {len(chain.LEVELS)}")
    return TemplateTeacher(levels)
