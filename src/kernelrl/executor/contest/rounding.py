"""How far rounding may move an output, whatever processor computes it.

The reference runs in float64 with the rounding of a lower precision put in at random: the operands of every operator
move by half a unit of the last place, and sums by what adding their terms one after another would err. The distance
to the exact outputs is the uncertainty that every program for the task has (stochastic arithmetic; Vignes, "A
stochastic arithmetic for reliable scientific computation", 1993). It depends on the number of terms, on their size and
on the dtype, and on nothing that the machine does.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from functools import cache, reduce
from typing import Any

import numpy as np
import torch

from kernelrl.executor.contest.error_sizes import ErrorSizes
from kernelrl.executor.contest.one_sided import of_each_sum, scale_of, shift_of, units_of_statistics
from kernelrl.executor.contest.operator_mode import OperatorMode, arguments_of
from kernelrl.executor.contest.precision import Units, is_float
from kernelrl.executor.contest.sum_errors import error_of_minors, error_of_result, error_through_one, scattered_error
from kernelrl.executor.contest.unrounded import ELEMENTWISE, are_on_grid, find_unrounded, on_grid
from kernelrl.executor.legality.operators import PLUMBING

_STATISTICS = frozenset(
    "var std var_mean std_mean native_layer_norm native_group_norm native_batch_norm _native_batch_norm_legit "
    "_native_batch_norm_legit_no_training".split()
)
"""Operators that subtract a mean, which is a sum itself."""
ELIMINATING = (
    *("_linalg_", "cholesky", "triangular_solve"),
    *(f"linalg_{name}" for name in "cholesky inv lu lstsq qr solve ldl eig".split()),
)
"""How names of operators begin that solve systems or decompose matrices: where one is nearly singular, all they give
errs along one direction."""
_INSIDE = ("_fft_", *ELIMINATING)
"""Operators that add and multiply many times inside, which counts as errors of their operands: u √n of each."""
_OF_ITS_LARGEST = ("_linalg_", *(name for name in _INSIDE if name.startswith("linalg_")))
"""Those among them that eliminate: a matrix errs by what its largest element may, wherever that lies (Wilkinson, "Error
analysis of direct methods of matrix inversion", 1961)."""
_OF_TRIANGLES = frozenset("linalg_solve_triangular linalg_lu_solve linalg_ldl_solve".split())
"""Those that do not, since that has been done."""

_ATTENTION = "_scaled_dot_product"
"""Operators that make two sums of products, which counts as errors of what is multiplied there."""
_EXPONENTIATING = frozenset("exp exp2 expm1 softmax _softmax _safe_softmax sinh cosh".split())
"""Operators that make a factor of what their operands err by."""

FAR = 1e300
"""What is so far from where it is has any value: it is infinite in every narrower precision."""
NARROW = (torch.float32, torch.bfloat16, torch.float16)
"""Precisions below float64."""
NUM_SIGNS = 1 << 17
"""Elements of a tensor that have signs from one place of the table of random ones, which is twice as long."""
SOME_STARTS = 1024
"""Places in that table that are drawn at a time."""
_SPREAD = torch.linspace(0.85, 1.15, 128, dtype=torch.float64)
_SIZES = torch.cat((_SPREAD, -_SPREAD))
"""Errors of one operator, in those that are usual. Were they all of one size, some of a sum would cancel."""
LEAST_SIZE, MOST_SIZE = 0.75, 1.5
"""By what they are multiplied, so that errors of operators that follow one another do not cancel."""
GOLDEN = 0.618034
"""Multiples of the golden ratio, taken modulo one, are far from those before."""
_ODD = -7046029254386353131
"""Multiplied with bits it mixes them: 2⁶⁴ over the golden ratio."""
_STEPS = frozenset(
    "sign sgn round floor ceil trunc frac fmod remainder floor_divide heaviside bucketize histc hardshrink "
    "hardsigmoid_backward hardswish_backward hardtanh_backward threshold_backward hardshrink_backward".split()
)
"""Operators that jump, beside those that compare or convert to integers."""
_TO_WHOLE = frozenset("sign sgn round floor ceil trunc heaviside floor_divide".split())
"""Operators that give whole numbers, which stay as they are."""
_DECIDING = frozenset(
    "eq ne lt le gt ge equal isnan isinf isposinf isneginf logical_not logical_and logical_or any all "
    "sort argsort topk kthvalue mode argmax argmin cummax cummin bucketize searchsorted".split()
)
"""Operators that give booleans or integers. What decides sees the values as they are."""
_SELECTING = frozenset(
    "clamp clamp_min clamp_max minimum maximum fmin fmax amin amax where relu hardtanh threshold neg abs copysign "
    "upsample_nearest1d upsample_nearest2d upsample_nearest3d index index_select gather take embedding roll flip triu "
    "tril diag_embed im2col constant_pad_nd reflection_pad1d reflection_pad2d reflection_pad3d replication_pad1d "
    "replication_pad2d replication_pad3d masked_fill masked_select masked_scatter index_fill index_copy".split()
)
"""Operators that give some of their operands' values, or these with the other sign: nobody rounds them."""
_PUTTING = frozenset("scatter index_put put".split())
"""Likewise, unless they are to add what they put in one place."""
_BEGINNINGS = frozenset(
    f"aten::{name}"
    for name in (
        "zeros ones empty full arange linspace logspace eye scalar_tensor "
        "zeros_like ones_like empty_like full_like new_zeros new_ones new_empty new_full"
    ).split()
)
"""Operators that make tensors of numbers, which nothing has rounded yet."""


class Precisions(OperatorMode):  # type: ignore[no-untyped-call]
    """While it is active, notes in which precision each operator computes."""

    def __init__(self) -> None:
        super().__init__()
        self.noted: list[tuple[str, torch.dtype, torch.dtype]] = []
        """Its name, the lowest precision among its operands, and that of its result."""
        self.widens = False
        """Whether something is converted to a higher precision: then what it was rounded to does not show later."""
        self.narrows = False
        """Whether something is converted to a lower one, or from integers that this may not have."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        before, after = _lowest([*args, *(kwargs or {}).values()]), _lowest(_as_tuple(result))
        if func._schema.name not in PLUMBING:
            self.noted.append((func._schema.name, before or after or torch.float32, after or before or torch.float32))
        elif before is not None and after is not None:
            self.widens |= torch.finfo(after).eps < torch.finfo(before).eps
            self.narrows |= torch.finfo(after).eps > torch.finfo(before).eps
        elif func._schema.name == "aten::_to_copy" and after is not None:
            self.narrows |= args[0].dtype in (torch.int64, torch.int32)
        return result


class Rounding(OperatorMode):  # type: ignore[no-untyped-call]
    """While it is active, float64 operators round like those of another precision, and float64 stays float64.

    Args:
        dtype: that precision. Sums of 16-bit numbers are made in float32, as every library does.
        native: the precision of each operator; None, and from where other operators run: `dtype`.
        times: errors are so many times as large, with the opposite signs if negative.
        by_largest: sums of products err by what their largest product may err, as those of Winograd and Strassen do.
        seed: of the signs of the errors.
        alike: errors of equal values have the same sign. What is computed in the same way errs in the same way, and
            does not average out.
        narrows: what the program converts is rounded, and does not err.
        sizes: those of errors that other runs of the program have found, of which equal values err `alike` or not.
    """

    def __init__(
        self,
        dtype: torch.dtype,
        native: Precisions | None = None,
        times: float = 1.0,
        by_largest: bool = False,
        seed: int = 0,
        alike: bool = False,
        narrows: bool = False,
        sizes: ErrorSizes | None = None,
    ):
        super().__init__()
        self._dtype = dtype
        self._narrows = narrows
        self._alike = alike
        self._times = times
        self._by_largest = by_largest
        self._native = iter(native.noted if native else [])
        self._widens = native is not None and native.widens
        self._sizes = sizes or ErrorSizes()
        self._units = Units.of(dtype, times)
        self._units_once = Units.of(dtype, 1.0)
        """Those of errors that are not yet `times` as large."""
        self.jumps = False
        """Whether an operator was seen whose result jumps where its operands move a little."""
        self.mixes = False
        """Whether any operator made an element of more than the same element of its operands: of what errs alike."""
        self.errs_together = False
        """Whether many values were moved by one error: of the mean that was subtracted from them, or in the direction
        in which a matrix is nearly singular."""
        self.moves = False
        """Whether anything was moved."""
        self.exponentiates = False
        """Whether an operator made a factor of what its operands err by."""
        self.num_through_one = 0
        """Operators that make numbers near zero by way of numbers near one: errors of two of them may cancel."""
        generator = np.random.default_rng(seed)
        self._salt = int(generator.integers(1 << 62))
        self._starts = _starts(generator)
        self._number = 0  # of the operator

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        to = (kwargs or {}).get("dtype")
        kwargs = stay_in_float64(func, args, kwargs or {})
        narrowed = to if kwargs.get("dtype") is not to and func._schema.name not in _BEGINNINGS else None
        base = func._schema.name.removeprefix("aten::").removesuffix("_")
        dtype = self._dtype
        if func._schema.name not in PLUMBING:
            name, dtype, of_result = next(self._native, ("", self._dtype, self._dtype))
            if name != func._schema.name:
                self._native, dtype, of_result = iter(()), self._dtype, self._dtype
            self._number += 1
            self.mixes |= torch.Tag.pointwise not in func.tags
            once = LEAST_SIZE + (MOST_SIZE - LEAST_SIZE) * (self._number * GOLDEN % 1)
            self._units, self._units_once = Units.of(dtype, self._times * once), Units.of(dtype, once)
            self._result_unit = self._times * once * torch.finfo(of_result).eps / 2 if self._widens else 0.0
        scattered = scattered_error(func, base, args, kwargs, self._units_once)
        exact = func(*args, **kwargs) if func._schema.is_mutable else None
        self.jumps |= base in _STEPS
        self.exponentiates |= base in _EXPONENTIATING or base.startswith(_ATTENTION)
        draws = torch.Tag.nondeterministic_seeded in func.tags and not base.startswith(_ATTENTION)
        if func._schema.name in PLUMBING or draws:
            result = kept_in_float64(func, func(*args, **kwargs)) if exact is None else exact
            if args and is_float(args[0]) and isinstance(result, torch.Tensor) and result.dtype != args[0].dtype:
                self.jumps = True
            if narrowed is not None and self._narrows:
                return result.to(narrowed).double()
            if narrowed is not None:
                self._units = Units.of(narrowed, self._times)
                result = self._moved(result) if is_float(args[0]) else self._moved_off_grid(result)
            return result
        if base in _SELECTING or (base in _PUTTING and not _adds(func, args, kwargs)):
            return func(*args, **kwargs) if exact is None else exact
        if base in _DECIDING and exact is None:
            self.jumps |= any(is_float(item) for item in args)
            return func(*args, **kwargs)
        if exact is not None:
            if base in ELEMENTWISE and base != "div" and are_on_grid([*args, *kwargs.values()], self._units):
                return exact
            if is_float(exact) and base not in _TO_WHOLE:
                exact.copy_(self._moved(exact))
                if scattered is not None:
                    exact.addcmul_(self._signs(exact), scattered, value=self._times)
                if (error := error_through_one(func, args, exact, self._units)) is not None:
                    self.num_through_one += 1
                    exact.addcmul_(self._signs(exact), error)
            return exact
        certain = find_unrounded(func, base, args, kwargs, self._units)
        if certain is not None and bool(certain[1].all()):
            return certain[0]
        if base.startswith(_INSIDE):
            self.errs_together |= base.startswith(ELIMINATING)
            eliminates = base.startswith(_OF_ITS_LARGEST) and base not in _OF_TRIANGLES
            matrix, *others = (self._moved_inside(item, eliminates and item is args[0]) for item in args)
            result = func(matrix, *others, **kwargs)
            if (of_minors := error_of_minors(func, args, self._units)) is not None:
                result[0].addcmul_(self._signs(result[0]), of_minors)
            if any(isinstance(item, torch.Tensor) and not item.is_floating_point() for item in _as_tuple(result)):
                return _with_exact_integers(result, func(*args, **kwargs))
        elif base.startswith(_ATTENTION):
            query, key, value, *others = args
            width, length = (self._in_sums(each**0.5) for each in (query.shape[-1], key.shape[-2]))  # of its two sums
            moved_values = self._moved(query, width), self._moved(key, width), self._moved(value, length)
            result = func(*moved_values, *others, **kwargs)
        else:
            moved = self._moved_off_grid if base in _STEPS else self._moved
            result = func(*(moved(item) if is_float(item) else item for item in args), **kwargs)
        if base in _TO_WHOLE:
            return result
        if base in _STATISTICS and (num_statistics := _as_tuple(result)[-1].numel()):  # batch norm may be given its own
            num_terms = args[0].numel() // num_statistics
            equal = bool((args[0] == args[0].flatten()[0]).all()) if args[0].numel() else False
            units = args[0].abs() * self._in_sums(max(2 * num_terms**0.5, num_terms / 4 * equal))  # see `sum_errors`
            one_sided = self._sizes.of(self._number, units_of_statistics, func, args, kwargs, self._units.sum_eps)
            if one_sided is not None:
                own = 2 * args[0].abs()  # where what is normalised errs together, see below
                of_means = torch.maximum(units, one_sided.of_values * (self._units.of_sums / self._units.of_values))
                units = of_means if base.startswith(("var", "std")) else torch.where(one_sided.are_far, own, of_means)
            values = args[0].addcmul(units, self._signs(units), value=self._units.of_values)
            result = func(values, *args[1:], **kwargs)
            normalised = _as_tuple(result)[0]
            if one_sided is not None and normalised.shape == args[0].shape:
                relative = one_sided.of_normalised * self._signs(normalised)
                shift = shift_of(func, args, kwargs)  # twice: other errors may be of the other sign
                normalised.addcmul_(normalised - shift, relative, value=2 * self._units.of_sums)
                self.errs_together |= one_sided.is_much
                of_all = self._units.of_sums * one_sided.of_mean / one_sided.deviation * self._signs(one_sided.of_mean)
                of_all = of_all.nan_to_num(0.0, 0.0, 0.0).expand(one_sided.grouped).reshape(normalised.shape)
                moved = normalised - shift + of_all * scale_of(func, args, kwargs)
                normalised.copy_(moved / (1 + of_all.square()).sqrt() + shift)  # the variance has its square, too
            elif one_sided is not None:  # the statistics themselves
                relative = of_each_sum(func, args, kwargs, one_sided.of_normalised).reshape(normalised.shape)
                times = 1 if base.startswith("std") else 2  # by which it is more for variances than for their roots
                normalised.addcmul_(normalised * self._signs(normalised), relative, value=times * self._units.of_sums)
        if any(isinstance(item, torch.Tensor) and not is_float(item) for item in _as_tuple(result)):
            self.jumps |= any(is_float(item) for item in args)
            return func(*args, **kwargs)  # what decides, such as a comparison, sees the values as they are
        made = _as_tuple(result)[0]  # an operator that keeps something for its gradient gives that too
        through_one = error_through_one(func, args, made, self._units) if is_float(made) else None
        if through_one is not None:
            self.num_through_one += 1
            made.addcmul_(self._signs(made), through_one)
        if is_float(result):
            signs = self._signs(result)
            of_sums = self._sizes.of(
                self._number, error_of_result, func, args, kwargs, result, self._units_once, self._by_largest
            )
            if known := [error for error in (scattered, of_sums) if error is not None]:
                result.addcmul_(signs, reduce(torch.maximum, known), value=self._times)
            result.addcmul_(result != 0, signs, value=self._units.tiny)  # what no operand moves off zero is zero
            if self._result_unit:
                result.addcmul_(result, self._signs(result), value=self._result_unit)
            if certain is not None:
                result = torch.where(certain[1], certain[0], result)
            if base == "cumprod":
                result = _out_of_range(result, args[1], dtype)
        return result

    def _moved_inside(self, item: Any, of_largest: bool) -> Any:
        """An operand, with the errors of many sums that are made of it; as `_OF_ITS_LARGEST` says if `of_largest`."""
        if isinstance(item, torch.Tensor) and item.is_complex():
            return torch.view_as_complex(self._moved_inside(torch.view_as_real(item.resolve_conj()), of_largest=False))
        if not is_float(item):
            return item
        units = max(item.shape, default=1) ** 0.5
        if not of_largest or item.dim() < 2 or not item.numel():
            return self._moved(item, units)
        largest = item.abs().amax((-2, -1), keepdim=True)
        largest = torch.where((item == 0) | largest.isinf(), item.abs(), largest)  # a zero stays one
        return item.addcmul(largest, self._signs(item), value=2 * units * self._units.of_values)

    def _in_sums(self, units: float) -> float:
        """Errors of operands in units of their precision, given in those of the one in which sums of them are made. Two
        units they have in any case."""
        return max(2.0, units * self._units.of_sums / self._units.of_values)

    def _moved(self, values: torch.Tensor, units: float = 1.0) -> torch.Tensor:
        moved = values.addcmul(values, self._signs(values), value=units * self._units.of_values)
        return torch.where(values.isinf(), values, moved) if math.isnan(float(moved.sum())) else moved

    def _moved_off_grid(self, values: torch.Tensor) -> torch.Tensor:
        return torch.where(on_grid(values, self._units), values, self._moved(values))

    def _signs(self, like: torch.Tensor) -> torch.Tensor:
        """Numbers of about one, of either sign, at random: any parts of a table. Drawn anew they would take most of the
        time."""
        self.moves = True
        if self._alike:
            bits = like.contiguous().view(torch.int64) ^ self._salt
            places = ((bits * _ODD) ^ (bits >> 29)).mul_(_ODD).bitwise_right_shift_(56).bitwise_and_(len(_SIZES) - 1)
            return _SIZES.to(like.device)[places]
        table, count = _table(like.device), like.numel()
        starts = [next(self._starts) for _ in range(0, max(count, 1), NUM_SIGNS)]
        parts = [table[start : start + min(count, NUM_SIGNS)] for start in starts]
        signs = parts[0] if len(parts) == 1 else torch.cat(parts)[:count]
        return signs.view(like.shape)


def _starts(generator: np.random.Generator) -> Iterator[int]:
    """Places in the table of signs. To draw a single number would take as long as an operator."""
    while True:
        yield from generator.integers(NUM_SIGNS, size=SOME_STARTS).tolist()


@cache
def _table(device: torch.device) -> torch.Tensor:
    """Random ones of `_SIZES`."""
    chosen = np.frombuffer(np.random.default_rng(0).bytes(2 * NUM_SIGNS), dtype=np.uint8)
    return torch.from_numpy(_SIZES.numpy()[chosen]).to(device)


def _with_exact_integers(moved: Any, exact: Any) -> Any:
    """The moved results, which may be complex, with the exact ones in place of integers: pivots, what went wrong."""
    if not isinstance(moved, tuple):
        return moved
    pairs = zip(moved, exact, strict=True)
    return tuple(one if one.is_floating_point() or one.is_complex() else other for one, other in pairs)


def stay_in_float64(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
    """Keyword arguments with which an operator leaves float64 as it is, though it should convert to less.

    Numbers that are made in float32 are made in float64: a state to begin with, a sum to add to, positions.
    """
    if func._schema.name in _BEGINNINGS and kwargs.get("dtype") in NARROW:
        return kwargs | {"dtype": torch.float64}
    converts = func._schema.name == "aten::_to_copy" and not args[0].is_complex()
    narrows = converts and kwargs.get("dtype") in NARROW
    return kwargs | {"dtype": torch.float64} if narrows else kwargs


def kept_in_float64(func: Any, result: Any) -> Any:
    """The result of an operator, in float64 where it is a tensor that the program writes down (`torch.tensor`)."""
    is_written = func._schema.name == "aten::lift_fresh" and result.dtype in NARROW
    return result.double() if is_written else result


def _out_of_range(products: torch.Tensor, dim: int, dtype: torch.dtype) -> torch.Tensor:
    """Products of ever more factors, far from where they are behind one that a precision does not have.

    Others bring them back into its range, and a program that multiplies in it keeps infinity, or zero.
    """
    if not products.dim():
        return products
    sizes, range_of = products.abs(), torch.finfo(dtype)
    overflowed = sizes.cummax(dim).values > range_of.max
    vanished = (sizes.cummin(dim).values < range_of.tiny) & (sizes > range_of.tiny)
    return products.masked_fill(overflowed | vanished, FAR)


def _lowest(items: Iterable[Any]) -> torch.dtype | None:
    """The lowest floating-point precision among tensors."""
    flat = (each for item in items for each in _as_tuple(item))
    dtypes = {each.dtype for each in flat if isinstance(each, torch.Tensor) and each.is_floating_point()}
    return max(dtypes, key=lambda dtype: torch.finfo(dtype).eps, default=None)


def _as_tuple(result: Any) -> tuple[Any, ...]:
    return tuple(result) if isinstance(result, tuple | list) else (result,)


def _adds(func: Any, args: Any, kwargs: Any) -> bool:
    """Whether an operator that puts values somewhere reduces those that come to one place."""
    given = arguments_of(func, args, kwargs)
    return bool(given.get("accumulate")) or given.get("reduce") is not None
