"""The tasks of a curation as they lie on disk: read a piece at a time, so that a million of them take no memory."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import overload

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
