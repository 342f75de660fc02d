"""How far rounding may move an output, whatever processor computes it.

The reference runs in float64 with the rounding of a lower precision put in at random: the operands of every operator
move by half a unit of the last place, and sums by what adding their terms one after another would err. The distance
to the exact outputs is the uncertainty that every program for the task has (stochastic arithmetic; Vignes, "A
stochastic arithmetic for reliable scientific computation", 1993). It depends on the number of terms, on their size and
on the dtype, and on nothing that the machine does.
"""

from __future__ import annotations

from typing import Any

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


class Rounding(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """While it is active, float64 operators round like those of another precision.

    Args:
        dtype: that precision. Sums of 16-bit numbers are made in float32, as every library does.
        seed: of the signs of the errors.
    """

    def __init__(self, dtype: torch.dtype, seed: int = 0):
        super().__init__()  # type: ignore[no-untyped-call]
        info = torch.finfo(dtype)
        self._unit = info.eps / 2
        self._sum_unit = min(self._unit, torch.finfo(torch.float32).eps / 2)
        self._tiny = info.tiny  # results below it may be flushed to zero
        self._generator = torch.Generator().manual_seed(seed)

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        exact = func(*args, **kwargs) if func._schema.is_mutable else None
        if func._schema.name in PLUMBING or torch.Tag.nondeterministic_seeded in func.tags:
            return func(*args, **kwargs) if exact is None else exact
        if exact is not None:
            if _is_float(exact):
                exact.copy_(self._moved(exact))
            return exact
        result = func(*(self._moved(item) if _is_float(item) else item for item in args), **kwargs)
        if func._schema.name.removeprefix("aten::") in _STATISTICS:
            num_terms = args[0].numel() // max(_as_tuple(result)[-1].numel(), 1)
            result = func(self._moved(args[0], 2 * num_terms**0.5), *args[1:], **kwargs)
        if any(isinstance(item, torch.Tensor) and not _is_float(item) for item in _as_tuple(result)):
            return func(*args, **kwargs)  # what decides, such as a comparison, sees the values as they are
        if _is_float(result):
            result = result + self._signs(result) * self._tiny
            if (error := self._sum_error(func, args, kwargs, result)) is not None:
                result = result + self._signs(result) * error
        return result

    def _sum_error(self, func: Any, args: tuple[Any, ...], kwargs: Any, result: torch.Tensor) -> torch.Tensor | None:
        """Error of a sum of n terms t: u √n √(Σ t²), which is twice what adding them in sequence errs on average."""
        name = func._schema.name.removeprefix("aten::")
        squares = tuple(item.square() if _is_float(item) else item for item in args)
        if name in _PRODUCTS:
            num_terms = args[_PRODUCTS[name]].shape[-1]
            squared, num_terms = func(*squares, **kwargs), args[_PRODUCTS[name]].shape[-1]
            return _error(self._sum_unit, num_terms, squared)
        if name == "convolution":
            num_terms = args[1].numel() // max(args[1].shape[1 if args[6] else 0], 1)
            return _error(self._sum_unit, num_terms, func(*squares, **kwargs))
        if name in _SHIFTED and args[0].numel():  # each of the two last operands has the size of the largest value
            error: torch.Tensor = 2 * self._unit * args[0].abs().max() + self._sum_unit * result.abs()
            return error
        num_terms = args[0].numel() // max(result.numel(), 1) if args and _is_float(args[0]) else 1
        if name == "cumsum":
            steps = args[0].shape[args[1]] if args[0].dim() else 1
            return _error(self._sum_unit, steps, func(*squares, **kwargs))
        if name in ("sum", "mean"):
            total = func(*squares, **kwargs) * (1 if name == "sum" else 1 / max(num_terms, 1))
            return _error(self._sum_unit, num_terms, total)
        return self._sum_unit * num_terms**0.5 * result.abs() if num_terms > 1 else None

    def _moved(self, values: torch.Tensor, units: float = 1.0) -> torch.Tensor:
        return values * (1 + units * self._unit * self._signs(values))

    def _signs(self, like: torch.Tensor) -> torch.Tensor:
        """±1 at random."""
        coins = torch.empty(like.shape, dtype=like.dtype).bernoulli_(0.5, generator=self._generator)
        return coins.mul_(2).sub_(1).to(like.device)

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False  # the decorator that keeps torch.compile out would import it, which takes a second


def _error(unit: float, num_terms: int, squares: torch.Tensor) -> torch.Tensor:
    return unit * (num_terms * squares.abs()).sqrt()


def _is_float(item: Any) -> bool:
    return isinstance(item, torch.Tensor) and item.dtype == torch.float64


def _as_tuple(result: Any) -> tuple[Any, ...]:
    return tuple(result) if isinstance(result, tuple | list) else (result,)
