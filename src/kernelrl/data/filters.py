"""Which tasks are worth training on: each candidate task is run a few times in a worker process.

CUDA-Agent's filters (it runs, also compiled; it is deterministic; its output is not constant; its time lies within
bounds) and some more; `DropReason` names them all.
"""

from __future__ import annotations

import json
import signal
import time
from collections.abc import Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, Literal

import torch
from pydantic import BaseModel, ConfigDict, Field, NonNegativeFloat, PositiveFloat, PositiveInt
from torch.utils._pytree import tree_leaves

from kernelrl.console import Tracker, track
from kernelrl.data.disk_map import DiskMap
from kernelrl.data.idle import find_idle
from kernelrl.data.program import hash_program
from kernelrl.data.workers import Limits, Lost, run_apart
from kernelrl.task import Task

DropReason = Literal[
    "duplicate",  # of an earlier task, but for names, layout and dead code
    "does_not_run",
    "crashes",  # and takes its process with it
    "too_slow",
    "too_much_memory",
    "not_finite",
    "not_deterministic",
    "constant_output",
    "input_independent",
    "too_fast",
    "does_not_compile",
    "compiled_differs",
    "idle_operator",  # one may be left out, and nothing changes
]
NUM_TIMED_RUNS = 5
FAR_BEYOND = 10
"""A call that takes this many times the bound decides alone: no later one would be so much faster."""
GRACE_S = 30.0
"""Seconds beyond a task's timeout after which its worker is killed: a native loop hears no alarm."""


class FilterSettings(BaseModel):
    """Settings of the filters (`configs/filters`)."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    ignore: frozenset[DropReason] = frozenset()
    """Reasons that drop no task."""
    min_ms: NonNegativeFloat = 0.05
    """Bounds on the fastest of a few calls (in milliseconds, on one thread)."""
    max_ms: PositiveFloat = 100.0
    max_mb: PositiveFloat = 512.0
    """Largest size of inputs, parameters and outputs together (in MB)."""
    tolerance: PositiveFloat = 1e-4
    """Outputs closer than this, relative to their size, are the same: the executor would take one for the other."""
    min_varying: float = Field(0.01, ge=0, le=1)
    """Smallest share of the outputs' elements that other inputs must change."""
    timeout_s: PositiveFloat = 20.0
    """Time for all calls of one task (in seconds)."""
    memory_mb: PositiveInt = 8192
    """Private memory of the process that runs a task (in MiB)."""
    compile: bool = False
    """Run the task under `torch.compile` too and compare; 10 s and more a task on a CPU."""


def probe_all(
    tasks: Iterable[Task], number: int, settings: FilterSettings, results: Path
) -> DiskMap[DropReason | None]:
    """Probe tasks in parallel, reading no further ahead than the workers need.

    Args:
        number: of the tasks.
        results: file with one JSON line per probed task; those in it already are not probed again.

    Returns:
        Why to drop each task, by task id; None: keep it.
    """
    reasons = _read_results(results)
    with open(results, "a") as file, track(number, "checking tasks") as progress:
        for task, reason in _probe(_missing(tasks, settings, reasons, progress), settings):
            reasons[task.id] = reason
            file.write(json.dumps({"task_id": task.id, "drop": reason}) + "\n")
            file.flush()
            progress.advance()
    return reasons


def _missing(
    tasks: Iterable[Task], settings: FilterSettings, reasons: DiskMap[DropReason | None], progress: Tracker
) -> Iterator[Task]:
    """The tasks to probe. Duplicates are noted among the reasons; of equal tasks the first is probed."""
    programs: DiskMap[None] = DiskMap()
    for task in tasks:
        if "duplicate" not in settings.ignore and not programs.add(hash_program(task.source)):
            reasons[task.id] = "duplicate"
        elif task.id not in reasons:
            yield task
            continue
        progress.advance()


def _probe(tasks: Iterable[Task], settings: FilterSettings) -> Iterator[tuple[Task, DropReason | None]]:
    """Tasks and why to drop them, as they come."""
    limits = Limits(settings.timeout_s + GRACE_S, settings.memory_mb)
    lost: dict[str, DropReason] = {
        "out of time": "too_slow",
        "its worker process died": "crashes",
        "an exception": "does_not_run",
    }
    for results in run_apart(partial(_probe_task, settings=settings), tasks, limits):
        for task, result in results:
            reason = lost[result.reason] if isinstance(result, Lost) else result
            yield task, None if reason in settings.ignore else reason


def _probe_task(task: Task, settings: FilterSettings) -> DropReason | None:
    return probe(task.source, settings)


