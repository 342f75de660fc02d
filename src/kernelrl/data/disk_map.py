"""A mapping on disk, for what curation has to know of every task: a million entries take no more memory than ten."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, MutableMapping
from typing import TypeVar

Value = TypeVar("Value", bound=str | int | float | None)


class DiskMap(MutableMapping[str, Value]):
    """Texts and numbers by key, in order of the keys. The file has no name and goes with the object.

    SQLite keeps about 2 MB of it in memory. Several threads may use one object. It may not be changed while it is
    iterated over.
    """

    def __init__(self) -> None:
        self._table = sqlite3.connect("", check_same_thread=False)  # an empty name: a temporary file
        self._table.execute("CREATE TABLE entries (key TEXT PRIMARY KEY, value) WITHOUT ROWID")

    def add(self, key: str) -> bool:
        """Whether the key was not there yet; it is now, with the value None."""
        return self._table.execute("INSERT OR IGNORE INTO entries VALUES (?, NULL)", (key,)).rowcount == 1

    def __getitem__(self, key: str) -> Value:
        row = self._table.execute("SELECT value FROM entries WHERE key = ?", (key,)).fetchone()
        if row is None:
            raise KeyError(key)
        value: Value = row[0]
        return value

    def __setitem__(self, key: str, value: Value) -> None:
        self._table.execute("INSERT OR REPLACE INTO entries VALUES (?, ?)", (key, value))

    def __delitem__(self, key: str) -> None:
        if not self._table.execute("DELETE FROM entries WHERE key = ?", (key,)).rowcount:
            raise KeyError(key)

    def __iter__(self) -> Iterator[str]:
        return (key for (key,) in self._table.execute("SELECT key FROM entries ORDER BY key"))

    def __len__(self) -> int:
        return int(self._table.execute("SELECT count(*) FROM entries").fetchone()[0])
