"""By how much the sums that operators make err, whatever order of additions a program chooses."""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from typing import Any

import torch

from kernelrl.executor.contest.one_sided import FEW_TERMS, LIKE, length_of_runs, reach_of_sums, units_of_sums
from kernelrl.executor.contest.precision import Units, is_float, of_squares

PRODUCTS = {"mm": 0, "bmm": 0, "mv": 0, "dot": 0, "addmm": 1, "baddbmm": 1, "addmv": 1, "addbmm": 1}
"""Sums of products, with the position of the argument whose last dimension is summed."""
_SHIFTED = frozenset("logsumexp _log_softmax logcumsumexp".split())
"""Operators that take the largest value off before they take exponentials, and put it back: m + log Σ exp(x − m)."""
_LOGARITHMS = frozenset("aten::logsumexp aten::_log_softmax".split())
"""Operators that take the logarithm of a sum, of which the relative error is then absolute."""
_THROUGH_ONE = frozenset(
    "expm1 log1p tanh sinh asinh atanh elu selu celu softplus log_sigmoid log_sigmoid_forward".split()
)
"""Operators that the usual formula computes by way of numbers near one: exp(x) − 1, 2 sigmoid(2 x) − 1, log(1 + x)."""
_TIMES_NEAR_ONE = frozenset("gelu mish".split())
"""Operators that multiply their operand by such a number: x (1 + erf(x / √2)) / 2, x tanh(log(1 + exp(x)))."""
_SCATTERING = {"index_add": 3, "scatter_add": 3, "index_put": 2}
"""Operators that add to places of their first argument, with the position of what they add."""
BY_CHANCE = 4.0
"""Sums of random terms of either sign hardly ever go further on their way than so many times √(Σ t²), and runs of equal
terms are hardly ever together longer than so many times √n."""
EQUAL = 1e-6
"""Terms of which the variance is less than this share of their mean square count as equal."""
ROOT, MOSTLY = 1 / 16, 1e-3
"""Terms whose sixteenth roots vary by less than this share are equal but for a few, however large these are: of numbers
drawn evenly from [0, 1) it is four times as much."""
EXPANDED = 4
"""Determinants of larger matrices are found by elimination."""
PLACES = 16
"""Partial sums of products that are looked at."""
OF_STRASSEN = 12.0
"""So many times as much a product errs by Strassen's algorithm, which adds the rows of one half to those of the other:
where one of these is equal throughout, all its terms err to one side."""
OF_WINOGRAD = 4.0
"""So many times as much a convolution errs by Winograd's F(4×4, 3×3), whose transforms have factors up to 8 (Lavin and
Gray, "Fast algorithms for convolutional neural networks", 2016)."""
ONE_SIDED, MOST_ONE_SIDED = 0.3, 1 << 20
"""A sum s of n terms of one sign, added one after another, errs by 0.24 u √n s; counted is a little more. Of more terms
than so many that would be more than the usual tolerance."""


def error_of_result(
    func: Any, args: tuple[Any, ...], kwargs: Any, result: torch.Tensor, units: Units, by_largest: bool
) -> torch.Tensor | None:
    """Error of what an operator sums, by chance or to one side.

    Args:
        func: the operator.
        args: its arguments, of which the first is in float64.
        kwargs: likewise.
        result: what it gives.
        units: of the precision.
        by_largest: see `rounding.Rounding`.

    Returns:
        Of each element of the result, not negative; None: it sums nothing.
    """
    by_chance = _error_of_sums(func, args, kwargs, result, units, by_largest)
    to_one_side = _one_sided_error(func, args, kwargs, result, units)
    errors = [error.abs() for error in (by_chance, to_one_side) if error is not None]
    return reduce(torch.maximum, errors) if errors else None


def _error_of_sums(
    func: Any, args: tuple[Any, ...], kwargs: Any, result: torch.Tensor, units: Units, by_largest: bool
) -> torch.Tensor | None:
    """Error of a sum of n terms t: u √n √(Σ t²), which is twice what adding them in sequence errs on average."""
    name = func._schema.name.removeprefix("aten::")
    error: torch.Tensor
    if name in PRODUCTS:
        first = PRODUCTS[name]
        num_terms = args[first].shape[-1]
        alpha = abs(kwargs.get("alpha", 1))
        squares = of_squares(func, args, kwargs) * alpha  # of which it has made one of the two factors
        error = _error(units.of_sums, num_terms, squares, result)
        error = _at_least_far(error, args[first], args[first + 1], alpha, squares, result, units)
        factors = OF_STRASSEN * alpha * args[first], args[first + 1]
        return _at_least_largest(error, num_terms, *factors, units) if by_largest else error
    if name == "convolution":
        num_terms = args[1].numel() // max(args[1].shape[1 if args[6] else 0], 1)
        error = _error(units.of_sums, num_terms, of_squares(func, args, kwargs), result)
        error = _at_least_largest(error, num_terms, args[0], args[1], units) if by_largest else error
        return error * (OF_WINOGRAD if _may_be_winograds(*args[1:7]) else 1.0)
    if name in _SHIFTED and args[0].numel():  # each of the two last operands has the size of the largest value
        keepdim = name != "logsumexp" or (args[2] if len(args) > 2 else kwargs.get("keepdim", False))
        largest = args[0].amax(args[1], keepdim=keepdim).abs().nan_to_num(0.0, 0.0, 0.0)
        error = 2 * units.of_values * largest + units.of_sums * result.abs()
        return error
    num_terms = args[0].numel() // max(result.numel(), 1) if args and is_float(args[0]) else 1
    if name in ("sum", "mean", "cumsum"):
        return _adding_error(func, args, kwargs, result, num_terms, units)
    if num_terms <= 1 or _selects(func, args, kwargs):
        return None
    error = result.abs() * (units.of_sums * num_terms**0.5)
    return error


