"""One call of a process: the same for a candidate, for the reference and for the compiled one, timed or not."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import Any

from kernelrl.executor import machine
from kernelrl.executor.api import ExecutorSettings
from kernelrl.executor.judging.arena import Arena, Case
from kernelrl.executor.processes.process import Process


def time_call(
    process: Process,
    arena: Arena,
    case: Case,
    settings: ExecutorSettings,
    limit_s: float | None = None,
    around: AbstractContextManager[object] = nullcontext(),  # noqa: B008
) -> tuple[dict[str, Any], float]:
    """Answer to a call on fresh inputs, and its time (in seconds).

    Args:
        process: frozen; its threads are where they are to run.
        arena: its memory.
        case: the inputs.
        settings: limit of time, state of the processor's caches.
        limit_s: of each question (in seconds); None: that of the settings.
        around: is entered before the call, with the inputs in place, and left after it.

    Raises:
        ProcessFailure
        ValueError: the process has not said which memory the call may use.
    """

    limit_s = limit_s or settings.run_timeout_s

    def ask(message: dict[str, Any]) -> dict[str, Any]:
        return process.ask(message, limit_s, alone=True)[0]

    arena.arrange(case.shape.layout, ask)
    arena.put(case.image, case.outputs, ask)
    machine.settle_caches(settings.cpu_cache)
    with around:
        return process.ask({"do": "run", "recorded": False}, limit_s, alone=True)
