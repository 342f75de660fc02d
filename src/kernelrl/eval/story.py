"""One task over turns: of all trajectories the one that its feedback helped most."""

from __future__ import annotations

from collections.abc import Sequence

from kernelrl.records import Record
from kernelrl.verdict import STAGES


def choose_story(records: Sequence[Record]) -> list[Record]:
    """The attempts from a first answer to the one that gained most over it, in order; empty where nothing has turns."""
    attempts = {record.id: record for record in records if record.turn is not None}
    paths = [_path(record, attempts) for record in attempts.values() if record.parent in attempts]
    return max(paths, key=_gain, default=[])


def _path(last: Record, attempts: dict[str, Record]) -> list[Record]:
    path = [last]
    while (parent := attempts.get(path[-1].parent or "")) is not None:
        path.append(parent)
    return path[::-1]


def _gain(path: Sequence[Record]) -> tuple[float, int]:
    """By how much the last attempt is better than the first; of equal ones the shortest path."""
    return _worth(path[-1]) - _worth(path[0]), -len(path)


def _worth(record: Record) -> float:
    """How far an attempt came, and a right one's speedup."""
    verdict = record.verdict
    if not verdict.correct:
        return STAGES.index(verdict.stage) / len(STAGES) if verdict.legal else 0.0
    return 1.0 + (verdict.speedup.low if verdict.speedup else 0.0)
