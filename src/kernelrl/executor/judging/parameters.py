"""Hidden values of a task's parameters and buffers, and how a candidate's constructor comes to the same ones.

A trained network's parameters are not those of its initialisers. For the runs that are checked, and again for those
that are timed, reference and candidate are constructed anew, with hidden values (`construction.Construction`):

- What a constructor draws at random is keyed by shape and count, so both sides draw the same values.
- Parameters, and what is made constant (running statistics), get values of their own from their registration on
  (`variation`). A candidate's are found by name, or by shape and initial value.
- A candidate that draws what the reference draws, and registers nothing of the kind, holds it in a form of its own
  (`packed`). For it these parameters have the values of their draws on both sides.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import torch

from kernelrl.executor.processes.call_memory import written_once

MOST = 20_000
"""Draws and registrations of a candidate that are looked at."""


@dataclass(frozen=True)
class Parameters:
    """One set of hidden values."""

    hidden: str
    """Seed of the random draws."""
    given: dict[int, torch.Tensor]
    """Values of parameters and buffers, by the number of the reference's registration."""
    report: dict[str, Any]
    """What the reference's constructor drew and registered with them; empty: not known yet."""


@dataclass(frozen=True)
class Match:
    """Which of the candidate's registrations hold what the reference's do."""

    numbers: dict[int, int]
    """The candidate's number by the reference's."""
    renamed: frozenset[int]
    """Numbers of the reference's that the candidate has by name or shape, with other values than it draws."""
    packed: frozenset[int]
    """Numbers of the reference's that it has drawn and not registered, or not as they are."""


def construct(ask: Callable[..., dict[str, Any]], hidden: str | None, given: dict[int, torch.Tensor]) -> dict[str, Any]:
    """Have a process construct its model anew.

    Args:
        ask: puts a question to it, with descriptors `fds`.
        hidden: seed of its random draws; None: they are the program's own.
        given: values for what it registers, by number.

    Returns:
        The answer; `parameters` in it says what the constructor drew and registered.
    """
    places: list[dict[str, Any]] = []
    with written_once("kernelrl-parameters") as (file, seal):
        for number, values in given.items():
            raw: Any = values.contiguous().view(-1).view(torch.uint8).numpy()
            form = {"dtype": str(values.dtype), "shape": list(values.shape)}
            places.append(form | {"number": number, "offset": file.tell()})
            file.write(raw)
        file.write(b"\0")  # nothing cannot be mapped
        question = {"do": "construct", "size": file.tell(), "hidden": hidden, "given": places}
        return ask(question, fds=(seal(),))


def match(reference: dict[str, Any], candidate: Any, numbers: Iterable[int], drawn: frozenset[int]) -> Match:
    """Find the reference's registrations among the candidate's.

    Args:
        reference: what its constructor drew and registered with hidden draws and nothing given.
        candidate: the same of the candidate, with the same hidden draws; not to be believed.
        numbers: of the reference's registrations that are looked for.
        drawn: those of them that depend on draws.
    """
    same_draws = draws_the_same(reference, candidate)
    names = {tensor["name"] for tensor in reference["tensors"]} - {None}
    unmatched = dict(enumerate(_tensors(candidate)))
    left = sorted(numbers)
    found: dict[int, int] = {}
    renamed: set[int] = set()

    def pair(is_one: Callable[[dict[str, Any], dict[str, Any]], bool], of: Iterable[int]) -> set[int]:
        paired = set()
        for number in of:
            tensor = reference["tensors"][number]
            for other, each in unmatched.items():
                if each.get("shape") == tensor["shape"] and is_one(tensor, each):
                    found[number] = other
                    del unmatched[other]
                    left.remove(number)
                    paired.add(number)
                    break
        return paired

    pair(lambda tensor, other: _same_name(tensor, other) and _same_values(tensor, other), list(left))
    pair(lambda tensor, other: other.get("name") not in names and _same_values(tensor, other), list(left))
    renamed |= pair(_same_name, list(left)) & drawn
    pair(_both_constant, [number for number in left if number not in drawn])
    if not same_draws:
        renamed |= pair(_might_be_drawn, [number for number in left if number in drawn])
    packed = drawn & set(left) if same_draws else frozenset()
    return Match(found, frozenset(renamed), frozenset(packed))


