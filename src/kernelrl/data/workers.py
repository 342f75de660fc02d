"""Worker processes that run other people's programs: one that crashes, hangs or eats memory costs no other its result.

The workers isolate accidents, not hostile code; candidates go to the executor.
"""

from __future__ import annotations

import os
import resource
import tempfile
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, wait
from dataclasses import dataclass
from functools import partial
from itertools import islice
from multiprocessing import get_context
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
    fresh: bool = False
    """A new process for each chunk, so that what a program changes in its process meets no other program."""


@dataclass(frozen=True)
class Lost:
    """Instead of a result: the worker is gone, or the function raised an exception."""

    reason: Literal["out of time", "its worker process died", "an exception"]
    error: str = ""
    """Type and text of the exception."""

    @classmethod
    def to(cls, error: BaseException) -> Lost:
        if isinstance(error, TimeoutError):
            return cls("out of time")
        if isinstance(error, ProcessExpired):
            return cls("its worker process died")
        return cls("an exception", f"{type(error).__name__}: {error}")


def run_in_order(
    function: Callable[[Item], Result], items: Iterable[Item], limits: Limits, prepare: Callable[[], None] | None = None
) -> Iterator[tuple[Item, Result | Lost]]:
    """Results of a function in worker processes, in the order of the items; see `run_apart`."""
    ready: dict[int, tuple[Item, Result | Lost]] = {}
    position = 0
    for results in run_apart(partial(_run_second, function), enumerate(items), limits, prepare=prepare):
        ready |= {index: (item, result) for (index, item), result in results}
        while position in ready:
            yield ready.pop(position)
            position += 1


def run_apart(
    function: Callable[[Item], Result],
    items: Iterable[Item],
    limits: Limits,
    chunk: int = 1,
    prepare: Callable[[], None] | None = None,
) -> Iterator[list[tuple[Item, Result | Lost]]]:
    """Results of a function in worker processes, as they come, a chunk of items at a time.

    Closing the iterator ends the work.

    Args:
        function: takes an item; both and the result are pickled. It runs in the main thread of its process.
        items: read no further ahead than the workers need.
        chunk: items that a worker gets at once. The items of a chunk that is lost are tried one by one.
        prepare: is called when a worker starts, before the clock of its first item.
    """
    workers = limits.workers or os.cpu_count() or 1
    remaining = iter(items)
    pending: dict[Future[list[Result]], list[Item]] = {}
    context = get_context("forkserver")
    context.set_forkserver_preload(["kernelrl.data.decontamination.warm"])  # a new process starts in milliseconds
    pool = ProcessPool(workers, int(limits.fresh), _start_worker, (limits.memory_mb, prepare), context)

    def schedule(some: list[Item]) -> None:
        pending[pool.schedule(_run_all, (function, some), timeout=limits.timeout_s)] = some

    try:
        while True:
            while len(pending) < QUEUED * workers and (some := list(islice(remaining, chunk))):
                schedule(some)
            if not pending:
                return
            done, _ = wait(pending, return_when=FIRST_COMPLETED)
            for future in done:
                some = pending.pop(future)
                error = future.exception()
                if error is None:
                    yield list(zip(some, future.result(), strict=True))
                elif len(some) == 1:
                    yield [(some[0], Lost.to(error))]
                else:
                    for item in some:
                        schedule([item])
    finally:
        pool.stop()  # type: ignore[no-untyped-call]
        pool.join()


def _run_second(function: Callable[[Item], Result], numbered: tuple[int, Item]) -> Result:
    return function(numbered[1])


def _run_all(function: Callable[[Item], Result], items: list[Item]) -> list[Result]:
    return [function(item) for item in items]


def _start_worker(memory_mb: int, prepare: Callable[[], None] | None) -> None:
    """One thread, a memory limit, nowhere for programs to print to, and a folder in which their files are no harm."""
    torch.set_num_threads(1)
    limit = memory_mb << 20
    resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    os.chdir(tempfile.gettempdir())
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    os.dup2(nowhere, 2)
    if prepare:
        prepare()