def _may_be_winograds(
    weight: torch.Tensor, bias: Any, stride: list[int], padding: Any, dilation: list[int], transposed: bool
) -> bool:
    """Whether a convolution has 3×3 taps, which lie together and go from each place to the next."""
    return list(weight.shape[2:]) == [3, 3] and not transposed and {*stride, *dilation} == {1}


def error_through_one(func: Any, args: tuple[Any, ...], result: torch.Tensor, units: Units) -> torch.Tensor | None:
    """Error of a formula with two operands near one, or as large as the result; None: that is not usual here."""
    name = func._schema.name.removeprefix("aten::").removesuffix("_")
    if name in _TIMES_NEAR_ONE:
        values: torch.Tensor = args[0]
        return units.of_sums * values.abs()
    return 2 * units.of_sums * (1 + result.abs()) * (result != 0) if name in _THROUGH_ONE else None


def error_of_minors(func: Any, args: tuple[Any, ...], units: Units) -> torch.Tensor | None:
    """Error of the determinant of a small matrix that is expanded by minors; None: it is not usual here.

    Its terms are products of elements, none larger than the product of the rows' norms, and may cancel altogether.
    """
    if func._schema.name != "aten::_linalg_det" or args[0].shape[-1] > EXPANDED:
        return None
    error: torch.Tensor = 2 * units.of_sums * args[0].norm(dim=-1).prod(dim=-1)
    return error


def _adding_error(
    func: Any, args: tuple[Any, ...], kwargs: Any, result: torch.Tensor, num_terms: int, units: Units
) -> torch.Tensor:
    """Error of `sum`, `mean` or `cumsum`.

    Where the furthest partial sum s goes beyond `BY_CHANCE` √(Σ t²) and comes back, it is u √n s; where it stays there,
    `ONE_SIDED` of that; and where there are long runs of equal terms, a quarter of u s for each of a run (see
    `reach_of_sums`).
    """
    name = func._schema.name.removeprefix("aten::")
    if name == "cumsum":
        num_terms = args[0].shape[args[1]] if args[0].dim() else 1
    divided_by = max(num_terms, 1) if name == "mean" else 1
    squares = of_squares(func, args, kwargs) / divided_by
    error = _error(units.of_sums, num_terms, squares, result)
    if (found := reach_of_sums(func, args, kwargs, LIKE * abs(units.of_values))) is None:
        return error
    reach, runs = (each.reshape(result.shape) for each in found)
    further = _far_and_back(reach, divided_by * squares.sqrt(), divided_by * result, runs, num_terms)
    return torch.maximum(error.abs(), abs(units.of_sums) / divided_by * further)


def _far_and_back(
    reach: torch.Tensor, by_chance: torch.Tensor, total: torch.Tensor, runs: torch.Tensor, num_terms: int
) -> torch.Tensor:
    """Error of sums that go further on their way than they end, or have long runs, in units: see `_adding_error`.

    Args:
        reach: largest magnitude of their partial sums.
        by_chance: √(Σ t²).
        total: what they come to.
        runs: see `length_of_runs`.
        num_terms: of each.
    """
    stays = ONE_SIDED if num_terms <= MOST_ONE_SIDED else 0.0
    share = torch.where(reach > 2 * total.abs(), 1.0, stays)
    times = torch.where(reach > BY_CHANCE * by_chance, share * num_terms**0.5, 0.0)
    return reach * torch.maximum(times, torch.where(runs > BY_CHANCE * num_terms**0.5, runs / 4, 0.0))


