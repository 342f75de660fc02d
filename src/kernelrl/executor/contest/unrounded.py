"""What no program rounds: whole numbers that are added, and results on a grid that every precision has."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import torch

from kernelrl.executor.contest.operator_mode import arguments_of
from kernelrl.executor.contest.precision import Units, is_float, of_squares
from kernelrl.executor.contest.sum_errors import PRODUCTS

ELEMENTWISE = frozenset("add sub rsub mul div fmod remainder addcmul lerp ldexp".split())
"""Operators that round nothing where operands and results are on the grid."""
_MEANS = frozenset("mean avg_pool2d avg_pool3d".split())
_SUMS = _MEANS | frozenset(
    [*PRODUCTS, "convolution", "cumsum", "sum", "index_add", "scatter_add", "index_put", "put", "col2im"]
)
"""Operators that round nothing where their terms are whole numbers and the result is on the grid."""
_OF_ONE_SIGN = frozenset("prod square pow _cdist_forward linalg_vector_norm".split())
"""Likewise, and what they have on their way is no larger than the result, or comes to nothing: products, powers, and
sums of distances and sizes of order one."""
_DIFFERENCES = frozenset("add sub rsub".split())
GRID = 1 / 256
"""Its multiples are in every precision what they are, as long as they fit."""
SOME, SPREAD = 64, 256
"""Elements that are looked at first: of the beginning, where all must be on a grid, or from all over."""


_THROUGH_ZERO = dict.fromkeys("expm1 log1p tanh sinh asinh atanh elu selu celu".split(), 0.0) | dict.fromkeys(
    "log log2 log10".split(), 1.0
)
"""By operator: the operand of which the result is zero, by any of the usual formulas."""


def find_unrounded(
    func: Any, base: str, args: tuple[Any, ...], kwargs: dict[str, Any], units: Units
) -> tuple[torch.Tensor, torch.Tensor] | None:
    """An operator's result, and which elements of it no program rounds; None: none, as far as is known.

    These are sums whose terms are whole numbers and add up to what the precision has, in whatever order, products,
    powers and distances of whole numbers, and results on the grid of operands on the grid. Where operands are equal,
    their difference is zero, and so are the hyperbolic tangent of zero and the logarithm of one.
    """
    result: torch.Tensor
    if not any(map(is_float, args)):
        return None
    if base in _SUMS and are_on_grid([*args, *kwargs.values()], units, 1.0):
        result = func(*args, **kwargs)
        if not is_float(result):
            return None
        divided_by = _divisor(base, args, result) if base in _MEANS else 1
        most = of_squares(func, args, kwargs).abs() * divided_by  # of whole t, |t| <= t²
        exact = (most <= units.largest) & on_grid(result, units)
        if divided_by > 1:  # some programs multiply by the reciprocal
            sums = result * divided_by
            reciprocal = torch.tensor(1 / divided_by, dtype=torch.float32, device=result.device)
            exact &= (sums == sums.round()) & ((sums.float() * reciprocal).double() == result)
        return result, exact
    if base in _OF_ONE_SIGN and _is_of_whole_order(func, base, args, kwargs):
        if not are_on_grid([each for each in args if is_float(each)], units, 1.0):
            return None
        result = func(*args, **kwargs)
        return result, on_grid(result, units, 1.0)
    if base in _THROUGH_ZERO and is_float(args[0]):
        exact = args[0] == _THROUGH_ZERO[base]
        return (func(*args, **kwargs), exact) if bool(exact.any()) else None
    if base in ELEMENTWISE:
        result = func(*args, **kwargs)
        if not is_float(result) or not bool(on_grid(_some(result), units).any()):
            return None
        exact = on_grid(result, units)
        operands = [*args, *kwargs.values(), *(_reciprocal(args[1]) if base == "div" else [])]
        for operand in operands:
            if is_float(operand):
                exact &= on_grid(operand, units)
            elif isinstance(operand, float) and operand / GRID % 1:
                exact.zero_()
        if base in _DIFFERENCES and all(map(is_float, args[:2])) and not kwargs:
            exact |= result == 0
        return (result, exact) if bool(exact.any()) else None
    return None


def _is_of_whole_order(func: Any, base: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    """Whether a distance or size is a sum, and a power a product of few."""
    given = arguments_of(func, args, kwargs)
    orders = {"pow": ("exponent", range(1, 5)), "_cdist_forward": ("p", [1]), "linalg_vector_norm": ("ord", [1])}
    name, whole = orders.get(base, ("", []))
    return base not in orders or (isinstance(given.get(name), int | float) and given[name] in whole)


def on_grid(values: torch.Tensor, units: Units, grid: float = GRID) -> torch.Tensor:
    """Which values are multiples of a grid, and so small that the precision has these."""
    steps = values / grid
    return (steps == steps.round()) & (steps.abs() <= units.largest)


def are_on_grid(items: Iterable[Any], units: Units, grid: float = GRID) -> bool:
    """Whether all numbers among them, alone and in tensors, are on a grid. Some are looked at first."""
    numbers = [item for item in items if isinstance(item, float)]
    tensors = [item for item in items if is_float(item)]
    return (
        all(number / grid % 1 == 0 for number in numbers)
        and all(bool(on_grid(_few(item), units, grid).all()) for item in tensors)
        and all(bool(on_grid(item, units, grid).all()) for item in tensors)
    )


def _few(values: torch.Tensor) -> torch.Tensor:
    """The first elements."""
    if not values.dim() or not values.numel():
        return values
    row = values.flatten() if values.is_contiguous() else values[(0,) * (values.dim() - 1)]
    return row[:SOME]


def _some(values: torch.Tensor) -> torch.Tensor:
    """Elements from all over: those of the first row may all lie at an edge."""
    if not values.is_contiguous():
        return values
    return values.flatten()[:: values.numel() // SPREAD | 1]  # odd, and so not always in the same columns


def _reciprocal(divisor: Any) -> list[Any]:
    """One over a divisor; nothing where that is infinite."""
    if isinstance(divisor, torch.Tensor):
        return [1 / divisor.double()]
    return [1 / divisor] if divisor else []


def _divisor(base: str, args: tuple[Any, ...], result: torch.Tensor) -> int:
    """By what a mean divides the sum of its terms."""
    if base == "mean":
        return int(args[0].numel() // max(result.numel(), 1))
    size = args[1] if len(args[1]) > 1 else [*args[1]] * int(base[-2])
    return math.prod(size)
