"""Which of many draws or parameters a reference bears together is found out in few tries."""

from __future__ import annotations

import pytest

from kernelrl.executor.judging.groups import FEW, MAX_TRIES, find_borne, neighbours, steps


@pytest.mark.parametrize(
    ("total", "unborne"),
    [
        (2, {1}),
        (6, {2, 3, 6}),
        (7, {7}),
        (16, set(range(9, 17))),
        (16, {11}),
        (60, set(range(2, 61, 2))),
        (60, set(range(3, 61, 3))),
        (60, set(range(41, 61))),
        (24, set(range(1, 24, 4))),
    ],
    ids=[
        "one of two",
        "half of six",
        "one of seven",
        "a list of two",
        "one",
        "pairs",
        "triples",
        "three lists",
        "four",
    ],
)
def test_what_is_borne_is_found_where_it_is_one_list_or_one_of_each_pair(total: int, unborne: set[int]) -> None:
    tried: list[list[int]] = []

    def bears(found: list[int], group: list[int]) -> bool:
        tried.append(group)
        return not unborne.intersection(found + group)

    numbers = range(1, total + 1)
    found = find_borne(neighbours(numbers), bears, otherwise=steps(numbers))
    assert set(found) == set(numbers) - unborne and len(found) == len(set(found))
    assert len(tried) <= (total if total <= FEW else MAX_TRIES)


def test_of_two_that_exclude_each_other_the_first_is_borne() -> None:
    groups = [[3], [1], [2]]
    assert find_borne(groups, lambda found, group: not {1, 3} <= {*found, *group}) == [3, 2]


def test_it_ends_where_nothing_is_borne() -> None:
    tried: list[list[int]] = []

    def bears(found: list[int], group: list[int]) -> bool:
        tried.append(group)
        return False

    assert find_borne(neighbours(range(1000)), bears, otherwise=steps(range(1000))) == [] and len(tried) == MAX_TRIES
    assert find_borne([], bears) == []
