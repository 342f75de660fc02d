"""From the attempts of trajectories to one record for each: what a reader of results counts as a sample."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence

from kernelrl.records import Record
from kernelrl.strategies.scores import score


def best(records: Iterable[Record], last_turn: int | None = None) -> list[Record]:
    """The best attempt of each trajectory (`TRAJECTORY/N`), under the trajectory's id.

    Its tokens are those of all attempts that count. A completion that was asked for by itself is its own.

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
        max(attempts, key=_rank).model_copy(
            update={
                "id": trajectory,
                "turn": None,
                "parent": None,
                "prompt_tokens": _total(attempts, [each.prompt_tokens for each in attempts]),
                "completion_tokens": _total(attempts, [each.completion_tokens for each in attempts]),
            }
        )
        for trajectory, attempts in members.items()
    ]


def _total(attempts: Sequence[Record], tokens: Sequence[int | None]) -> int | None:
    """Of all attempts; None: an answer did not say. An attempt without an answer took none."""
    known = [number for each, number in zip(attempts, tokens, strict=True) if number is not None or each.completion]
    return None if not known or None in known else sum(number or 0 for number in known)


def _rank(record: Record) -> tuple[bool, float]:
    return record.verdict.status != "infrastructure", score(record.verdict)
