"""Worker processes that run other people's programs: one that crashes, hangs or eats memory costs no other its result.

The workers isolate accidents, not hostile code; candidates go to the executor.
"""

from __future__ import annotations

import os
import resource
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, wait
from dataclasses import dataclass
from itertools import islice
from multiprocessing import get_context
from multiprocessing.context import ForkServerContext
from typing import Literal, TypeVar

import torch
from pebble import ProcessExpired, ProcessPool

Item = TypeVar("Item")
Result = TypeVar("Result")
QUEUED = 3
"""Chunks handed to the pool for each worker: enough that none waits, few enough that memory stays flat."""


@dataclass(frozen=True)
class Limits:
    """What one program may use."""

    timeout_s: float
    """After so long (in seconds, by the clock) the worker is killed."""
    memory_mb: int
    """Private memory of a worker (in MiB)."""
    workers: int | None = None
    """Number of processes; None: one per core."""


@dataclass(frozen=True)
class Lost:
    """Instead of a result: the worker is gone."""

    reason: Literal["out of time", "its worker process died"]


def forkserver_context() -> ForkServerContext:
    """Processes that fork from one that has imported what tasks need, so that a new one starts in milliseconds."""
    context = get_context("forkserver")
    context.set_forkserver_preload(["kernelrl.data.decontamination.warm"])
    return context


def run_apart(
    function: Callable[[Item], Result], items: Iterable[Item], limits: Limits, chunk: int = 1
) -> Iterator[list[tuple[Item, Result | Lost]]]:
    """Results of a function in worker processes, as they come, a chunk of items at a time.

    Args:
        function: takes an item; both and the result are pickled. It runs in the main thread of its process.
        items: read no further ahead than the workers need.
        chunk: items that a worker gets at once. The items of a chunk that loses its worker are tried one by one.
    """
    workers = limits.workers or os.cpu_count() or 1
    remaining = iter(items)
    pending: dict[Future[list[Result]], list[Item]] = {}
    with ProcessPool(
        workers, context=forkserver_context(), initializer=_start_worker, initargs=(limits.memory_mb,)
    ) as pool:

        def schedule(some: list[Item]) -> None:
            pending[pool.schedule(_run_all, (function, some), timeout=limits.timeout_s)] = some

        while True:
            while len(pending) < QUEUED * workers and (some := list(islice(remaining, chunk))):
                schedule(some)
            if not pending:
                return
            done, _ = wait(pending, return_when=FIRST_COMPLETED)
            for future in done:
                some = pending.pop(future)
                try:
                    yield list(zip(some, future.result(), strict=True))
                except (ProcessExpired, TimeoutError) as error:
                    if len(some) == 1:
                        ran_out = isinstance(error, TimeoutError)
                        yield [(some[0], Lost("out of time" if ran_out else "its worker process died"))]
                    else:
                        for item in some:
                            schedule([item])


def _run_all(function: Callable[[Item], Result], items: list[Item]) -> list[Result]:
    return [function(item) for item in items]


def _start_worker(memory_mb: int) -> None:
    """One thread, a memory limit, and nowhere for programs to print to."""
    torch.set_num_threads(1)
    limit = memory_mb << 20
    resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    os.dup2(nowhere, 2)
