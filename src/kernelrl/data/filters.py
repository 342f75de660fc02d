"""Which tasks are worth training on: each candidate task is run a few times in a worker process.

The workers trust the tasks: they isolate crashes from curation, not hostile code.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from multiprocessing import get_context
from pathlib import Path
from typing import Any, Literal

import torch
from torch.utils._pytree import tree_leaves

from kernelrl.console import track
from kernelrl.records import write_atomically
from kernelrl.task import Task

DropReason = Literal[
    "does_not_run", "not_finite", "not_deterministic", "constant_output", "input_independent", "too_fast"
]
NUM_TIMED_RUNS = 5
RTOL, ATOL = 1e-4, 1e-5
"""Outputs closer than this are the same: a kernel that returned a constant could pass the executor's check."""


def probe_all(tasks: Sequence[Task], min_ms: float, results: Path) -> dict[str, DropReason | None]:
    """Probe tasks in parallel.

    Args:
        min_ms: see `probe`.
        results: file with one JSON line per probed task; those in it already are not probed again.

    Returns:
        Why to drop each task, by task id; None: keep it.
    """
    reasons = _read_results(results)
    missing = [task for task in tasks if task.id not in reasons]
    if not missing:
        return reasons
    context = get_context("spawn")
    with (
        ProcessPoolExecutor(os.cpu_count(), context, initializer=torch.set_num_threads, initargs=(1,)) as pool,
        track(len(missing), "checking tasks") as progress,
        open(results, "a") as file,
    ):
        futures = {pool.submit(probe, task.source, min_ms): task for task in missing}
        for future in as_completed(futures):
            task, reason = futures[future], future.result()
            reasons[task.id] = reason
            file.write(json.dumps({"task_id": task.id, "drop": reason}) + "\n")
            file.flush()
            progress.advance()
    return reasons


def probe(source: str, min_ms: float) -> DropReason | None:
    """Run a task's reference, and say why it is not worth training on; None: it is.

    Args:
        source: the task in KernelBench's format.
        min_ms: drop it if the fastest of a few calls takes less (in milliseconds, on one thread).
    """
    program: dict[str, Any] = {}
    try:
        exec(compile(source, "task", "exec"), program)
        inputs, others = _draw(program, seed=0), _draw(program, seed=1)
        torch.manual_seed(0)
        model = program["Model"](*program["get_init_inputs"]())
        with torch.no_grad():
            outputs, again, different = _call(model, inputs), _call(model, inputs), _call(model, others)
            milliseconds = min(_time(model, inputs) for _ in range(NUM_TIMED_RUNS))
    except Exception:  # whatever a task raises, it is not usable
        return "does_not_run"
    if not all(torch.isfinite(output).all() for output in outputs):
        return "not_finite"
    if not all(torch.equal(a, b) for a, b in zip(outputs, again, strict=True)):
        return "not_deterministic"
    if all(_is_constant(output) for output in outputs):
        return "constant_output"
    if all(_is_close(a, b) for a, b in zip(outputs, different, strict=True)):
        return "input_independent"
    return "too_fast" if milliseconds < min_ms else None


def _draw(program: dict[str, Any], seed: int) -> list[Any]:
    torch.manual_seed(seed)
    return list(program["get_inputs"]())


def _call(model: torch.nn.Module, inputs: list[Any]) -> list[torch.Tensor]:
    return [leaf.double() for leaf in tree_leaves(model(*inputs)) if isinstance(leaf, torch.Tensor)]


def _time(model: torch.nn.Module, inputs: list[Any]) -> float:
    started = time.perf_counter()
    model(*inputs)
    return (time.perf_counter() - started) * 1e3


def _is_constant(output: torch.Tensor) -> bool:
    """All elements equal to within what float32 can tell; a single number is no constant by itself."""
    return output.numel() > 1 and _is_close(output, output.flatten()[0])


def _is_close(a: torch.Tensor, b: torch.Tensor) -> bool:
    return torch.allclose(a, b, rtol=RTOL, atol=ATOL)


def _read_results(path: Path) -> dict[str, DropReason | None]:
    if not path.exists():
        return {}
    text = path.read_text()
    whole = text[: text.rfind("\n") + 1]  # a killed run may leave half a line
    if whole != text:
        write_atomically(path, whole)
    return {entry["task_id"]: entry["drop"] for entry in map(json.loads, whole.splitlines())}
