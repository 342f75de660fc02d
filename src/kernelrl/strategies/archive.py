"""The archive: kernels with their verdicts, per task, which strategies show and breed from.

It lies in a folder, one file per task, that several processes and runs may share. It is capped, and keeps what differs:
of the kernels of a full archive, the oldest of the most crowded score bucket goes.
"""

from __future__ import annotations

import fcntl
import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from pydantic import BaseModel, ConfigDict, TypeAdapter

from kernelrl.candidate import Candidate
from kernelrl.records import write_atomically
from kernelrl.strategies.scores import score
from kernelrl.task import Task
from kernelrl.verdict import Verdict

BUCKET = 0.1
"""Width of a score bucket, as a share of the score `0.3 + speedup` (`scores.py`). Of the speedup by itself that is 13 %
at a speedup of 1, and 10.6 % at 5."""
INHERITED = "inherited"
"""Stands before the ids of kernels that come from another run."""


class Exemplar(BaseModel):
    """One kernel, and what the executor found out about it."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    id: str
    """Of the record that it comes from; in training `grpo/STEP/…`, the answer's within the step."""
    source: str
    verdict: Verdict

    @property
    def digest(self) -> str:
        """That of the candidate: equal kernels are kept once."""
        return Candidate(source=self.source, dialect=self.verdict.dialect).digest

    @property
    def score(self) -> float:
        """What strategies rank it by (`scores.py`)."""
        return score(self.verdict)

    @property
    def bucket(self) -> int:
        """Kernels with about the same score share one."""
        return math.floor(math.log(self.score) / math.log1p(BUCKET)) if self.score > 0 else -(10**6)


_EXEMPLARS = TypeAdapter(list[Exemplar])


class TaskArchive:
    """The kernels that are known for one task, the oldest first.

    Args:
        capacity: number of kernels that are kept; None: all.
    """

    def __init__(self, exemplars: Sequence[Exemplar] = (), capacity: int | None = None):
        self._capacity = capacity
        self._known: dict[str, Exemplar] = {}
        self.add(exemplars)

    def __len__(self) -> int:
        return len(self._known)

    def __iter__(self) -> Iterator[Exemplar]:
        return iter(self._known.values())

    def add(self, exemplars: Sequence[Exemplar]) -> None:
        """Keep kernels, in this order; what is there already stays as it is."""
        for exemplar in exemplars:
            if exemplar.verdict.status != "infrastructure":
                self._known.setdefault(exemplar.digest, exemplar)
        while self._capacity is not None and len(self._known) > self._capacity:
            self._known.pop(self._least_missed())

    @property
    def correct(self) -> list[Exemplar]:
        """Those that are right, the best first."""
        return sorted((each for each in self if each.verdict.correct), key=lambda each: -each.score)

    def buckets(self) -> dict[int, list[Exemplar]]:
        """Those that are right, by score bucket."""
        found: defaultdict[int, list[Exemplar]] = defaultdict(list)
        for exemplar in self.correct:
            found[exemplar.bucket].append(exemplar)
        return dict(found)

    def _least_missed(self) -> str:
        crowds: defaultdict[int, list[str]] = defaultdict(list)
        for digest, exemplar in self._known.items():
            crowds[exemplar.bucket].append(digest)
        best = max(self._known, key=lambda digest: self._known[digest].score)
        crowd = max(crowds.values(), key=len)
        return next((digest for digest in crowd if digest != best), crowd[0])


class Archive:
    """A folder of task archives.

    Args:
        folder: created when the first kernel is kept.
        capacity: number of kernels that are kept of each task.
        closed_to: digests of tasks of which it neither gives nor takes anything: in training, the held-out ones.
    """

    def __init__(self, folder: Path, capacity: int, closed_to: frozenset[str] = frozenset()):
        self.folder = folder
        self.capacity = capacity
        self.closed_to = closed_to

    def of(self, task: Task) -> TaskArchive:
        """What is known for a task now."""
        path = self._path(task)
        if task.digest in self.closed_to or not path.exists():
            return TaskArchive(capacity=self.capacity)
        return TaskArchive(_EXEMPLARS.validate_json(path.read_bytes()), self.capacity)

    def add(self, task: Task, exemplars: Sequence[Exemplar]) -> None:
        """Keep kernels of a task."""
        if not exemplars or task.digest in self.closed_to:
            return
        with self._locked():
            known = self.of(task)
            known.add(exemplars)
            write_atomically(self._path(task), _EXEMPLARS.dump_json(list(known)))

    def inherit(self, other: Archive, tasks: Iterable[Task], dialect: str) -> None:
        """Keep what another run's archive knows of these tasks in a dialect."""
        for task in tasks:
            known = [each for each in other.of(task) if each.verdict.dialect == dialect]
            self.add(task, [each.model_copy(update={"id": f"{INHERITED}/{each.id}"}) for each in known])

    def forget(self, is_forgotten: Callable[[Exemplar], bool]) -> None:
        """Drop kernels of all tasks. Those that had to go for them do not come back."""
        if not self.folder.exists():
            return
        with self._locked():
            for path in sorted(self.folder.glob("*.json")):
                known = _EXEMPLARS.validate_json(path.read_bytes())
                kept = [each for each in known if not is_forgotten(each)]
                if len(kept) < len(known):
                    write_atomically(path, _EXEMPLARS.dump_json(kept))

    def _path(self, task: Task) -> Path:
        return self.folder / f"{task.digest[:32]}.json"

    @contextmanager
    def _locked(self) -> Iterator[None]:
        self.folder.mkdir(parents=True, exist_ok=True)
        with open(self.folder / ".lock", "a") as lock:
            fcntl.lockf(lock, fcntl.LOCK_EX)
            yield
