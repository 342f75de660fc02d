"""Which other inputs and parameters than the task's own its reference bears.

Other constants, equal inputs apart, other numbers, other values of what its constructor registers.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from typing import Any

import torch

from kernelrl.executor.judging.arena import Draw, span_of
from kernelrl.executor.judging.images import Images
from kernelrl.executor.judging.reference_parameters import ReferenceParameters

MAX_TRIES = 12
"""Sets of parameters that are tried to find those that must stay."""


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


def find_variation(parameters: ReferenceParameters, bears: Callable[[], bool], runs: Callable[[], bool]) -> bool:
    """Choose which parameters get other values.

    All of them and larger ones, if the reference bears that, which one run shows. Where it does not, those with which
    it runs; then without larger values; then constants alone; and then what is drawn anew.

    Args:
        parameters: of the reference.
        bears: whether the reference is reliable with those that are chosen.
        runs: whether it runs with them, which is found out sooner.

    Returns:
        Whether it is reliable with any.
    """
    if bears():
        return True
    strata = parameters.strata()
    everything = frozenset(each for group in strata for each in group)
    parameters.choose(everything, enlarged=True)
    kept = everything if runs() else _find_bearable(parameters, runs, strata)
    constant = kept - parameters.drawn
    tried = [(everything, True)]
    for choice in ((kept, True), (kept, False), (constant, False), (frozenset[int](), False)):
        if choice not in tried and (choice[0] or parameters.draws):
            tried.append(choice)
            parameters.choose(*choice)
            if bears():
                return True
    return False


def _find_bearable(
    parameters: ReferenceParameters, runs: Callable[[], bool], strata: list[list[int]]
) -> frozenset[int]:
    """Those with which the reference runs: groups that it does not bear are halved."""
    kept: frozenset[int] = frozenset()
    groups = list(strata)
    for _ in range(MAX_TRIES):
        if not groups:
            break
        group = groups.pop(0)
        parameters.choose(kept | frozenset(group), enlarged=True)
        if runs():
            kept |= frozenset(group)
        elif len(group) > 1:
            middle = len(group) // 2
            groups[:0] = [group[:middle], group[middle:]]
    return kept