def _at_least_far(
    error: torch.Tensor,
    first: torch.Tensor,
    second: torch.Tensor,
    alpha: float,
    squares: torch.Tensor,
    result: torch.Tensor,
    units: Units,
) -> torch.Tensor:
    """Errors of sums of products, times `alpha`, not smaller than those of `_adding_error`: partial sums are
    looked at in `PLACES` places."""
    num_terms = first.shape[-1]
    along = max(second.dim() - 2, 0)
    if num_terms < FEW_TERMS:
        return error
    sums = reach = torch.zeros(())
    pieces = zip(first.chunk(PLACES, -1), second.chunk(PLACES, along), strict=True)
    for one, other in pieces:
        sums = sums + alpha * (one @ other)
        reach = torch.maximum(reach, sums.abs())
    if reach.shape != result.shape:  # products of several matrices are added
        return error
    like = LIKE * abs(units.of_values)
    of_first, of_second = length_of_runs(first, like), length_of_runs(second.movedim(along, -1), like)
    if first.dim() > 1 and second.dim() > 1:
        of_first, of_second = of_first.unsqueeze(-1), of_second.unsqueeze(-2)
    further = _far_and_back(reach, squares.abs().sqrt(), sums, torch.minimum(of_first, of_second), num_terms)
    return torch.maximum(error.abs(), abs(units.of_sums) * further)


def _at_least_largest(
    error: torch.Tensor, num_terms: int, first: torch.Tensor, second: torch.Tensor, units: Units
) -> torch.Tensor:
    """Errors of sums of products, not smaller than that of as many of the largest one where this is what counts."""
    if not first.numel() or not second.numel():
        return error
    largest = float(_largest(first) * _largest(second)) * num_terms**0.5
    return error.abs().clamp_min(abs(units.of_sums) * largest)


def scattered_error(func: Any, base: str, args: tuple[Any, ...], kwargs: Any, units: Units) -> torch.Tensor | None:
    """Error of sums to which an operator adds at places, in whatever order; None: it does not add so."""
    place = _SCATTERING.get(base)
    if place is None or len(args) <= place or not is_float(args[place]) or not is_float(args[0]):
        return None
    if base == "index_put" and not (args[3] if len(args) > 3 else kwargs.get("accumulate", False)):
        return None

    alpha = kwargs.get("alpha", 1)

    def add(function: Callable[[torch.Tensor], torch.Tensor], times: float) -> torch.Tensor:
        terms = [function(item) if number in (0, place) else item for number, item in enumerate(args)]
        added: torch.Tensor = func(*terms, **(kwargs | {"alpha": times} if "alpha" in kwargs else kwargs))
        return added

    num_terms, total = add(lambda terms: terms.ne(0).double(), 1), add(torch.clone, alpha)
    error = _error(units.of_sums, num_terms, add(torch.square, alpha**2), total)
    roots, squared = (add(lambda terms: terms.abs() ** power, 1) for power in (ROOT, 2 * ROOT))  # noqa: B023
    mostly_equal = roots.square() >= (1 - MOSTLY) * num_terms * squared
    return torch.where(mostly_equal, torch.maximum(error, _if_equal(units.of_sums, num_terms, total)), error)


def _one_sided_error(
    func: Any, args: tuple[Any, ...], kwargs: Any, result: torch.Tensor, units: Units
) -> torch.Tensor | None:
    """Error of sums of terms that are alike, see `one_sided`."""
    if not args or not is_float(args[0]) or not args[0].dim():
        return None
    to_one_side = units_of_sums(func, args, kwargs, units.sum_eps)
    if to_one_side is None:
        return None
    if to_one_side.dim() not in (0, result.dim()):
        to_one_side = to_one_side.reshape(result.shape)
    size = torch.ones_like(result) if func._schema.name in _LOGARITHMS else result.abs()
    return abs(units.of_sums) * size * to_one_side


def _largest(values: torch.Tensor) -> torch.Tensor:
    """The largest magnitude of those that are finite."""
    return values.abs().nan_to_num(0.0, 0.0, 0.0).max()


def _selects(func: Any, args: tuple[Any, ...], kwargs: Any) -> bool:
    """Whether an operator gives some of its operands' values: then it gives those of their cubes, as no sum does."""
    cubes = func(*(item**3 if is_float(item) else item for item in args), **kwargs)
    return torch.equal(cubes, func(*args, **kwargs) ** 3)


def _error(unit: float, num_terms: int | torch.Tensor, squares: torch.Tensor, total: torch.Tensor) -> torch.Tensor:
    """Error of sums of n terms, of which the squares' sums and the sums are given: see `_error_of_sums`.

    Where all terms of a sum are equal, (Σ t)² = n Σ t², every addition may err to the same side: half of them by up to
    half a unit of the total, a quarter of n units of it on average.
    """
    error = unit * (num_terms * squares.abs()).sqrt()
    equal = total.square() >= (1 - EQUAL) * num_terms * squares.abs()
    return torch.where(equal, torch.maximum(error, _if_equal(unit, num_terms, total)), error)


def _if_equal(unit: float, num_terms: int | torch.Tensor, total: torch.Tensor) -> torch.Tensor:
    """The error of a sum all of whose additions err to the same side."""
    error: torch.Tensor = abs(unit) * num_terms / 4 * total.abs()
    return error
