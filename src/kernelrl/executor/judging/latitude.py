"""Which other inputs than the task's own its reference bears: other constants, equal inputs apart, other numbers."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from typing import Any

import torch

from kernelrl.executor.judging.arena import Draw, span_of
from kernelrl.executor.judging.images import Images


def find_loose(images: Images, bears: Callable[[Draw], bool]) -> list[bool]:
    """Which of the inputs that the task makes constant may have other values: those with which it is reliable."""
    constant = [not varies for varies in images.varying]
    choices = [constant]
    if sum(constant) > 1:
        choices += [[index == only for index in range(len(constant))] for only, one in enumerate(constant) if one]
    accepted = [False] * len(constant)
    for choice in choices:
        images.loose = choice
        if any(choice) and bears(Draw(1)):
            accepted = [old or new for old, new in zip(accepted, choice, strict=True)]
            if choice is constant:
                break
    return accepted


def find_twins(
    images: Images, bears: Callable[[Draw], bool], image: torch.Tensor, layout: dict[str, Any]
) -> list[tuple[int, int]]:
    """Pairs of inputs that the task makes equal and the reference bears apart, by their numbers."""
    places = layout["tensors"]
    form = [(place["dtype"], place["shape"], place["stride"]) for place in places]
    pairs = [
        (first, second)
        for second in range(len(places))
        for first in range(second)
        if images.varying[second] and form[first] == form[second]
        if torch.equal(image[span_of(places[first])], image[span_of(places[second])])
    ]
    for pair in pairs:
        images.twins = [pair]
        if not bears(Draw(1)):
            pairs = [each for each in pairs if each != pair]
    return pairs


def with_other_numbers(form: Any, chooser: random.Random) -> Any:
    """A form (see `wire.flatten`) in which finite floating-point numbers are up to a half larger or smaller."""
    if isinstance(form, list):
        return [with_other_numbers(item, chooser) for item in form]
    if not isinstance(form, dict):
        return form
    ((kind, value),) = form.items()
    if kind == "float":
        number = float.fromhex(value)
        return {kind: (number * chooser.uniform(0.5, 1.5)).hex() if math.isfinite(number) else value}
    return {kind: with_other_numbers(value, chooser) if kind in ("list", "tuple", "dict") else value}
