"""Hidden values of a task's parameters and buffers, and how a candidate's constructor comes to the same ones.

A trained network's parameters are not those of its initialisers. For the runs that are checked, and again for those
that are timed, reference and candidate are constructed anew, with hidden values (`construction.Construction`):

- What a constructor draws at random is keyed by shape and count, so both sides draw the same values.
- What it makes constant (the ones and zeros of a norm, a bias or a gate of zero, running statistics) gets values of its
  own here, and so do parameters that it computes (`torch.eye`). Matched with the candidate's by name, or by shape and
  initial value.
- Where a candidate draws its parameters in another way or order than the reference, they are given the reference's
  values by name, or by shape where there is no such name (`by_name`).
"""

from __future__ import annotations

import math
import os
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

SMALL = 0.5
"""Largest value that takes the place of a zero."""
MOST = 20_000
"""Draws and registrations of a candidate that are looked at."""


@dataclass(frozen=True)
class Parameters:
    """One set of hidden values."""

    hidden: str
    """Seed of the random draws."""
    given: dict[int, torch.Tensor]
    """Values of what the reference does not draw at random, by the number of its registration."""
    report: dict[str, Any]
    """What the reference's constructor drew and registered with them."""


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
    data = bytearray()
    for number, values in given.items():
        raw: Any = values.contiguous().view(-1).view(torch.uint8).numpy()
        form = {"dtype": str(values.dtype), "shape": list(values.shape)}
        places.append(form | {"number": number, "offset": len(data)})
        data += raw.tobytes()
    data = data or bytearray(1)  # nothing cannot be mapped
    with open(os.memfd_create("kernelrl-parameters"), "wb") as file:
        file.write(data)
        file.flush()
        question = {"do": "construct", "size": len(data), "hidden": hidden, "given": places}
        return ask(question, fds=(file.fileno(),))


def draw_given(
    report: dict[str, Any], read: Callable[[dict[str, Any]], torch.Tensor], seed: int, computed: bool
) -> dict[int, torch.Tensor]:
    """Hidden values for what the reference registers and does not draw at random.

    Args:
        report: what its constructor registered.
        read: a registered tensor's values.
        seed: of the values.
        computed: whether parameters that are neither constant nor random get other values too.
    """
    generator = torch.Generator().manual_seed(seed)
    given = {}
    for number, tensor in enumerate(report["tensors"]):
        constant = tensor["origin"] == "constant" or (tensor["origin"] == "literal" and tensor["kind"] == "parameter")
        varied = computed and tensor["origin"] == "computed" and tensor["kind"] == "parameter"
        if tensor["name"] is None or not math.prod(tensor["shape"]) or not (constant or varied):
            continue
        values = read(tensor)
        if not bool(values.isfinite().all()):
            continue
        wide = values.double()
        coins = torch.rand(wide.shape, generator=generator, dtype=wide.dtype)
        if varied:
            new = wide + 0.2 * (coins - 0.5) * wide.square().mean().sqrt()
        elif bool(wide.any()):
            new = wide * (0.5 + coins)
        elif wide.numel() == 1:
            new = SMALL * (0.5 + coins)
        else:
            fan_in = wide[0].numel() if wide.dim() > 1 else 1
            new = (2 * coins - 1) * min(SMALL, fan_in**-0.5)
        given[number] = new.to(values.dtype)
    return given


def match_given(reference: dict[str, Any], given: dict[int, torch.Tensor], candidate: Any) -> dict[int, torch.Tensor]:
    """The values of `given` by the numbers of the candidate's registrations.

    Args:
        reference: what the reference's constructor registered at first, without hidden values.
        given: hidden values by number.
        candidate: what the candidate's constructor registered at first; not to be believed.
    """
    unmatched = dict(enumerate(_tensors(candidate)))
    matched: dict[int, torch.Tensor] = {}
    left = dict(given)
    for alike in (_same_name, _same_values, _both_constant):
        for number in list(left):
            tensor = reference["tensors"][number]
            for other, found in unmatched.items():
                if found.get("shape") == tensor["shape"] and alike(tensor, found):
                    matched[other] = left.pop(number)
                    del unmatched[other]
                    break
    return matched


def find_astray(reference: dict[str, Any], candidate: Any) -> tuple[dict[int, int], bool]:
    """Which of the candidate's registrations lack the values of which random ones of the reference.

    Args:
        reference: what its constructor drew and registered with hidden values.
        candidate: the same of the candidate, with the same hidden values; not to be believed.

    Returns:
        The number of the reference's registration for each such number of the candidate's, and whether that is sure:
        a candidate that has drawn what the reference draws may hold it in a form of its own, packed or folded.
    """
    tensors = reference["tensors"]
    unmatched = dict(enumerate(_tensors(candidate)))
    same_draws = not Counter(reference["draws"]) - Counter(_draws(candidate))
    sums = {tensor["sum"] for tensor in tensors}
    astray: dict[int, int] = {}
    swapped = False
    unnamed = []
    for number, tensor in enumerate(tensors):
        if tensor["origin"] != "random":
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
            if found.get("shape") == tensors[number]["shape"] and found.get("origin") in ("random", "constant"):
                astray[other] = number
                del unmatched[other]
                break
    return astray, swapped or not same_draws


def _draws(report: Any) -> list[int]:
    draws = report.get("draws") if isinstance(report, dict) else None
    return [item for item in draws[:MOST] if isinstance(item, int)] if isinstance(draws, list) else []


def _tensors(report: Any) -> list[dict[str, Any]]:
    """The registrations that a candidate's report names, as far as they are in the form of one."""
    tensors = report.get("tensors") if isinstance(report, dict) else None
    found = tensors[:MOST] if isinstance(tensors, list) else []
    return [item if isinstance(item, dict) and isinstance(item.get("sum"), int) else {} for item in found]


def _same_name(tensor: dict[str, Any], other: dict[str, Any]) -> bool:
    return tensor["name"] is not None and other.get("name") == tensor["name"]


def _same_values(tensor: dict[str, Any], other: dict[str, Any]) -> bool:
    return bool(other.get("sum") == tensor["sum"])


def _both_constant(tensor: dict[str, Any], other: dict[str, Any]) -> bool:
    return other.get("origin") in ("constant", "literal") and tensor["kind"] == other.get("kind")
