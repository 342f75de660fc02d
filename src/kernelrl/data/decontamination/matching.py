"""`find`: which training tasks are in a benchmark, and how alike they are."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

from kernelrl.data.decontamination.fingerprint import Fingerprint, fingerprint_all
from kernelrl.data.decontamination.graph import is_isomorphic
from kernelrl.data.decontamination.inputs import Benchmark
from kernelrl.data.decontamination.known import is_own
from kernelrl.data.decontamination.near import NearIndex, estimate, jaccard, shingles
from kernelrl.data.decontamination.parts import contains, working_labels
from kernelrl.data.decontamination.settings import KINDS, Kind, Settings
from kernelrl.data.disk_map import DiskMap
from kernelrl.task import Task


@dataclass(frozen=True)
class Match:
    """A training task that is, or resembles, a task of a benchmark."""

    task: str
    """Id of the training task."""
    benchmark: str
    """Name of the benchmark."""
    benchmark_task: str
    """Id of the task in it."""
    kind: Kind
    """The strongest kind that finds the pair."""
    score: float
    """Jaccard similarity of the token shingles for `near`; 1 for the others, which are equalities."""
    operators: int | None
    """Operators of the benchmark task, as the dispatcher counts them; None: it could not be traced."""
    same_sizes: bool
    """Whether shapes, dtypes and numbers agree too."""
    own: bool
    """The training task was taken from this known benchmark on purpose, and is kept."""
    drop: bool
    """Whether this match costs the training task its place."""


Untraced = dict[tuple[str, str], str]
"""Why a task has no operator graph, by (`train` or the benchmark's name, task id)."""


def find(
    tasks: Collection[Task], benchmarks: Sequence[Benchmark], settings: Settings, untraced: Untraced
) -> Iterator[Match]:
    """Compare every training task with every task of every benchmark.

    Tasks are executed, in worker processes. Fingerprints are cached: a second call only compares.

    Args:
        tasks: are iterated over twice; of those with the same id the first is compared.
        untraced: gets the tasks that could not be traced.

    Returns:
        Matches in order of the training tasks, then of the benchmarks' tasks.
    """
    owners = [(benchmark.name, task) for benchmark in benchmarks for task in benchmark.tasks]
    given = [each for benchmark in benchmarks for each in benchmark.fingerprints or [None] * len(benchmark.tasks)]
    known = {number: each for number, each in enumerate(given) if each is not None}
    missing = [number for number, each in enumerate(given) if each is None]
    read = fingerprint_all([owners[number][1] for number in missing], settings, "reading benchmarks")
    known |= {number: fingerprint for number, (_, fingerprint) in zip(missing, read, strict=True)}
    lookup = _Index([known[number] for number in range(len(owners))], [task for _, task in owners], settings)
    for number, (name, task) in enumerate(owners):
        if (why := known[number].untraced) is not None:
            untraced[name, task.id] = why
    seen: DiskMap[None] = DiskMap()
    for task, fingerprint in fingerprint_all(tasks, settings, "comparing tasks"):
        if not seen.add(task.id):
            continue
        if fingerprint.untraced is not None:
            untraced["train", task.id] = fingerprint.untraced
        for number, kind, score in sorted(lookup.find(task, fingerprint)):
            name, other = owners[number]
            yield _match(task, name, other, kind, score, fingerprint, known[number], settings)


def _match(
    task: Task,
    benchmark: str,
    other: Task,
    kind: Kind,
    score: float,
    fingerprint: Fingerprint,
    other_fingerprint: Fingerprint,
    settings: Settings,
) -> Match:
    same_sizes = kind == "exact" or _same_sizes(fingerprint, other_fingerprint)
    operators = other_fingerprint.traced.graph.operators if other_fingerprint.traced else None
    own = not other.source and is_own(task, benchmark)
    is_common = operators is not None and operators < settings.min_operators and not same_sizes
    return Match(
        task=task.id,
        benchmark=benchmark,
        benchmark_task=other.id,
        kind=kind,
        score=round(score, 3),
        operators=operators,
        same_sizes=same_sizes,
        own=own,
        drop=kind in settings.drop and not is_common and not own,
    )


def _same_sizes(a: Fingerprint, b: Fingerprint) -> bool:
    programs = a.program is not None and b.program is not None and a.program.sizes == b.program.sizes
    return programs or (a.traced is not None and b.traced is not None and a.traced.sized_hash == b.traced.sized_hash)


class _Index:
    """Benchmark tasks by everything that a training task is looked up by."""

    def __init__(self, fingerprints: Sequence[Fingerprint], tasks: Sequence[Task], settings: Settings):
        self._fingerprints, self._tasks, self._settings = fingerprints, tasks, settings
        self._by_key: dict[tuple[Kind, str], list[int]] = {}
        for number, fingerprint in enumerate(fingerprints):
            for key in self._keys(fingerprint):
                self._by_key.setdefault(key, []).append(number)
        signatures = [(number, it.signature) for number, it in enumerate(fingerprints) if it.signature is not None]
        self._parts = [
            (number, each.traced.graph, working_labels(each.traced.graph))
            for number, each in enumerate(fingerprints)
            if each.traced is not None and each.traced.graph.operators >= settings.min_part_operators
        ]
        self._near = NearIndex(signatures, settings.near_threshold, settings.permutations)

    def find(self, task: Task, fingerprint: Fingerprint) -> Iterator[tuple[int, Kind, float]]:
        """Benchmark tasks that match: number, strongest kind, score."""
        seen: set[int] = set()
        for kind, key in self._keys(fingerprint):
            for number in self._by_key.get((kind, key), ()):
                if number not in seen and (kind != "graph" or self._is_isomorphic(fingerprint, number)):
                    seen.add(number)
                    yield number, kind, 1.0
        if "near" in self._settings.kinds and fingerprint.signature is not None:
            length = self._settings.shingle
            for number in sorted(set(self._near.query(fingerprint.signature)) - seen):
                other = self._fingerprints[number].signature
                if not self._tasks[number].source and other is not None:
                    score = estimate(fingerprint.signature, other)
                else:
                    score = jaccard(shingles(task.source, length), shingles(self._tasks[number].source, length))
                if score >= self._settings.near_threshold:
                    seen.add(number)
                    yield number, "near", score
        if "part" in self._settings.kinds and fingerprint.traced is not None:
            whole = fingerprint.traced.graph
            labels = working_labels(whole)
            for number, part, needed in self._parts:
                may_be = needed <= labels and number not in seen and part.operators < whole.operators
                if may_be and contains(whole, part):
                    yield number, "part", 1.0

    def _keys(self, fingerprint: Fingerprint) -> Iterator[tuple[Kind, str]]:
        """What equal tasks have in common, strongest kind first."""
        sizes = self._settings.sizes
        program, traced = fingerprint.program, fingerprint.traced
        keys: dict[Kind, str | None] = {
            "exact": fingerprint.exact,
            "ast": None if program is None else (program.sizes if sizes else program.structure),
            "graph": None if traced is None else (traced.sized_hash if sizes else traced.hash),
        }
        for kind in KINDS:
            key = keys.get(kind)
            if kind in self._settings.kinds and key is not None:
                yield kind, key

    def _is_isomorphic(self, fingerprint: Fingerprint, number: int) -> bool:
        traced, other = fingerprint.traced, self._fingerprints[number].traced
        assert traced is not None and other is not None
        return is_isomorphic(traced.graph, other.graph, self._settings.sizes)
