"""How far rounding may move an output, whatever processor computes it.

The reference runs in float64 with the rounding of a lower precision put in at random: the operands of every operator
move by half a unit of the last place, and sums by what adding their terms one after another would err. The distance
to the exact outputs is the uncertainty that every program for the task has (stochastic arithmetic; Vignes, "A
stochastic arithmetic for reliable scientific computation", 1993). It depends on the number of terms, on their size and
on the dtype, and on nothing that the machine does.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from functools import reduce
from typing import Any

import numpy as np
import torch

from kernelrl.executor.contest.one_sided import reach_of_sums, shift_of, units_of_statistics, units_of_sums
from kernelrl.executor.contest.operator_mode import OperatorMode
from kernelrl.executor.legality.operators import PLUMBING

_PRODUCTS = {"mm": 0, "bmm": 0, "mv": 0, "dot": 0, "addmm": 1, "baddbmm": 1, "addmv": 1, "addbmm": 1}
"""Sums of products, with the position of the argument whose last dimension is summed."""
_STATISTICS = frozenset(
    "var std var_mean std_mean native_layer_norm native_group_norm native_batch_norm _native_batch_norm_legit "
    "_native_batch_norm_legit_no_training".split()
)
"""Operators that subtract a mean, which is a sum itself."""
_SHIFTED = frozenset("logsumexp _log_softmax logcumsumexp".split())
"""Operators that take the largest value off before they take exponentials, and put it back: m + log Σ exp(x − m)."""
_LOGARITHMS = frozenset("aten::logsumexp aten::_log_softmax".split())
"""Operators that take the logarithm of a sum, of which the relative error is then absolute."""
_THROUGH_ONE = frozenset("expm1 log1p tanh elu selu celu softplus log_sigmoid log_sigmoid_forward".split())
"""Operators that the usual formula computes by way of numbers near one: exp(x) − 1, 2 sigmoid(2 x) − 1, log(1 + x)."""


_INSIDE = (
    *("_fft_", "_linalg_", "cholesky", "triangular_solve"),
    *(f"linalg_{name}" for name in "cholesky inv lu qr solve ldl eig".split()),
)
"""Operators that add and multiply many times inside, which counts as errors of their operands: u √n of each."""

FAR = 4.0
"""Sums of random terms of either sign hardly ever go further on their way than so many times √(Σ t²), and runs of equal
terms are hardly ever together longer than so many times √n."""
EQUAL = 1e-6
"""Terms of which the variance is less than this share of their mean square count as equal."""
SOME = 64
"""Elements that are looked at first."""
NARROW = (torch.float32, torch.bfloat16, torch.float16)
"""Precisions below float64."""
NUM_SIGNS = 1 << 16
"""By so many the table of random signs is longer than a tensor."""
_STEPS = frozenset("sign sgn round floor ceil trunc frac fmod remainder floor_divide heaviside bucketize".split())
"""Operators that jump, beside those that compare or convert to integers."""
_TO_WHOLE = frozenset("sign sgn round floor ceil trunc heaviside floor_divide".split())
"""Operators that give whole numbers, which stay as they are."""
_SELECTING = frozenset(
    "clamp clamp_min clamp_max minimum maximum fmin fmax amin amax where relu hardtanh threshold neg abs "
    "upsample_nearest1d upsample_nearest2d upsample_nearest3d".split()
)
"""Operators that give some of their operands' values, or these with the other sign: nobody rounds them."""
_ELEMENTWISE = frozenset("add sub rsub mul div fmod remainder".split())
"""Operators that round nothing where operands and results are on the grid."""
_MEANS = frozenset("mean avg_pool2d avg_pool3d".split())
_BEGINNINGS = frozenset("aten::zeros aten::ones aten::empty".split())
"""Operators that make tensors of which every precision has the values."""
_SCATTERING = {"index_add": 3, "scatter_add": 3, "index_put": 2}
"""Operators that add to places of their first argument, with the position of what they add."""
_SUMS = _MEANS | frozenset([*_PRODUCTS, "convolution", "cumsum", "sum"])
"""Operators that round nothing where their terms are whole numbers and the result is on the grid."""
_DIFFERENCES = frozenset("add sub rsub".split())
GRID = 1 / 256
"""Its multiples are in every precision what they are, as long as they fit."""


