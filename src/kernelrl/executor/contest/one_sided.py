"""How far sums of many terms may err to one side, whatever processor adds them.

A running sum in float32 is a multiple of its unit of the last place, so what an addition errs depends on the term
alone: on what it is modulo that unit. Terms that differ by many units err to both sides. A few different ones, or ones
that differ by less than a unit, err to the same side again and again, and their errors add up in proportion to their
number. How far that goes is seen from the Fourier coefficients of the terms taken modulo the unit: the error of an
addition is a saw-tooth of its term, and a saw-tooth's mean over the terms is made of these.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from kernelrl.executor.contest.operator_mode import arguments_of

LEAST = 1024
"""With fewer terms the usual tolerance is larger than what they err."""
FEW_TERMS = 16
"""Sums of fewer terms err by no more than is usual."""
MOST = 1 << 22
"""With more terms a sum that is made one after another loses whole ones, and no program may make it so."""
SAMPLES = 1 << 19
"""Terms that are looked at, of all sums together; of each there are at least `LEAST`."""
SOME_PRODUCTS = 64
"""Elements of a product of matrices that are looked at."""
HARMONICS = 4
CHANCE = 16.0
"""Squared coefficients of unrelated terms are hardly ever larger than so many times one over the number of terms."""
LIKE = 8.0
"""Units by which terms may differ that rounding has moved apart."""
FAR, MUCH = 3.0, 3e-4
"""The error of a mean shows in what is normalised if the standard deviation is less than so many times the mean; and is
much if it is less than so many times the mean for each of its terms."""
ON_GRID = 1e-6
"""Terms that are multiples of the unit up to this share of it, such as zeros, are added without any error."""
_PRODUCTS = {"mm": 0, "bmm": 0, "mv": 0, "dot": 0, "addmm": 1, "baddbmm": 1, "addmv": 1}
_PLAIN = frozenset("sum mean cumsum".split())
_OF_EXPONENTIALS = frozenset("_softmax _log_softmax logsumexp".split())


def units_of_sums(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any], eps: float) -> torch.Tensor | None:
    """By how many units of half of `eps` the sums of an operator err to one side; None: it makes no long ones.

    Args:
        func: the operator.
        args: its arguments, of which the first is in float64.
        kwargs: likewise.
        eps: of the precision in which sums are made.

    Returns:
        Relative to each sum, with ones in place of the dimensions that are summed; of products, one number for all.
    """
    name = func._schema.name.removeprefix("aten::")
    if (place := _PRODUCTS.get(name)) is not None:
        return _units_of_products(args[place], args[place + 1], eps)
    given = arguments_of(func, args, kwargs)
    values = args[0]
    if given.get("reduction"):
        losses = func(**{**given, "reduction": 0})
        losses = losses[0] if isinstance(losses, tuple) else losses
        return _units(losses, tuple(range(losses.dim())), eps).reshape(()) if LEAST <= losses.numel() <= MOST else None
    dims = _dims(given.get("dim"), values)
    if not LEAST <= _count(values, dims) <= MOST:
        return None
    if name in _PLAIN:
        return _units(values, dims, eps)
    if name == "linalg_vector_norm" and 0 < given["ord"] < math.inf:
        power = float(given["ord"])
        return _units(values, dims, eps, lambda terms: terms.abs() ** power) / power
    if name in _OF_EXPONENTIALS:
        largest = values.amax(dims, keepdim=True).flatten().unsqueeze(-1)
        return _units(values, dims, eps, lambda terms: (terms - largest).exp())
    return None


@dataclass(frozen=True)
class Statistics:
    """By how many units (see above) errors of means and variances move the values that are normalised by them.

    The first three are in the form of the values.
    """

    of_values: torch.Tensor
    """Errors of the values by those of their means, not relative to them."""
    of_normalised: torch.Tensor
    """Errors of what is normalised by those of the variances, relative to it."""
    are_far: torch.Tensor
    """Whether their mean is so far from zero that its error shows in what is normalised."""
    is_much: bool
    """Whether that is so much, somewhere, that its sign matters."""
    of_mean: torch.Tensor
    """There, twice the error that the mean has on average: all that is normalised by it has the same one. With ones in
    place of the dimensions that are summed."""
    deviation: torch.Tensor
    """By what values are divided, in the same form."""
    grouped: torch.Size
    """The form of the values in which these dimensions are."""


def units_of_statistics(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any], eps: float) -> Statistics | None:
    """What errors of means and variances do.

    Args:
        func: an operator that makes means and variances.
        args: its arguments, of which the first is in float64.
        kwargs: likewise.
        eps: see above.

    Returns:
        None: it makes no sums of which errors to one side matter.
    """
    given = arguments_of(func, args, kwargs)
    values: torch.Tensor = args[0].reshape(given["N"], given["group"], -1) if "group" in given else args[0]
    if "normalized_shape" in given:
        dims = tuple(range(values.dim() - len(given["normalized_shape"]), values.dim()))
    elif "group" in given:
        dims = (2,)
    elif "momentum" in given:
        dims = tuple(dim for dim in range(values.dim()) if dim != 1)
    else:
        dims = _dims(given.get("dim"), values)
    if not FEW_TERMS <= (count := _count(values, dims)) <= MOST:
        return None
    means = values.mean(dims, keepdim=True)
    distances = values - means
    variances = distances.square().mean(dims, keepdim=True)
    are_far = means.abs() * FAR > variances.sqrt()
    if count < LEAST and not bool(are_far.any()):
        return None
    kept = [dim for dim in range(values.dim()) if dim not in dims]
    terms = values.permute(*kept, *dims).reshape(-1, count)
    in_runs = (_places_in_runs(terms, LIKE * eps / 2) > 0).double().mean(-1)
    alike = torch.maximum(in_runs, _share_alike(terms, eps)).reshape(means.shape)
    of_means = count / 4 * alike if count < LEAST else torch.maximum(_units(values, dims, eps), count / 4 * alike)
    of_means = of_means * means.abs()
    of_variances = torch.zeros_like(means) if count < LEAST else _units(distances, dims, eps, torch.square) / 2
    if not bool(of_means.any() or of_variances.any() or are_far.any()):
        return None
    of_mean = 2 * torch.where(are_far, torch.maximum(of_means, count**0.5 * means.abs()), 0.0)
    deviation = (variances + given.get("eps", 0.0)).sqrt()
    of_values, of_normalised, far = (
        part.expand(values.shape).reshape(args[0].shape) for part in (of_means, of_variances, are_far)
    )
    is_much = bool((means.abs() * count * MUCH > variances.sqrt()).any())
    return Statistics(of_values, of_normalised, far, is_much, of_mean, deviation, values.shape)


def of_each_sum(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any], units: torch.Tensor) -> torch.Tensor:
    """What `units_of_statistics` says of variances, once for each of them."""
    return units.amax(_dims(arguments_of(func, args, kwargs).get("dim"), units))


def reach_of_sums(
    func: Any, args: tuple[Any, ...], kwargs: dict[str, Any], like: float
) -> tuple[torch.Tensor, torch.Tensor] | None:
    """How far the sums of an operator go while their terms are added, and how long the runs of equal terms are.

    A sum of many positive terms, and then of as many negative ones, has been far away before it comes back, and every
    addition has erred by a share of where it was. In a run of equal terms all additions err to the same side.

    Args:
        func: `sum`, `mean` or `cumsum`.
        args: its arguments, of which the first is in float64.
        kwargs: likewise.
        like: terms that differ by no more, relative to their size, are equal: rounding has moved them apart.

    Returns:
        The largest magnitude of partial sums and the root of the sum of the squared lengths of runs, both of as many
        numbers as the result; None: sums of so few terms, or so many (see `MOST`), have no such error.
    """
    given = arguments_of(func, args, kwargs)
    values = args[0]
    if not values.dim() or not values.numel():
        return None
    dims = _dims(given.get("dim"), values)
    count = _count(values, dims)
    if not FEW_TERMS <= count <= MOST:
        return None
    kept = [dim for dim in range(values.dim()) if dim not in dims]
    order = [*kept, *dims]
    terms = values.permute(order).reshape(*(values.shape[dim] for dim in kept), count)
    sums = terms.cumsum(-1).abs_()
    in_run = _places_in_runs(terms, like)
    if func._schema.name == "aten::cumsum":
        undo = [order.index(dim) for dim in range(values.dim())]
        return sums.cummax(-1).values.permute(undo), (2 * in_run.cumsum(-1)).sqrt().permute(undo)
    return sums.amax(-1), (2 * in_run.sum(-1)).sqrt()


def length_of_runs(terms: torch.Tensor, like: float) -> torch.Tensor:
    """The root of the sum of the squared lengths of runs of equal terms, along the last dimension."""
    return (2 * _places_in_runs(terms, like).sum(-1)).sqrt()


def _places_in_runs(terms: torch.Tensor, like: float) -> torch.Tensor:
    """How many equal terms stand before each in its run. Zeros, which add nothing, stand in none and end none."""
    number = torch.zeros(terms.shape, dtype=torch.float64, device=terms.device)
    near = like * terms.abs()
    is_term = terms != 0
    if bool(is_term.all()) and not bool((terms.diff(dim=-1).abs_() <= near[..., 1:]).any()):
        return number
    places = torch.arange(terms.shape[-1], device=terms.device)
    last = terms.gather(-1, torch.where(is_term, places, 0).cummax(-1).values)  # at or before each place, but zeros
    equal = is_term & ((terms - last.roll(1, -1)).abs() <= near)
    equal[..., :1] = False
    first = terms.gather(-1, torch.where(is_term & ~equal, places, 0).cummax(-1).values)  # of the run
    equal &= (terms - first).abs() <= near  # terms that grow slowly are none
    number = equal.double().cumsum(-1)
    return torch.where(equal, number - torch.where(is_term & ~equal, number, 0.0).cummax(-1).values, 0.0)


def shift_of(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> torch.Tensor | float:
    """What a norm adds to what it has normalised, in a form that is added to its result."""
    given = arguments_of(func, args, kwargs)
    bias: torch.Tensor | None = given.get("bias")
    return 0.0 if bias is None else _by_channel(bias, given, args[0])


def scale_of(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> torch.Tensor:
    """By what a norm multiplies what it has normalised, in a form in which its result is multiplied."""
    given = arguments_of(func, args, kwargs)
    weight: torch.Tensor | None = given.get("weight")
    return torch.ones_like(args[0]) if weight is None else _by_channel(weight, given, args[0])


def _by_channel(parameter: torch.Tensor, given: dict[str, Any], values: torch.Tensor) -> torch.Tensor:
    return parameter if "normalized_shape" in given else parameter.reshape(1, -1, *[1] * (values.dim() - 2))


def _units(
    values: torch.Tensor,
    dims: tuple[int, ...],
    eps: float,
    to_terms: Callable[[torch.Tensor], torch.Tensor] = lambda values: values,
) -> torch.Tensor:
    """See `_units_of_terms`; with ones in place of the dimensions that are summed."""
    kept = [dim for dim in range(values.dim()) if dim not in dims]
    terms = to_terms(values.permute(*kept, *dims).reshape(-1, _count(values, dims)))
    size = torch.maximum(terms.sum(-1).abs(), terms.square().sum(-1).sqrt())  # one term may be larger than all others
    units = _units_of_terms(_sampled(terms), size, terms.shape[-1], eps)
    units = units * torch.where(2 * terms.abs().amax(-1) > size, 2.0, 1.0)  # then the unit is this large from early on
    return units.reshape([1 if dim in dims else length for dim, length in enumerate(values.shape)])


def _share_alike(terms: torch.Tensor, eps: float) -> torch.Tensor:
    """The share of terms that differ from the median by much less than the unit of the last place of their sum."""
    last_place = eps * torch.exp2(
        terms.sum(-1, keepdim=True).abs().clamp_min(torch.finfo(torch.float32).tiny).log2().floor()
    )
    some = _sampled(terms)
    return ((some - some.median(-1, keepdim=True).values).abs() < last_place / 4).double().mean(-1)


def _units_of_products(first: torch.Tensor, second: torch.Tensor, eps: float) -> torch.Tensor | None:
    """What some elements of a product of matrices or vectors have in the middle."""
    count = first.shape[-1]
    if not LEAST <= count <= MOST or not first.numel() or not second.numel():
        return None
    first = first.reshape(-1, 1 if first.dim() == 1 else first.shape[-2], count)
    second = second.reshape(-1, count, 1 if second.dim() == 1 else second.shape[-1])
    generator = torch.Generator().manual_seed(count)

    def choose(length: int, number: int) -> torch.Tensor:
        return torch.randint(length, (number,), generator=generator).to(first.device)

    batch, row, column = (choose(length, SOME_PRODUCTS)[:, None] for length in (*first.shape[:2], second.shape[2]))
    inner = choose(count, min(count, SAMPLES // SOME_PRODUCTS))
    terms = first[batch, row, inner] * second[batch, inner, column]
    size = torch.maximum(count * terms.mean(-1).abs(), (count * terms.square().mean(-1)).sqrt())
    return _units_of_terms(terms, size, count, eps).median()


def _units_of_terms(terms: torch.Tensor, size: torch.Tensor, count: int, eps: float) -> torch.Tensor:
    """A quarter of a unit for each term, as far as the terms are alike modulo the unit of the last place of their sum.

    Where all are equal, every addition may err to the same side: half of them by up to half a unit of the sum. No
    addition errs by more than its term, which is lost where it is less than half a unit.

    Args:
        terms: some of each sum's (number of sums, number of terms).
        size: of each sum, or of what its terms add up to where they are of either sign.
        count: how many terms each has.
        eps: of the precision in which they are added.
    """
    last_place = eps * torch.exp2(size.clamp_min(torch.finfo(torch.float32).tiny).log2().floor())
    steps = terms / last_place.unsqueeze(-1)
    past = (steps - steps.round()).float()  # what counts is this alone, and single precision is enough for it
    most = (4 * steps.abs()).clamp_max(1.0).float() * (past.abs() > ON_GRID)
    angle = past.mul_(2 * math.pi)
    once = torch.complex(angle.cos(), angle.sin())  # a third of what `torch.polar` takes
    turned = once * most
    alike = torch.zeros_like(size)
    for number in range(1, HARMONICS + 1):
        coefficient = turned.mean(-1).abs().double()
        alike += (coefficient.square() - CHANCE / terms.shape[-1]).clamp_min(0.0).sqrt() / number
        turned *= once
    alike /= sum(1 / number for number in range(1, HARMONICS + 1))
    return (count / 4 * alike).nan_to_num(0.0)


def _sampled(terms: torch.Tensor) -> torch.Tensor:
    """Some of the terms of each sum: all, or as many anywhere as are enough."""
    num_sums, count = terms.shape
    num_terms = min(count, max(SAMPLES // max(num_sums, 1), LEAST))
    if num_terms == count:
        return terms
    generator = torch.Generator().manual_seed(count)
    return terms[:, torch.randint(count, (num_terms,), generator=generator).to(terms.device)]


def _dims(given: int | Sequence[int] | None, values: torch.Tensor) -> tuple[int, ...]:
    """The dimensions that an operator sums over; where it names none, these are all."""
    if given is None or given == []:
        return tuple(range(values.dim()))
    return tuple(sorted(dim % values.dim() for dim in ([given] if isinstance(given, int) else given)))


def _count(values: torch.Tensor, dims: tuple[int, ...]) -> int:
    return math.prod(values.shape[dim] for dim in dims)
