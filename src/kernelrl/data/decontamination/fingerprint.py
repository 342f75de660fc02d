"""What of a task is compared, computed in worker processes and kept in a cache by the task's source.

Tracing runs the task, so it may crash, hang or eat memory: that costs the one task its operator graph, and is reported.
The workers isolate crashes, not hostile code.
"""

from __future__ import annotations

import ast
import hashlib
import signal
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import FrameType
from typing import NoReturn

import diskcache
import torch

from kernelrl.console import Tracker, track
from kernelrl.data.decontamination.graph import canonical_hash
from kernelrl.data.decontamination.near import shingles, signature
from kernelrl.data.decontamination.settings import Settings
from kernelrl.data.decontamination.trace import OperatorGraph, trace
from kernelrl.data.disk_map import DiskMap
from kernelrl.data.program import NormalisedProgram, normalise
from kernelrl.data.workers import Limits, Lost, run_apart
from kernelrl.task import Task

VERSION = 2
"""Of what this folder computes: raise it when an operator graph or a hash changes."""
CHUNK = 32
"""Tasks that a worker gets at once."""
GRACE_S = 60.0
"""Seconds beyond a task's timeout after which a worker is killed; the tasks of a chunk are then tried one by one."""


@dataclass(frozen=True)
class TracedGraph:
    """An operator graph with its canonical hashes, with and without sizes."""

    graph: OperatorGraph
    hash: str
    sized_hash: str


@dataclass(frozen=True)
class Fingerprint:
    """What of one task is compared."""

    exact: str
    """Hash of the source without whitespace, comments and docstrings."""
    program: NormalisedProgram | None
    """None: it does not parse."""
    signature: bytes | None
    """MinHash of its tokens; None: it does not parse."""
    traced: TracedGraph | None
    """None: it could not be traced, or does nothing."""
    untraced: str | None = None
    """Why there is no operator graph."""
    is_final: bool = True
    """False where another attempt may trace it: it ran out of time, or its worker died."""


def fingerprint_all(tasks: Collection[Task], settings: Settings, title: str) -> Iterator[tuple[Task, Fingerprint]]:
    """The tasks, in their order, each with its fingerprint. They are iterated over twice.

    All fingerprints are computed before the first one is returned. What the cache holds is not computed again, so that
    a killed run goes on where it was, and fingerprints are not in memory.
    """
    folder = Path(settings.cache_dir).expanduser() / "fingerprints"
    with diskcache.Cache(str(folder), eviction_policy="none", disk_min_file_size=1 << 20) as cache:
        failed: dict[str, Fingerprint] = {}
        with track(len(tasks), "tracing tasks") as progress:
            for results in _compute(_missing(tasks, cache, settings, progress), settings):
                with cache.transact():
                    for source, fingerprint in results:
                        if fingerprint.is_final:
                            cache.set(_key(source, settings), fingerprint)
                        else:
                            failed[_key(source, settings)] = fingerprint
                progress.advance(len(results))
        with track(len(tasks), title) as progress:
            for task in tasks:
                key = _key(task.source, settings)
                yield task, failed[key] if key in failed else cache[key]
                progress.advance()


def _missing(tasks: Iterable[Task], cache: diskcache.Cache, settings: Settings, progress: Tracker) -> Iterator[str]:
    """The sources of which the cache has no fingerprint, each once."""
    seen: DiskMap[None] = DiskMap()
    for task in tasks:
        key = _key(task.source, settings)
        if seen.add(key) and key not in cache:
            yield task.source
        else:
            progress.advance()


def fingerprint(source: str, settings: Settings) -> Fingerprint:
    """The fingerprint of one program, which is executed: call this in a worker process only."""
    signal.signal(signal.SIGPROF, _raise_out_of_time)
    signal.setitimer(signal.ITIMER_PROF, settings.timeout_s)  # processor time: a busy machine is no reason
    try:
        return _describe(source, settings, trace(source))
    except BaseException as error:  # a task may also call exit()
        is_final = not isinstance(error, _OutOfTime | MemoryError)
        return _describe(source, settings, None, f"{type(error).__name__}: {error}"[:200], is_final)
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0.0)


class _OutOfTime(BaseException):
    """Not an `Exception`: a task must not catch it, and a second attempt must not follow it."""


def _describe(
    source: str,
    settings: Settings,
    graph: OperatorGraph | None,
    untraced: str | None = None,
    is_final: bool = True,
) -> Fingerprint:
    traced = None
    if graph is not None and graph.has_operators:
        traced = TracedGraph(graph, canonical_hash(graph, sizes=False), canonical_hash(graph, sizes=True))
    try:
        program = normalise(source)
        minhash = signature(shingles(source, settings.shingle), settings.permutations)
        exact = _exact(source)
    except Exception:  # whatever an odd program breaks, it is compared as text
        exact, program, minhash = _digest(" ".join(source.split())), None, None
    if traced is None and untraced is None:
        untraced = "its output depends on no operator"
    return Fingerprint(exact, program, minhash, traced, untraced, is_final)


def _exact(source: str) -> str:
    tree = ast.parse(source)
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef):
            node.body = [x for x in node.body if not (isinstance(x, ast.Expr) and isinstance(x.value, ast.Constant))]
    return _digest(ast.dump(tree))


def _digest(text: str) -> str:
    return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()


def _key(source: str, settings: Settings) -> str:
    return _digest(repr((VERSION, torch.__version__, settings.shingle, settings.permutations, source)))


def _compute(sources: Iterable[str], settings: Settings) -> Iterator[list[tuple[str, Fingerprint]]]:
    """Fingerprints in batches, from worker processes; a task that kills its worker takes no other task with it."""
    limits = Limits(settings.timeout_s + GRACE_S, settings.memory_mb, settings.workers)
    for results in run_apart(partial(fingerprint, settings=settings), sources, limits, CHUNK):
        yield [
            (source, _describe(source, settings, None, result.error or result.reason, is_final=False))
            if isinstance(result, Lost)
            else (source, result)
            for source, result in results
        ]


def _raise_out_of_time(signal_number: int, frame: FrameType | None) -> NoReturn:
    raise _OutOfTime("no operator graph within the time limit")
