"""The journal of a run: every answer of a policy, so that a run that was killed asks nothing twice.

Kernels are in the ledger too, with their verdicts; advice, choices of actions and opinions are here alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

from pydantic import BaseModel, ConfigDict, ValidationError

from kernelrl.policies.protocol import Answer
from kernelrl.records import append_lines


class Entry(BaseModel):
    """One line."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    id: str
    """Of the draft."""
    role: str
    prompt: str
    """The conversation as text."""
    answer: Answer


class Journal:
    """An append-only file of JSON lines; a torn line is skipped, and asked again."""

    def __init__(self, path: Path):
        self.path = path

    def __iter__(self) -> Iterator[Entry]:
        if not self.path.exists():
            return
        with open(self.path, "rb") as file:
            for line in file:
                try:
                    yield Entry.model_validate_json(line)
                except ValidationError:
                    continue

    def append(self, entries: Iterable[Entry]) -> None:
        """Write entries in one go and flush them to disk."""
        append_lines(self.path, [entry.model_dump_json() for entry in entries])