def draws_the_same(reference: dict[str, Any], candidate: Any) -> bool:
    """Whether the candidate has drawn all that the reference draws."""
    return not Counter(reference["draws"]) - Counter(_draws(candidate))


def find_astray(
    reference: dict[str, Any], candidate: Any, settled: Iterable[int], taken: Iterable[int]
) -> tuple[dict[int, int], bool]:
    """Which of the candidate's registrations lack the values of which random ones of the reference.

    Args:
        reference: what its constructor drew and registered with hidden values.
        candidate: the same of the candidate, with the same hidden values; not to be believed.
        settled: numbers of the reference's registrations of which that is known already.
        taken: numbers of the candidate's registrations that belong to them.

    Returns:
        The number of the reference's registration for each such number of the candidate's, and whether that is sure:
        a candidate that has drawn what the reference draws may hold it in a form of its own, packed or folded.
    """
    tensors, known, gone = reference["tensors"], set(settled), set(taken)
    unmatched = {number: found for number, found in enumerate(_tensors(candidate)) if number not in gone}
    same_draws = draws_the_same(reference, candidate)
    sums = {tensor["sum"] for tensor in tensors}
    astray: dict[int, int] = {}
    swapped = False
    unnamed = []
    for number, tensor in enumerate(tensors):
        if tensor["origin"] != "random" or number in known:
            continue
        others = [other for other, found in unmatched.items() if _same_name(tensor, found)]
        if others and unmatched[others[0]].get("shape") == tensor["shape"]:
            found = unmatched.pop(others[0])
            if found.get("sum") != tensor["sum"]:
                astray[others[0]] = number
                swapped |= found.get("sum") in sums
        elif not same_draws:
            unnamed.append(number)
    for number in unnamed:
        for other, found in unmatched.items():
            if found.get("shape") == tensors[number]["shape"] and _might_be_drawn(tensors[number], found):
                astray[other] = number
                del unmatched[other]
                break
    return astray, swapped or not same_draws


def _draws(report: Any) -> list[int]:
    draws = report.get("draws") if isinstance(report, dict) else None
    return [item for item in draws[:MOST] if _is_checksum(item)] if isinstance(draws, list) else []


def _tensors(report: Any) -> list[dict[str, Any]]:
    """The registrations that a candidate's report names, as far as they are in the form of one."""
    tensors = report.get("tensors") if isinstance(report, dict) else None
    found = tensors[:MOST] if isinstance(tensors, list) else []
    return [item if isinstance(item, dict) and _is_of_a_tensor(item) else {} for item in found]


def _is_of_a_tensor(item: dict[str, Any]) -> bool:
    return _is_checksum(item.get("sum")) and isinstance(item.get("name"), str | None)


def _is_checksum(value: object) -> bool:
    """Whether it is a number of 32 bits: of larger ones as many as one likes have the same hash."""
    return isinstance(value, int) and 0 <= value < 1 << 32


def _same_name(tensor: dict[str, Any], other: dict[str, Any]) -> bool:
    return tensor["name"] is not None and other.get("name") == tensor["name"]


def _same_values(tensor: dict[str, Any], other: dict[str, Any]) -> bool:
    return bool(other.get("sum") == tensor["sum"])


def _both_constant(tensor: dict[str, Any], other: dict[str, Any]) -> bool:
    return other.get("origin") in ("constant", "literal") and tensor["kind"] == other.get("kind")


def _might_be_drawn(tensor: dict[str, Any], other: dict[str, Any]) -> bool:
    return other.get("origin") in ("random", "constant")
