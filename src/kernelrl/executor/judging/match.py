"""What one judgement is about, and what it works with."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from kernelrl.candidate import ENTRY_POINT, Candidate
from kernelrl.executor.api import ExecutorSettings
from kernelrl.executor.building.builder import Builder
from kernelrl.executor.judging.findings import Findings
from kernelrl.executor.judging.reference import Reference
from kernelrl.executor.processes.closed_library import ClosedLibrary
from kernelrl.executor.processes.cores import Cores
from kernelrl.executor.processes.process import Needs, Process


@dataclass(frozen=True)
class Match:
    """One candidate against the reference of its task."""

    candidate: Candidate
    reference: Reference
    settings: ExecutorSettings
    start: Callable[[Needs], Process]
    """Starts a contestant process."""
    builder: Builder
    library: ClosedLibrary
    """Closes the libraries' code in the candidate's process."""
    cores: Cores
    """Says when the candidate may run."""
    found: Findings
    """Takes what is found out."""
    unreached: list[list[int]] | None
    """Where functions of the candidate stand whose bodies are left out, see `import_text`."""
    dialect: str
    """That was asked for. In `python`, operators of PyTorch that compute are no violation."""
    may_learn: bool
    """Let a candidate that dies on a closed page teach that it is needed."""

    @property
    def load_question(self) -> dict[str, Any]:
        """The question that loads the candidate, but for what its constructor gets."""
        question = {"do": "load", "source": self.candidate.source, "entry": ENTRY_POINT}
        return question | {"unreached": self.unreached}

    @property
    def must_do_the_work(self) -> bool:
        """PyTorch's operators may not do the kernel's work."""
        return self.dialect != "python"

    @property
    def interpreted(self) -> bool:
        """Triton's interpreter runs the kernel, and its time says nothing."""
        return self.dialect == "triton" and self.settings.device == "cpu"

    @property
    def call_limit_s(self) -> float:
        """Limit of a call that is not timed (in seconds): on a GPU, Triton compiles in the first."""
        compiles = self.dialect == "triton" and self.settings.device == "cuda"
        return self.settings.run_timeout_s + (self.settings.build_timeout_s if compiles else 0.0)
