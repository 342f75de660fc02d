"""One timed call: the same for a candidate, for the reference and for the compiled one."""

from __future__ import annotations

from collections.abc import Callable
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
    meanwhile: Callable[[], None],
    do: str = "run",
) -> tuple[dict[str, Any], float]:
    """Answer to a call on fresh inputs, and its time (in seconds).

    It follows an untimed call of the same process on older inputs, so that it does not find the state in which another
    process has left the processor.

    Args:
        process: frozen; its threads are where they are to run.
        arena: its memory for inputs.
        case: the inputs.
        settings: limit of time, state of the processor's caches.
        meanwhile: work to do while the untimed call runs.
        do: the question.

    Raises:
        ProcessFailure
    """

    def ask(message: dict[str, Any]) -> dict[str, Any]:
        return process.ask(message, settings.run_timeout_s)[0]

    arena.arrange(case.shape.layout, ask)
    process.ask({"do": "warm"}, settings.run_timeout_s, meanwhile=meanwhile)
    arena.put(case.image, ask)
    machine.settle_caches(settings.cpu_cache)
    return process.ask({"do": do}, settings.run_timeout_s)
