"""How far rounding may move an output, whatever processor computes it.

The reference runs in float64 with the rounding of a lower precision put in at random: the operands of every operator
move by half a unit of the last place, and sums by what adding their terms one after another would err. The distance
to the exact outputs is the uncertainty that every program for the task has (stochastic arithmetic; Vignes, "A
stochastic arithmetic for reliable scientific computation", 1993). It depends on the number of terms, on their size and
on the dtype, and on nothing that the machine does.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import torch
from torch.utils._python_dispatch import TorchDispatchMode

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
_THROUGH_ONE = frozenset("expm1 log1p tanh elu selu celu softplus log_sigmoid log_sigmoid_forward".split())
"""Operators that the usual formula computes by way of numbers near one: exp(x) − 1, 2 sigmoid(2 x) − 1, log(1 + x)."""


EQUAL = 1e-6
"""Terms of which the variance is less than this share of their mean square count as equal."""
SOME = 64
"""Elements that are looked at first."""
NARROW = (torch.float32, torch.bfloat16, torch.float16)
"""Precisions below float64."""
_STEPS = frozenset("sign sgn round floor ceil trunc frac fmod remainder floor_divide heaviside bucketize".split())
"""Operators that jump, beside those that compare or convert to integers."""
_TO_WHOLE = frozenset("sign sgn round floor ceil trunc heaviside floor_divide".split())
"""Operators that give whole numbers, which stay as they are."""
_OF_WHOLE = frozenset("clamp clamp_min clamp_max minimum maximum where relu hardtanh neg abs add sub rsub mul".split())
"""Operators that round nothing where operands and results are whole numbers that the precision has."""


class Precisions(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """While it is active, notes in which precision each operator computes."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
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

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False  # the decorator that keeps torch.compile out would import it, which takes a second