class Precisions(OperatorMode):  # type: ignore[no-untyped-call]
    """While it is active, notes in which precision each operator computes."""

    def __init__(self) -> None:
        super().__init__()
        self.noted: list[tuple[str, torch.dtype, torch.dtype]] = []
        """Its name, the lowest precision among its operands, and that of its result."""
        self.widens = False
        """Whether something is converted to a higher precision: then what it was rounded to does not show later."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        before, after = _lowest([*args, *(kwargs or {}).values()]), _lowest(_as_tuple(result))
        if func._schema.name not in PLUMBING:
            self.noted.append((func._schema.name, before or after or torch.float32, after or before or torch.float32))
        elif before is not None and after is not None:
            self.widens |= torch.finfo(after).eps < torch.finfo(before).eps
        return result


class Rounding(OperatorMode):  # type: ignore[no-untyped-call]
    """While it is active, float64 operators round like those of another precision, and float64 stays float64.

    Args:
        dtype: that precision. Sums of 16-bit numbers are made in float32, as every library does.
        native: the precision of each operator; None, and from where other operators run: `dtype`.
        times: errors are so many times as large, with the opposite signs if negative.
        by_largest: sums of products err by what their largest product may err, as those of Winograd and Strassen do.
        seed: of the signs of the errors.
    """

    def __init__(
        self,
        dtype: torch.dtype,
        native: Precisions | None = None,
        times: float = 1.0,
        by_largest: bool = False,
        seed: int = 0,
    ):
        super().__init__()
        self._dtype = dtype
        self._times = times
        self._by_largest = by_largest
        self._native = iter(native.noted if native else [])
        self._widens = native is not None and native.widens
        self._round_to(dtype)
        self.jumps = False
        """Whether an operator was seen whose result jumps where its operands move a little."""
        self._generator = np.random.default_rng(seed)
        self._table = torch.empty(0)

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        to = (kwargs or {}).get("dtype")
        kwargs = stay_in_float64(func, args, kwargs or {})
        narrowed = to if kwargs.get("dtype") is not to and func._schema.name not in _BEGINNINGS else None
        base = func._schema.name.removeprefix("aten::").removesuffix("_")
        scattered = self._scattered_error(func, base, args, kwargs)
        exact = func(*args, **kwargs) if func._schema.is_mutable else None
        self.jumps |= base in _STEPS
        if func._schema.name not in PLUMBING:
            name, dtype, of_result = next(self._native, ("", self._dtype, self._dtype))
            if name != func._schema.name:
                self._native, dtype, of_result = iter(()), self._dtype, self._dtype
            self._round_to(dtype)
            self._result_unit = self._times * torch.finfo(of_result).eps / 2 if self._widens else 0.0
        if func._schema.name in PLUMBING or torch.Tag.nondeterministic_seeded in func.tags:
            result = func(*args, **kwargs) if exact is None else exact
            if args and _is_float(args[0]) and isinstance(result, torch.Tensor) and result.dtype != args[0].dtype:
                self.jumps = True
            if narrowed is not None:
                self._round_to(narrowed)
                result = self._moved(result)
            return result
        if base in _SELECTING:
            return func(*args, **kwargs) if exact is None else exact
        if exact is not None:
            if base in _ELEMENTWISE and base != "div" and self._is_on_grid([*args, *kwargs.values()]):
                return exact
            if _is_float(exact) and base not in _TO_WHOLE:
                exact.copy_(self._moved(exact))
                if scattered is not None:
                    exact.addcmul_(self._signs(exact), scattered)
                if (error := self._error_through_one(func, exact)) is not None:
                    exact.addcmul_(self._signs(exact), error)
            return exact
        certain = self._certain(func, base, args, kwargs)
        if certain is not None and bool(certain[1].all()):
            return certain[0]
        if base.startswith(_INSIDE):
            result = func(*map(self._moved_inside, args), **kwargs)
            if any(isinstance(item, torch.Tensor) and not item.is_floating_point() for item in _as_tuple(result)):
                return _with_exact_integers(result, func(*args, **kwargs))
        else:
            moved = self._moved_off_grid if base in _STEPS else self._moved
            result = func(*(moved(item) if _is_float(item) else item for item in args), **kwargs)
        if base in _TO_WHOLE:
            return result
        if base in _STATISTICS and (num_statistics := _as_tuple(result)[-1].numel()):  # batch norm may be given its own
            num_terms = args[0].numel() // num_statistics
            equal = bool((args[0] == args[0].flatten()[0]).all()) if args[0].numel() else False
            units = args[0].abs() * max(2 * num_terms**0.5, num_terms / 4 * equal)  # see `_error`
            one_sided = units_of_statistics(func, args, kwargs, self._sum_eps)
            if one_sided is not None:
                units = torch.maximum(units, one_sided[0] * (self._sum_unit / self._unit))
            values = args[0].addcmul(units, self._signs(units), value=self._unit)
            result = func(values, *args[1:], **kwargs)
            normalised = _as_tuple(result)[0]
            if one_sided is not None and normalised.shape == args[0].shape:
                relative = one_sided[1] * self._signs(normalised)
                shift = shift_of(func, args, kwargs)  # twice: other errors may be of the other sign
                normalised.addcmul_(normalised - shift, relative, value=2 * self._sum_unit)
        if any(isinstance(item, torch.Tensor) and not _is_float(item) for item in _as_tuple(result)):
            self.jumps |= any(_is_float(item) for item in args)
            return func(*args, **kwargs)  # what decides, such as a comparison, sees the values as they are
        if _is_float(result):
            signs = self._signs(result)
            errors = [
                scattered,
                self._sum_error(func, args, kwargs, result),
                self._one_sided_error(func, args, kwargs, result),
            ]
            if known := [error.abs() for error in errors if error is not None]:
                result.addcmul_(signs, reduce(torch.maximum, known), value=math.copysign(1.0, self._times))
            result.addcmul_(result != 0, signs, value=self._tiny)  # what no operand moves off zero is zero
            if self._result_unit:
                result.addcmul_(result, self._signs(result), value=self._result_unit)
            if certain is not None:
                result = torch.where(certain[1], certain[0], result)
        return result

    def _certain(
        self, func: Any, base: str, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> tuple[torch.Tensor, torch.Tensor] | None:
        """An operator's result, and which elements of it no program rounds; None: none, as far as is known.

        These are sums whose terms are whole numbers and add up to what the precision has, in whatever order, and
        results on the grid of operands on the grid. Where operands are equal, their difference is zero.
        """
        result: torch.Tensor
        if not any(map(_is_float, args)):
            return None
        if base in _SUMS and self._is_on_grid([*args, *kwargs.values()], 1.0):
            result = func(*args, **kwargs)
            if not _is_float(result):
                return None
            divided_by = _divisor(base, args, result) if base in _MEANS else 1
            most = _of_squares(func, args, kwargs).abs() * divided_by  # of whole t, |t| <= t²
            exact = (most <= self._largest) & self._on_grid(result)
            if divided_by > 1:  # some programs multiply by the reciprocal
                sums = result * divided_by
                reciprocal = torch.tensor(1 / divided_by, dtype=torch.float32, device=result.device)
                exact &= (sums == sums.round()) & ((sums.float() * reciprocal).double() == result)
            return result, exact
        if base in _ELEMENTWISE:
            result = func(*args, **kwargs)
            if not _is_float(result) or not bool(self._on_grid(_few(result)).any()):
                return None
            exact = self._on_grid(result)
            operands = [*args, *kwargs.values(), *(_reciprocal(args[1]) if base == "div" else [])]
            for operand in operands:
                if _is_float(operand):
                    exact &= self._on_grid(operand)
                elif isinstance(operand, float) and operand / GRID % 1:
                    exact.zero_()
            if base in _DIFFERENCES and all(map(_is_float, args[:2])) and not kwargs:
                exact |= result == 0
            return (result, exact) if bool(exact.any()) else None
        return None

    @property
    def _largest(self) -> float:
        """Up to here the precision has every whole number."""
        return abs(self._times / self._unit) if self._unit else 0.0

    def _on_grid(self, values: torch.Tensor, grid: float = GRID) -> torch.Tensor:
        steps = values / grid
        return (steps == steps.round()) & (steps.abs() <= self._largest)

    def _is_on_grid(self, items: Iterable[Any], grid: float = GRID) -> bool:
        """Whether all numbers among them, alone and in tensors, are on a grid. Some are looked at first."""
        numbers = [item for item in items if isinstance(item, float)]
        tensors = [item for item in items if _is_float(item)]
        return (
            all(number / grid % 1 == 0 for number in numbers)
            and all(bool(self._on_grid(_few(item), grid).all()) for item in tensors)
            and all(bool(self._on_grid(item, grid).all()) for item in tensors)
        )

    def _round_to(self, dtype: torch.dtype) -> None:
        info = torch.finfo(dtype)
        self._unit = self._times * info.eps / 2
        self._sum_eps = min(info.eps, torch.finfo(torch.float32).eps)
        self._sum_unit = self._times * self._sum_eps / 2
        self._tiny = self._times * least(dtype)

    def _sum_error(self, func: Any, args: tuple[Any, ...], kwargs: Any, result: torch.Tensor) -> torch.Tensor | None:
        """Error of a sum of n terms t: u √n √(Σ t²), which is twice what adding them in sequence errs on average."""
        name = func._schema.name.removeprefix("aten::")
        error: torch.Tensor
        if name in _PRODUCTS:
            first = _PRODUCTS[name]
            num_terms = args[first].shape[-1]
            error = _error(self._sum_unit, num_terms, _of_squares(func, args, kwargs), result)
            return self._at_least_largest(error, num_terms, args[first], args[first + 1])
        if name == "convolution":
            num_terms = args[1].numel() // max(args[1].shape[1 if args[6] else 0], 1)
            error = _error(self._sum_unit, num_terms, _of_squares(func, args, kwargs), result)
            return self._at_least_largest(error, num_terms, args[0], args[1])
        if (through_one := self._error_through_one(func, result)) is not None:
            return through_one
        if name in _SHIFTED and args[0].numel():  # each of the two last operands has the size of the largest value
            keepdim = name != "logsumexp" or (args[2] if len(args) > 2 else kwargs.get("keepdim", False))
            largest = args[0].amax(args[1], keepdim=keepdim).abs().nan_to_num(0.0, 0.0, 0.0)
            error = 2 * self._unit * largest + self._sum_unit * result.abs()
            return error
        num_terms = args[0].numel() // max(result.numel(), 1) if args and _is_float(args[0]) else 1
        if name in ("sum", "mean", "cumsum"):
            return self._adding_error(func, args, kwargs, result, num_terms)
        if num_terms <= 1 or _selects(func, args, kwargs):
            return None
        error = result.abs() * (self._sum_unit * num_terms**0.5)
        return error

    def _adding_error(
        self, func: Any, args: tuple[Any, ...], kwargs: Any, result: torch.Tensor, num_terms: int
    ) -> torch.Tensor:
        """Error of `sum`, `mean` or `cumsum`.

        Where the furthest partial sum s goes beyond `FAR` √(Σ t²) and comes back, it is u √n s, and where there are
        long runs of equal terms, a quarter of u s for each of a run (see `reach_of_sums`).
        """
        name = func._schema.name.removeprefix("aten::")
        if name == "cumsum":
            num_terms = args[0].shape[args[1]] if args[0].dim() else 1
        divided_by = max(num_terms, 1) if name == "mean" else 1
        squares = _of_squares(func, args, kwargs) / divided_by
        error = _error(self._sum_unit, num_terms, squares, result)
        if (found := reach_of_sums(func, args, kwargs)) is None:
            return error
        reach, runs = (each.reshape(result.shape) for each in found)
        returns = (reach > FAR * divided_by * squares.sqrt()) & (reach > 2 * divided_by * result.abs())
        further = torch.where(returns, num_terms**0.5, 0.0)
        further = torch.maximum(further, torch.where(runs > FAR * num_terms**0.5, runs / 4, 0.0))
        return torch.maximum(error.abs(), abs(self._sum_unit) / divided_by * reach * further)

    def _at_least_largest(
        self, error: torch.Tensor, num_terms: int, first: torch.Tensor, second: torch.Tensor
    ) -> torch.Tensor:
        """Errors of sums of products, not smaller than that of as many of the largest one where this is what counts."""
        if not self._by_largest or not first.numel() or not second.numel():
            return error
        largest = float(_largest(first) * _largest(second)) * num_terms**0.5
        return error.abs().clamp_min(abs(self._sum_unit) * largest)

    def _scattered_error(self, func: Any, base: str, args: tuple[Any, ...], kwargs: Any) -> torch.Tensor | None:
        """Error of sums to which an operator adds at places, in whatever order; None: it does not add so."""
        place = _SCATTERING.get(base)
        if place is None or len(args) <= place or not _is_float(args[place]) or not _is_float(args[0]):
            return None
        if base == "index_put" and not (args[3] if len(args) > 3 else kwargs.get("accumulate", False)):
            return None

        alpha = kwargs.get("alpha", 1)

        def add(function: Callable[[torch.Tensor], torch.Tensor], times: float) -> torch.Tensor:
            terms = [function(item) if number in (0, place) else item for number, item in enumerate(args)]
            added: torch.Tensor = func(*terms, **(kwargs | {"alpha": times} if "alpha" in kwargs else kwargs))
            return added

        num_terms = add(lambda terms: terms.ne(0).double(), 1)
        return _error(self._sum_unit, num_terms, add(torch.square, alpha**2), add(torch.clone, alpha))

    def _one_sided_error(
        self, func: Any, args: tuple[Any, ...], kwargs: Any, result: torch.Tensor
    ) -> torch.Tensor | None:
        """Error of sums of terms that are alike, see `one_sided`."""
        if not args or not _is_float(args[0]) or not args[0].dim():
            return None
        units = units_of_sums(func, args, kwargs, self._sum_eps)
        if units is None:
            return None
        size = torch.ones_like(result) if func._schema.name in _LOGARITHMS else result.abs()
        return abs(self._sum_unit) * size * (units if units.dim() in (0, result.dim()) else units.reshape(result.shape))

    def _error_through_one(self, func: Any, result: torch.Tensor) -> torch.Tensor | None:
        """Error of a formula with two operands near one, or as large as the result; None: that is not usual here."""
        name = func._schema.name.removeprefix("aten::").removesuffix("_")
        return 2 * self._sum_unit * (1 + result.abs()) if name in _THROUGH_ONE else None

    def _moved_inside(self, item: Any) -> Any:
        """An operand, with the errors of many sums that are made of it."""
        if isinstance(item, torch.Tensor) and item.is_complex():
            return torch.view_as_complex(self._moved_inside(torch.view_as_real(item)))
        return self._moved(item, max(item.shape, default=1) ** 0.5) if _is_float(item) else item

    def _moved(self, values: torch.Tensor, units: float = 1.0) -> torch.Tensor:
        moved = values.addcmul(values, self._signs(values), value=units * self._unit)
        return torch.where(values.isinf(), values, moved) if math.isnan(float(moved.sum())) else moved

    def _moved_off_grid(self, values: torch.Tensor) -> torch.Tensor:
        return torch.where(self._on_grid(values), values, self._moved(values))

    def _signs(self, like: torch.Tensor) -> torch.Tensor:
        """±1 at random: any part of a table that is longer. Drawn anew they would take most of the time."""
        count = like.numel()
        if len(self._table) < count + NUM_SIGNS or self._table.device != like.device:
            coins = np.frombuffer(self._generator.bytes((count + NUM_SIGNS) // 8 + 1), dtype=np.uint8)
            self._table = torch.from_numpy(np.unpackbits(coins)).to(like.device, torch.float64).mul_(2.0).sub_(1.0)
        start = int(self._generator.integers(len(self._table) - count + 1))
        return self._table[start : start + count].view(like.shape)


def _with_exact_integers(moved: Any, exact: Any) -> Any:
    """The moved results, which may be complex, with the exact ones in place of integers: pivots, what went wrong."""
    if not isinstance(moved, tuple):
        return moved
    pairs = zip(moved, exact, strict=True)
    return tuple(one if one.is_floating_point() or one.is_complex() else other for one, other in pairs)


def _largest(values: torch.Tensor) -> torch.Tensor:
    """The largest magnitude of those that are finite."""
    return values.abs().nan_to_num(0.0, 0.0, 0.0).max()


def _of_squares(func: Any, args: tuple[Any, ...], kwargs: Any) -> torch.Tensor:
    """What an operator gives of the squares of its operands."""
    result: torch.Tensor = func(*(item.square() if _is_float(item) else item for item in args), **kwargs)
    return result


def _few(values: torch.Tensor) -> torch.Tensor:
    """The first elements."""
    if not values.dim() or not values.numel():
        return values
    row = values.flatten() if values.is_contiguous() else values[(0,) * (values.dim() - 1)]
    return row[:SOME]


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


def stay_in_float64(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
    """Keyword arguments with which an operator leaves float64 as it is, though it should convert to less.

    Zeros and ones that are made in float32 are made in float64: a state to begin with, a sum to add to.
    """
    if func._schema.name in _BEGINNINGS and (kwargs.get("dtype") or torch.get_default_dtype()) == torch.float32:
        return kwargs | {"dtype": torch.float64}
    narrows = func._schema.name == "aten::_to_copy" and _is_float(args[0]) and kwargs.get("dtype") in NARROW
    return kwargs | {"dtype": torch.float64} if narrows else kwargs


def _selects(func: Any, args: tuple[Any, ...], kwargs: Any) -> bool:
    """Whether an operator gives some of its operands' values: then it gives those of their cubes, as no sum does."""
    cubes = func(*(item**3 if _is_float(item) else item for item in args), **kwargs)
    return torch.equal(cubes, func(*args, **kwargs) ** 3)


