"""The teacher that passes on the kernels that a source publishes beside its tasks, such as KernelBook's Triton."""

from __future__ import annotations

from collections import Counter
from typing import Any

from omegaconf import DictConfig

from kernelrl.data.sources import Kernel, load_kernels
from kernelrl.data.teachers import Proposal, Teacher
from kernelrl.task import Task


class PairedTeacher(Teacher):
    """Knows the kernels of one source by task id.

    Args:
        kernels: by task id, unverified.
        reasoning: what it says before each of them.
    """

    name = "paired"

    def __init__(self, kernels: dict[str, list[Kernel]], reasoning: str):
        self._kernels = kernels
        self._reasoning = reasoning
        self._unconverted: Counter[str] = Counter()
        self.dialects = frozenset(kernel.dialect for pair in kernels.values() for kernel in pair)

    def propose(self, task: Task, dialect: str) -> list[Proposal]:
        kernels = [kernel for kernel in self._kernels.get(task.id, []) if kernel.dialect == dialect]
        return [Proposal(self._reasoning, source) for kernel in kernels if (source := self._convert(kernel, task))]

    def summary(self) -> dict[str, Any]:
        return {"not_converted": dict(self._unconverted.most_common())}

    def _convert(self, kernel: Kernel, task: Task) -> str | None:
        """Inductor's published form imports Inductor, which no candidate may; None: it cannot do without."""
        from kernelrl.data.teachers.inductor import published  # seconds: only where it is needed
        from kernelrl.data.teachers.inductor.capture import NotConvertible

        if not published.is_published(kernel.source):
            return kernel.source
        try:
            return published.convert(kernel.source, task)
        except NotConvertible as reason:
            self._unconverted[str(reason)] += 1
            return None


def make(cfg: DictConfig) -> PairedTeacher:
    """The teacher of `cfg.tasks`.

    Raises:
        UserError: that source publishes no kernels.
    """
    return PairedTeacher(load_kernels(cfg.tasks), cfg.reasoning)