class Rounding(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """While it is active, float64 operators round like those of another precision.

    Args:
        dtype: that precision. Sums of 16-bit numbers are made in float32, as every library does.
        native: the precision of each operator; None, and from where other operators run: `dtype`.
        times: errors are so many times as large, with the opposite signs if negative.
        seed: of the signs of the errors.
    """

    def __init__(self, dtype: torch.dtype, native: Precisions | None = None, times: float = 1.0, seed: int = 0):
        super().__init__()  # type: ignore[no-untyped-call]
        self._dtype = dtype
        self._times = times
        self._native = iter(native.noted if native else [])
        self._widens = native is not None and native.widens
        self._round_to(dtype)
        self.jumps = False
        """Whether an operator was seen whose result jumps where its operands move a little."""
        self._generator = np.random.default_rng(seed)

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        exact = func(*args, **kwargs) if func._schema.is_mutable else None
        base = func._schema.name.removeprefix("aten::").removesuffix("_")
        self.jumps |= base in _STEPS
        if func._schema.name not in PLUMBING:
            name, dtype, to = next(self._native, ("", self._dtype, self._dtype))
            if name != func._schema.name:
                self._native, dtype, to = iter(()), self._dtype, self._dtype
            self._round_to(dtype)
            self._result_unit = self._times * torch.finfo(to).eps / 2 if self._widens else 0.0
        if func._schema.name in PLUMBING or torch.Tag.nondeterministic_seeded in func.tags:
            result = func(*args, **kwargs) if exact is None else exact
            if args and _is_float(args[0]) and isinstance(result, torch.Tensor) and result.dtype != args[0].dtype:
                self.jumps = True
            to = kwargs.get("dtype")
            if exact is None and args and _is_float(args[0]) and to in NARROW:
                self._round_to(to)
                result = self._moved(result)
            return result
        if base in _OF_WHOLE and self._are_whole([*args, *kwargs.values()]):
            result = func(*args, **kwargs) if exact is None else exact
            if self._are_whole([result]):
                return result
        if exact is not None:
            if _is_float(exact) and base not in _TO_WHOLE:
                exact.copy_(self._moved(exact))
                if (error := self._error_through_one(func, exact)) is not None:
                    exact.addcmul_(self._signs(exact), error)
            return exact
        result = func(*(self._moved(item) if _is_float(item) else item for item in args), **kwargs)
        if base in _TO_WHOLE:
            return result
        if base in _STATISTICS and (num_statistics := _as_tuple(result)[-1].numel()):  # batch norm may be given its own
            num_terms = args[0].numel() // num_statistics
            equal = bool((args[0] == args[0].flatten()[0]).all()) if args[0].numel() else False
            units = max(2 * num_terms**0.5, num_terms / 4 * equal)  # see `_error`
            result = func(self._moved(args[0], units), *args[1:], **kwargs)
        if any(isinstance(item, torch.Tensor) and not _is_float(item) for item in _as_tuple(result)):
            self.jumps |= any(_is_float(item) for item in args)
            return func(*args, **kwargs)  # what decides, such as a comparison, sees the values as they are
        if _is_float(result):
            signs = self._signs(result)
            if (error := self._sum_error(func, args, kwargs, result)) is not None:
                result = result.addcmul(signs, error)
            result = result.add(signs, alpha=self._tiny)
            if self._result_unit:
                result = result.addcmul(result, self._signs(result), value=self._result_unit)
        return result

    def _are_whole(self, items: Iterable[Any]) -> bool:
        """Whether tensors among them have nothing but whole numbers that the precision has."""
        tensors = [item for item in items if _is_float(item)]
        some = all(torch.equal(item.flatten()[:SOME], item.flatten()[:SOME].round()) for item in tensors)
        largest = abs(self._times / self._unit) if self._unit else 0.0
        return some and all(bool(((item == item.round()) & (item.abs() <= largest)).all()) for item in tensors)

    def _round_to(self, dtype: torch.dtype) -> None:
        info = torch.finfo(dtype)
        self._unit = self._times * info.eps / 2
        self._sum_unit = self._times * min(info.eps, torch.finfo(torch.float32).eps) / 2
        self._tiny = self._times * least(dtype)

    def _sum_error(self, func: Any, args: tuple[Any, ...], kwargs: Any, result: torch.Tensor) -> torch.Tensor | None:
        """Error of a sum of n terms t: u √n √(Σ t²), which is twice what adding them in sequence errs on average."""
        name = func._schema.name.removeprefix("aten::")
        squares = tuple(item.square() if _is_float(item) else item for item in args)
        if name in _PRODUCTS:
            num_terms = args[_PRODUCTS[name]].shape[-1]
            return _error(self._sum_unit, num_terms, func(*squares, **kwargs), result)
        if name == "convolution":
            num_terms = args[1].numel() // max(args[1].shape[1 if args[6] else 0], 1)
            return _error(self._sum_unit, num_terms, func(*squares, **kwargs), result)
        if (through_one := self._error_through_one(func, result)) is not None:
            return through_one
        error: torch.Tensor
        if name in _SHIFTED and args[0].numel():  # each of the two last operands has the size of the largest value
            keepdim = name != "logsumexp" or (args[2] if len(args) > 2 else kwargs.get("keepdim", False))
            largest = args[0].amax(args[1], keepdim=keepdim).abs().nan_to_num(0.0, 0.0, 0.0)
            error = 2 * self._unit * largest + self._sum_unit * result.abs()
            return error
        num_terms = args[0].numel() // max(result.numel(), 1) if args and _is_float(args[0]) else 1
        if name == "cumsum":
            steps = args[0].shape[args[1]] if args[0].dim() else 1
            return _error(self._sum_unit, steps, func(*squares, **kwargs), result)
        if name in ("sum", "mean"):
            total = func(*squares, **kwargs) * (1 if name == "sum" else 1 / max(num_terms, 1))
            return _error(self._sum_unit, num_terms, total, result)
        if num_terms <= 1 or _selects(func, args, kwargs):
            return None
        error = result.abs() * (self._sum_unit * num_terms**0.5)
        return error

    def _error_through_one(self, func: Any, result: torch.Tensor) -> torch.Tensor | None:
        """Error of a formula with two operands near one, or as large as the result; None: that is not usual here."""
        name = func._schema.name.removeprefix("aten::").removesuffix("_")
        return 2 * self._sum_unit * (1 + result.abs()) if name in _THROUGH_ONE else None

    def _moved(self, values: torch.Tensor, units: float = 1.0) -> torch.Tensor:
        moved = values.addcmul(values, self._signs(values), value=units * self._unit)
        return torch.where(values.isinf(), values, moved) if bool(moved.isnan().any()) else moved

    def _signs(self, like: torch.Tensor) -> torch.Tensor:
        """±1 at random. Drawn as bits, which takes a tenth of the time of `bernoulli_`."""
        coins = np.frombuffer(self._generator.bytes(-(-like.numel() // 8)), dtype=np.uint8)
        signs = np.unpackbits(coins, count=like.numel()).astype(np.float64)
        signs *= 2.0
        signs -= 1.0
        return torch.from_numpy(signs).reshape(like.shape).to(like.device)

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False  # the decorator that keeps torch.compile out would import it, which takes a second


def _selects(func: Any, args: tuple[Any, ...], kwargs: Any) -> bool:
    """Whether an operator gives some of its operands' values: then it gives those of their cubes, as no sum does."""
    cubes = func(*(item**3 if _is_float(item) else item for item in args), **kwargs)
    return torch.equal(cubes, func(*args, **kwargs) ** 3)


def _error(unit: float, num_terms: int, squares: torch.Tensor, total: torch.Tensor) -> torch.Tensor:
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