def probe(source: str, settings: FilterSettings) -> DropReason | None:
    """Run a task's reference, in the main thread of a process, and say why it is not worth training on.

    Args:
        source: the task in KernelBench's format.

    Returns:
        The first reason that is not ignored; None: it is worth it.
    """
    signal.signal(signal.SIGALRM, _give_up)
    signal.setitimer(signal.ITIMER_REAL, settings.timeout_s)
    try:
        return next((reason for reason in _reasons(source, settings) if reason not in settings.ignore), None)
    except TimeoutError:
        return None if "too_slow" in settings.ignore else "too_slow"
    except Exception:  # whatever a task raises, it is not usable
        return "does_not_run"
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)


def _give_up(number: int, frame: object) -> None:
    raise TimeoutError


def _reasons(source: str, settings: FilterSettings) -> Iterator[DropReason]:
    program: dict[str, Any] = {}
    exec(compile(source, "task", "exec"), program)
    inputs = _draw(program, seed=0)
    torch.manual_seed(0)
    model = program["Model"](*program["get_init_inputs"]())
    with torch.no_grad():
        if _megabytes([inputs, *model.parameters(), *model.buffers()]) > settings.max_mb:
            yield "too_much_memory"
        milliseconds = _fastest(model, inputs, settings.max_ms)
        if milliseconds > settings.max_ms:
            yield "too_slow"
        outputs = _call(model, inputs)
        if _megabytes([inputs, *model.parameters(), *model.buffers(), outputs]) > settings.max_mb:
            yield "too_much_memory"
        others = _draw(program, seed=1)
        again, different = _call(model, inputs), _call(model, others)
        if not all(output.isfinite().all() for output in (*outputs, *different)):
            yield "not_finite"
        if not all(torch.equal(a, b) for a, b in zip(outputs, again, strict=True)):
            yield "not_deterministic"
        if all(output.numel() > 1 and _share_apart(output, output.flatten()[0], settings) == 0 for output in outputs):
            yield "constant_output"
        if all(_share_apart(*pair, settings) < settings.min_varying for pair in zip(outputs, different, strict=True)):
            yield "input_independent"
        if milliseconds < settings.min_ms:
            yield "too_fast"
        if settings.compile:
            yield from _compiled_reasons(model, inputs, outputs, settings)
        if "idle_operator" not in settings.ignore and find_idle(
            program, source, model, inputs, partial(_same, settings=settings)
        ):
            yield "idle_operator"


def _same(output: torch.Tensor, other: torch.Tensor, settings: FilterSettings) -> bool:
    return output.shape == other.shape and _share_apart(output, other, settings) == 0


def _compiled_reasons(
    model: torch.nn.Module, inputs: list[Any], outputs: list[torch.Tensor], settings: FilterSettings
) -> Iterator[DropReason]:
    try:
        compiled = _call(torch.compile(model), inputs)  # type: ignore[arg-type]
    except TimeoutError:
        raise
    except Exception:  # the compiler's own errors have no common base
        yield "does_not_compile"
        return
    if any(_share_apart(a, b, settings) > settings.min_varying for a, b in zip(outputs, compiled, strict=True)):
        yield "compiled_differs"


def _draw(program: dict[str, Any], seed: int) -> list[Any]:
    torch.manual_seed(seed)
    return list(program["get_inputs"]())


def _call(model: torch.nn.Module, inputs: list[Any]) -> list[torch.Tensor]:
    return [leaf.clone() for leaf in tree_leaves(model(*inputs)) if isinstance(leaf, torch.Tensor)]


def _megabytes(tensors: list[Any]) -> float:
    return sum(leaf.nbytes for leaf in tree_leaves(tensors) if isinstance(leaf, torch.Tensor)) / 1e6


def _fastest(model: torch.nn.Module, inputs: list[Any], enough_ms: float) -> float:
    """Time of the fastest of a few calls (in milliseconds): of fewer where one of them is far beyond `enough_ms`."""
    fastest = float("inf")
    for _ in range(NUM_TIMED_RUNS):
        started = time.perf_counter()
        model(*inputs)
        fastest = min(fastest, (time.perf_counter() - started) * 1e3)
        if fastest > FAR_BEYOND * enough_ms:
            break
    return fastest


def _share_apart(a: torch.Tensor, b: torch.Tensor, settings: FilterSettings) -> float:
    """Share of the elements that are not the same to within the tolerance."""
    close = torch.isclose(a.double(), b.double(), rtol=settings.tolerance, atol=settings.tolerance / 10)
    return 1.0 - float(close.double().mean())


def _read_results(path: Path) -> DiskMap[DropReason | None]:
    reasons: DiskMap[DropReason | None] = DiskMap()
    whole = 0
    with open(path, "ab+") as file:
        file.seek(0)
        for line in file:
            if line.endswith(b"\n"):
                entry = json.loads(line)
                reasons[entry["task_id"]] = entry["drop"]
                whole += len(line)
        file.truncate(whole)  # a killed run may leave half a line
    return reasons
