"""Which other inputs and parameters than the task's own its reference bears.

Other constants, equal inputs apart, other values of what its constructor registers.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, get_args

import torch

from kernelrl.executor.api import Distribution
from kernelrl.executor.contest.constants import Variation, variations
from kernelrl.executor.contest.distributions import COUNTED, LEAVING, MIXES, NOT_FINITE, WILD
from kernelrl.executor.judging.arena import Draw, span_of, view
from kernelrl.executor.judging.groups import find_borne, halves
from kernelrl.executor.judging.images import Copies, Images, find_copies
from kernelrl.executor.judging.reference_parameters import CHECKED, REDRAWN, TIMED, ReferenceParameters
from kernelrl.executor.judging.variation import Confined, Seldom


def find_loose(
    images: Images, bears: Callable[[Draw], bool], image: torch.Tensor, layout: dict[str, Any], reads: bool
) -> list[Variation | None]:
    """How each of the inputs that the task makes constant varies: in the furthest way with which it is reliable.

    Tried are all together in the furthest way, and then each alone.
    """
    ways = [
        [] if varies or not place["bytes"] else variations(view(image, place), reads)
        for varies, place in zip(images.varying, layout["tensors"], strict=True)
    ]
    images.loose = [each[0] if each else None for each in ways]
    num_constant = sum(map(bool, ways))

    def are_borne() -> bool:  # of a number that is alone the first draw has a larger one, and the other a smaller one
        return bears(Draw(1)) and ("either" not in images.loose or bears(Draw(3)))

    if not num_constant or are_borne():
        return images.loose
    accepted: list[Variation | None] = [None] * len(ways)
    for number, each in enumerate(ways):
        for way in each[num_constant == 1 :]:
            images.loose = [way if other == number else None for other in range(len(ways))]
            if are_borne():
                accepted[number] = way
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


def find_apart(
    images: Images, bears: Callable[[Draw], bool], image: torch.Tensor, layout: dict[str, Any]
) -> list[Copies]:
    """Equal parts within inputs that the reference bears apart."""
    places = enumerate(layout["tensors"])
    found = [
        find_copies(number, view(image, place)) for number, place in places if images.varying[number] and place["bytes"]
    ]
    accepted = []
    for each in filter(None, found):
        images.copies = [each]
        if bears(Draw(1)):
            accepted.append(each)
    images.copies = accepted
    return accepted if len(accepted) < 2 or bears(Draw(1)) else []


def narrow(images: Images, distribution: Distribution, bears: Callable[[], bool]) -> None:
    """Find out with how much less beside a hidden distribution the reference is reliable, which it is not with all.

    The ends of what Python draws are left out first, then counts beyond those that were drawn, integers that matter,
    and values far from zero. Where draws leave their interval, those do that it bears together. Then some draws hold
    all of this, and the others what is borne of them: the distribution and nothing beside it, or the task's own values.
    """
    for applies, without in (
        (images.draws_by_python, images.within),
        (images.draws_counts and distribution in COUNTED, images.uncounted),
        (images.mixes_integers and distribution in MIXES, images.unmixed),
        (distribution in WILD, images.tame),
    ):
        if applies:
            without.add(distribution)
            if bears():
                return
    if distribution in LEAVING and len(images.beyond) > 1:
        factors = dict(images.beyond)

        def bears_beyond(found: list[int], group: list[int]) -> bool:
            images.kept[distribution] = [(number, factors[number]) for number in (*found, *group)]
            return bears()

        groups, otherwise = images.groups(distribution, list(factors))
        if kept := find_borne(groups, bears_beyond, otherwise=otherwise):
            images.kept[distribution] = [(number, factors[number]) for number in kept]
            images.borne_apart = frozenset(kept)
            return
    images.near.add(distribution)
    elsewhere = bears()
    for without in (images.near, images.unmixed, images.tame):  # of some draws it may bear all that was left out
        without.discard(distribution)
    images.kept.pop(distribution, None)
    if _find_draws(images, distribution, elsewhere, bears):
        return
    images.near.add(distribution)
    if not elsewhere:
        _find_draws(images, distribution, elsewhere, bears)


def _find_draws(images: Images, distribution: Distribution, elsewhere: bool, bears: Callable[[], bool]) -> bool:
    """Find out which of several draws may hold what the reference does not bear of all of them; whether any does."""
    if not images.may_be_split or distribution in NOT_FINITE and not images.may_split_not_finite:
        return False

    def bears_of(found: list[int], group: list[int]) -> bool:
        images.only[distribution] = {"only": found + group, "elsewhere": elsewhere}
        return bears()

    groups, otherwise = images.groups(distribution, range(1, images.num_drawn + 1))
    if found := find_borne(groups, bears_of, otherwise=otherwise):
        images.only[distribution] = {"only": found, "elsewhere": elsewhere}
        images.borne_apart = frozenset(found)
    else:
        images.only.pop(distribution, None)
    return bool(found)


def find_variation(parameters: ReferenceParameters, bears: Callable[[], bool], runs: Callable[[], bool]) -> bool:
    """Choose which parameters get other values.

    All of them and larger ones, if the reference bears that, which one run shows. Where it does not, the same without
    values beyond the limits of clamps and norms; then those with which it runs; then without larger values; then
    constants alone; and then what is drawn anew.

    Args:
        parameters: of the reference.
        bears: whether the reference is reliable with those that are chosen.
        runs: whether it runs with them, which is found out sooner.

    Returns:
        Whether it is reliable with any.
    """
    if bears():
        return True
    if parameters.clamped or parameters.norms:
        parameters.clamped, parameters.norms = {}, {}
        parameters.draw()
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


def find_slopes(parameters: ReferenceParameters, bears: Callable[[int], bool]) -> None:
    """Choose which parameters are slopes above 1, or below 0: all that may be, or those that the reference uses so.

    Args:
        parameters: of the reference, which is reliable with those that are chosen.
        bears: whether it is reliable with the parameters of that number.
    """
    if not parameters.may_be_slopes:
        return
    for parameters.slopes in ("all", "known", "none"):
        parameters.draw()
        if parameters.slopes == "none" or all(bears(number) for number in (CHECKED, REDRAWN)):
            return


def find_seldom(parameters: ReferenceParameters, bears: Callable[[int], bool]) -> None:
    """Choose what is rare among parameters, and whether whole numbers in buffers become others: as much as is borne.

    Args:
        parameters: of the reference, which is reliable with those that are chosen.
        bears: whether it is reliable with the parameters of that number.
    """
    all_kinds: tuple[Seldom | None, ...] = ("lasting", "far", "some", None)
    kinds = all_kinds if parameters.has_squares else all_kinds[1:]
    levels = [(kind, crossed) for kind in kinds for crossed in ([True, False] if parameters.compares else [False])]
    for parameters.seldom, parameters.crossed in levels:
        parameters.draw()
        if (parameters.seldom, parameters.crossed) == levels[-1] or all(map(bears, (REDRAWN, TIMED))):
            return


def _find_bearable(
    parameters: ReferenceParameters, runs: Callable[[], bool], strata: list[list[int]]
) -> frozenset[int]:
    """Those with which the reference runs: groups that it does not bear are split, and what is left is confined.

    Of a group there are first those of one name but for numbers in it, which are often of one kind (the layers').
    """

    def bears(found: list[int], group: list[int]) -> bool:
        choice = frozenset((*found, *group))
        parameters.choose(choice, enlarged=True)
        if runs():
            return True
        if parameters.drawn.intersection(group) or len(parameters.by_name(group)) > 1:
            return False
        for kind in get_args(Confined):
            parameters.confined |= dict.fromkeys(group, kind)
            parameters.choose(choice, enlarged=True)
            if runs():
                return True
        for number in group:
            del parameters.confined[number]
        return False

    def split(group: list[int]) -> list[list[int]]:
        named = parameters.by_name(group)
        return named if len(named) > 1 else halves(group)

    return frozenset(find_borne(strata, bears, split))
