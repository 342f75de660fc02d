"""The tables of a curation as they lie on disk: read a row group at a time, so that many take little memory."""

from __future__ import annotations

import shutil
import tempfile
import weakref
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import accumulate, islice
from pathlib import Path
from typing import overload

import pyarrow.parquet as pq

from kernelrl.data.disk_map import DiskMap
from kernelrl.data.tables import DRAWN_COLUMNS, TASKS, iterate_table, write_table
from kernelrl.task import Task


class StoredTasks(Sequence[Task]):
    """The tasks of one split in `tasks.parquet`, in their order. Each iteration reads the file once.

    Args:
        table: columns `split` and `task` (`DRAWN_COLUMNS`).
        every: only each so manieth task, from `first` on.
        owner: lives as long as the tasks do.
    """

    def __init__(self, table: Path, split: str, first: int = 0, every: int = 1, owner: object = None):
        self._table, self._split, self._first, self._every, self._owner = table, split, first, every, owner

    def __iter__(self) -> Iterator[Task]:
        return (Task.model_validate_json(text) for text in islice(self._texts(), self._first, None, self._every))

    def __len__(self) -> int:
        return self._number

    @cached_property
    def _number(self) -> int:
        whole = sum(row["split"] == self._split for row in iterate_table(self._table, ("split",)))
        return len(range(self._first, whole, self._every))

    def _texts(self) -> Iterator[str]:
        rows = iterate_table(self._table, ("split", "task"))
        return (row["task"] for row in rows if row["split"] == self._split)

    @overload
    def __getitem__(self, index: int) -> Task: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Task]: ...
    def __getitem__(self, index: int | slice) -> Task | Sequence[Task]:
        """By reading the file up to there; with a slice that goes to the end, what is on disk stays there."""
        places = range(len(self))[index]
        if isinstance(places, int):
            return next(islice(self, places, None))
        if places.stop >= len(self) and places.step > 0:
            first = self._first + places.start * self._every
            return StoredTasks(self._table, self._split, first, self._every * places.step, self._owner)
        wanted = set(places)
        found = {place: task for place, task in enumerate(self) if place in wanted}
        return [found[place] for place in places]


def store(tasks: Iterable[tuple[str, Task]]) -> tuple[StoredTasks, StoredTasks]:
    """Training and held-out tasks in a temporary file, which is deleted when neither is needed any more.

    Args:
        tasks: `train` or `heldout`, and the task.
    """
    folder = _Folder(tempfile.mkdtemp(prefix="kernelrl-tasks-"))
    rows = ({"split": split, "task": task.model_dump_json()} for split, task in tasks)
    write_table(folder.path / TASKS, rows, DRAWN_COLUMNS)
    train, heldout = (StoredTasks(folder.path / TASKS, split, owner=folder) for split in ("train", "heldout"))
    return train, heldout


class _Folder:
    """Is deleted with the object."""

    def __init__(self, path: str):
        self.path = Path(path)
        weakref.finalize(self, shutil.rmtree, path, ignore_errors=True)


class StoredColumn(Mapping[int, str]):
    """Texts of one column by the number of their row. A row group is in memory: ask for them about in their order."""

    def __init__(self, table: Path, name: str):
        self._file, self._name = pq.ParquetFile(table), name
        groups = range(self._file.num_row_groups)
        self._starts: list[int] = [0, *accumulate(self._file.metadata.row_group(group).num_rows for group in groups)]
        self._group = -1
        self._texts: list[str] = []

    def __getitem__(self, number: int) -> str:
        group = bisect_right(self._starts, number) - 1
        if group != self._group:
            self._group, self._texts = group, self._file.read_row_group(group, [self._name])[0].to_pylist()
        return self._texts[number - self._starts[group]]

    def __iter__(self) -> Iterator[int]:
        return iter(range(len(self)))

    def __len__(self) -> int:
        return self._starts[-1]


class TasksById(Mapping[str, Task]):
    """The tasks of `tasks.parquet` by id; one row group is in memory: ask for them about in their order."""

    def __init__(self, table: Path):
        self._tasks = StoredColumn(table, "task")
        self._numbers: DiskMap[int] = DiskMap()
        for number, text in self._tasks.items():
            self._numbers[Task.model_validate_json(text).id] = number

    def __getitem__(self, id: str) -> Task:
        return Task.model_validate_json(self._tasks[self._numbers[id]])

    def __iter__(self) -> Iterator[str]:
        return iter(self._numbers)

    def __len__(self) -> int:
        return len(self._numbers)
