"""Inductor as a teacher: the kernels that `torch.compile` generates, as stand-alone candidates in C++ or Triton.

AutoTriton's second route (arXiv 2507.05687) and KernelBook's, without a language model in between. Inductor's output
code is taken before it is compiled; its wrapper becomes `ModelNew.forward`, its kernels lose their dependence on
PyTorch's headers, and its fusion decisions become the reasoning. It needs no GPU for either dialect. Where Inductor
calls a library (`extern_kernels.mm`), the candidate has a kernel of its own; what has none is passed over and counted.
"""

from __future__ import annotations

import traceback
import warnings
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from typing import Any

from omegaconf import DictConfig

from kernelrl.configs import to_dict
from kernelrl.data.construction import assemble
from kernelrl.data.teachers import Proposal, Teacher
from kernelrl.data.workers import Limits, Lost, run_in_order
from kernelrl.task import Task

MEMORY_MB = 16_384
"""Private memory of a worker (in MiB)."""


class InductorTeacher(Teacher):
    """Args:
    levels: by level, best first: settings of `torch._inductor.config`, e.g. `{"separate": {"max_fusion_size": 1}}`.
    timeout_s: time for one task at one level (in seconds); a worker that takes longer is killed.
    workers: processes; None: one per core.
    """

    name = "inductor"
    dialects = frozenset({"cpp", "triton"})

    def __init__(self, levels: Mapping[str, Mapping[str, Any]], timeout_s: float, workers: int | None):
        self._levels = levels
        self._timeout_s = timeout_s
        self._workers = workers
        self._tasks = 0
        self._converted = 0
        self._reasons: Counter[str] = Counter()

    def proposals(self, tasks: Iterable[Task], dialect: str) -> Iterator[tuple[Task, Proposal]]:
        work = ((task, dialect, level, dict(patches)) for task in tasks for level, patches in self._levels.items())
        results = run_in_order(translate, work, Limits(self._timeout_s, MEMORY_MB, self._workers), _prepare)
        while outcomes := list(islice(results, len(self._levels))):
            yield from self._collect(outcomes[0][0][0], [outcome for _, outcome in outcomes])

    def summary(self) -> dict[str, Any]:
        return {"tasks": self._tasks, "converted": self._converted, "not_converted": dict(self._reasons.most_common())}

    def _collect(self, task: Task, outcomes: list[Proposal | str | Lost]) -> Iterator[tuple[Task, Proposal]]:
        """The task's proposals, each text once."""
        proposals = {item.source: item for item in reversed(outcomes) if isinstance(item, Proposal)}
        self._tasks += 1
        self._converted += bool(proposals)
        if not proposals:
            lost = {"out of time": "took too long", "its worker process died": "crashed", "an exception": "raised"}
            first = outcomes[0]
            self._reasons[lost[first.reason] if isinstance(first, Lost) else str(first)] += 1
        yield from ((task, proposal) for proposal in reversed(proposals.values()))


def make(cfg: DictConfig) -> InductorTeacher:
    return InductorTeacher(to_dict(cfg.levels), cfg.timeout_s, cfg.workers)


def translate(work: tuple[Task, str, str, dict[str, Any]]) -> Proposal | str:
    """One candidate, or the reason why there is none. Runs in a worker process: it runs the task's code.

    Args:
        work: task, dialect, level, and the level's settings of `torch._inductor.config`.
    """
    from kernelrl.data.teachers.inductor import capture, cpp, reasoning, triton, wrapper
    from kernelrl.data.teachers.inductor.cpp_library import CppLibrary
    from kernelrl.data.teachers.inductor.library import Library
    from kernelrl.data.teachers.inductor.triton_library import TritonLibrary

    task, dialect, level, patches = work
    language = {"cpp": cpp, "triton": triton}[dialect]
    library: Library = CppLibrary() if dialect == "cpp" else TritonLibrary()
    try:
        captured = capture.capture(task, dialect, patches)
        device = f", device={captured.inputs[0]}.device" if dialect == "triton" and captured.inputs else ""
        parts = wrapper.translate(captured, language.launcher, library, device)
        if not parts.kernels and not library.functions:
            return "nothing to compute"
        text = language.module_text(parts.kernels, library.functions)
        source = assemble(text, task, captured.inputs, parts.statements, parts.returned)
    except capture.NotConvertible as error:
        return str(error)
    except Exception as error:  # Inductor's text has forms that nobody has seen yet
        place = traceback.extract_tb(error.__traceback__)[-1]
        return f"unforeseen text: {type(error).__name__} in {place.name}"
    return Proposal(reasoning.explain(captured, level, library.reasons), source, level=level)


def _prepare() -> None:
    """Import what takes seconds before the clock of the first task starts."""
    import kernelrl.data.teachers.inductor.capture  # noqa: F401

    warnings.filterwarnings("ignore")  # of torch about itself, once for each task
