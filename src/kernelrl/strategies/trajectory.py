"""From the attempts of trajectories to one record for each: what a reader of results counts as a sample."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

from kernelrl.records import Record
from kernelrl.strategies.scores import score


def best(records: Iterable[Record], last_turn: int | None = None) -> list[Record]:
    """The best attempt of each trajectory (`TRAJECTORY/N`), under the trajectory's id.

    A completion that was asked for by itself is its own.

    Args:
        last_turn: only attempts up to this turn count; None: all.
    """
    members: defaultdict[str, list[Record]] = defaultdict(list)
    for record in records:
        if record.turn is None:
            members[record.id].append(record)
        elif last_turn is None or record.turn <= last_turn:
            members[record.id.rpartition("/")[0]].append(record)
    return [
        max(attempts, key=_rank).model_copy(update={"id": trajectory, "turn": None, "parent": None})
        for trajectory, attempts in members.items()
    ]


def _rank(record: Record) -> tuple[bool, float]:
    return record.verdict.status != "infrastructure", score(record.verdict)
