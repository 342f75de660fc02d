"""Which of many things a reference bears together, found out by trying groups of them."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Sequence

MAX_TRIES = 24
"""Groups that are tried, each by runs of the reference."""
FEW = 6
"""So many are tried one by one, and neighbours among more in so many groups."""
STEPS = (2, 3, 4)
"""Among more also every second one, third one, …: lists of pairs, of triples, …"""


def neighbours(numbers: Sequence[int]) -> list[list[int]]:
    """Groups that are often of one kind, such as a list of weights or one of variances."""
    size = math.ceil(len(numbers) / FEW)
    return [list(numbers[start : start + size]) for start in range(0, len(numbers), size)]


def steps(numbers: Sequence[int]) -> list[list[int]]:
    """Groups of one kind where they come in turn."""
    return [list(numbers[start::step]) for step in STEPS for start in range(step)] if len(numbers) > FEW else []


def halves(group: list[int]) -> list[list[int]]:
    """Its first and its second half."""
    middle = len(group) // 2
    return [group[:middle], group[middle:]]


def find_borne(
    groups: Sequence[list[int]],
    bears: Callable[[list[int], list[int]], bool],
    split: Callable[[list[int]], list[list[int]]] = halves,
    otherwise: Sequence[list[int]] = (),
) -> list[int]:
    """What of all groups is borne together: one that is not borne beside what was found is split, and comes again.

    Args:
        groups: tried one after the other; they may overlap.
        bears: whether what was found is borne together with a group.
        split: parts of a group, at least two.
        otherwise: tried before any is split where none is borne.
    """
    found: list[int] = []
    waiting, unborne = deque(groups), list[list[int]]()
    num_tries = 0
    while num_tries < MAX_TRIES:
        if not waiting and otherwise and not found:
            waiting.extend(otherwise)
            otherwise = ()
        elif not waiting:
            waiting.extend(part for group in unborne for part in split(group))
            unborne.clear()
        if not waiting:
            break
        group = [number for number in waiting.popleft() if number not in found]
        if not group:
            continue
        num_tries += 1
        if bears(found, group):
            found += group
        elif len(group) > 1:
            unborne.append(group)
    return found
