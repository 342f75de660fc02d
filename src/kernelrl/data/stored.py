"""The tables of a curation as they lie on disk: read a row group at a time, so that many take little memory."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from itertools import accumulate, islice
from pathlib import Path
from typing import overload

import pyarrow.parquet as pq

from kernelrl.data.tables import iterate_table
from kernelrl.task import Task


class StoredTasks(Sequence[Task]):
    """The tasks of one split in `tasks.parquet`, in their order. Each iteration reads the file once.

    Args:
        table: columns `split` and `task` (`DRAWN_COLUMNS`).
    """

    def __init__(self, table: Path, split: str):
        self._table, self._split = table, split

    def __iter__(self) -> Iterator[Task]:
        for row in iterate_table(self._table, ("split", "task")):
            if row["split"] == self._split:
                yield Task.model_validate_json(row["task"])

    def __len__(self) -> int:
        return self._number

    @cached_property
    def _number(self) -> int:
        return sum(row["split"] == self._split for row in iterate_table(self._table, ("split",)))

    @overload
    def __getitem__(self, index: int) -> Task: ...
    @overload
    def __getitem__(self, index: slice) -> list[Task]: ...
    def __getitem__(self, index: int | slice) -> Task | list[Task]:
        """By reading the file up to there."""
        places = range(len(self))[index]
        if isinstance(places, int):
            return next(islice(self, places, None))
        wanted = set(places)
        found = {place: task for place, task in enumerate(self) if place in wanted}
        return [found[place] for place in places]


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
    """The tasks of `tasks.parquet` by id; only the ids are in memory, beside one row group."""

    def __init__(self, table: Path):
        self._tasks = StoredColumn(table, "task")
        self._numbers = {Task.model_validate_json(text).id: number for number, text in self._tasks.items()}

    def __getitem__(self, id: str) -> Task:
        return Task.model_validate_json(self._tasks[self._numbers[id]])

    def __iter__(self) -> Iterator[str]:
        return iter(self._numbers)

    def __len__(self) -> int:
        return len(self._numbers)