def _error(unit: float, num_terms: int | torch.Tensor, squares: torch.Tensor, total: torch.Tensor) -> torch.Tensor:
    """Error of sums of n terms, of which the squares' sums and the sums are given: see `Rounding._sum_error`.

    Where all terms of a sum are equal, (Σ t)² = n Σ t², every addition may err to the same side: half of them by up to
    half a unit of the total, a quarter of n units of it on average.
    """
    error = unit * (num_terms * squares.abs()).sqrt()
    equal = total.square() >= (1 - EQUAL) * num_terms * squares.abs()
    return torch.where(equal, torch.maximum(error, abs(unit) * num_terms / 4 * total.abs()), error)


def least(dtype: torch.dtype) -> float:
    """The absolute error that every result may have, however small it is.

    Many programs flush float32 and bfloat16 results below the smallest normal number to zero. No processor does so with
    float16, of which the smallest normal number is as large as an element of a long softmax; its results are off by the
    spacing of those below it.
    """
    info = torch.finfo(dtype)
    return float(info.tiny * info.eps if dtype == torch.float16 else info.tiny)


def _is_float(item: Any) -> bool:
    return isinstance(item, torch.Tensor) and item.dtype == torch.float64


def _lowest(items: Iterable[Any]) -> torch.dtype | None:
    """The lowest floating-point precision among tensors."""
    flat = (each for item in items for each in _as_tuple(item))
    dtypes = {each.dtype for each in flat if isinstance(each, torch.Tensor) and each.is_floating_point()}
    return max(dtypes, key=lambda dtype: torch.finfo(dtype).eps, default=None)


def _as_tuple(result: Any) -> tuple[Any, ...]:
    return tuple(result) if isinstance(result, tuple | list) else (result,)
