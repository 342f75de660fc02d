"""Masks that hide values by putting a large number in their place, or adding it, which stands for infinity."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import torch

from kernelrl.executor.contest.operator_mode import OperatorMode, arguments_of
from kernelrl.executor.contest.values import numbers_among

LIKE_INFINITY = 1000.0
"""What a mask puts in the place of a value stands for infinity where it is so large, and so does a limit.

Where it is infinity itself, the reference's outputs tell whether it says what becomes of a row that is all hidden."""
WRITES = frozenset(
    "masked_fill where full new_full full_like fill index_fill index_put scatter constant_pad_nd".split()
)
"""Operators that write numbers which a program names."""
MASKS = ("masked_fill", "where", "index_put", "mul", "add", "full", "full_like", "new_full")
"""Operators by which masks are made and applied."""
ATTENTION = ("_scaled_dot_product", "_safe_softmax")
"""How names of operators begin that apply a mask themselves."""
_REDUCES = frozenset(
    "amax amin max min argmax argmin aminmax topk sort kthvalue median mode logsumexp _softmax _log_softmax "
    "sum mean prod var std var_mean std_mean linalg_vector_norm".split()
)
"""Operators that make one of the lines of their first operand, or compare what is in a line."""
SCALED = 64.0
"""What a mask hides is hidden still where it is scaled to a part of this."""


def masks_by_number(given: Iterable[Any]) -> bool:
    """Whether a finite number among the arguments of one of `MASKS` stands for infinity."""
    return any(LIKE_INFINITY <= abs(number) < math.inf for number in numbers_among(given))


class Masks(OperatorMode):  # type: ignore[no-untyped-call]
    """While it is active, notes what masks that write or add a finite number for infinity do.

    Where values come near that number, a program that leaves out what is hidden, as the number says, gives something
    else; and so does one where all of which it makes a maximum, a sum or the like is hidden.
    """

    def __init__(self) -> None:
        super().__init__()
        self.are_reached = False
        self.hides: set[int] = set()
        """The operators that reduce lines of values some of which are hidden whole, by their number."""
        self._smallest = math.inf  # of the numbers so far: what comes near it later is hidden already
        self._num_reductions = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = func._schema.name.removeprefix("aten::").removesuffix("_")
        if name == "masked_fill":
            self._look(args[0], _number(args[2]))
        elif name == "where" and len(args) == 3:
            for values, filling in ((args[1], args[2]), (args[2], args[1])):
                if isinstance(values, torch.Tensor):
                    self._look(values, _number(filling))
        elif name == "index_put":
            self._look(args[0], _number(args[2]))
        elif name in ("add", "sub") and all(isinstance(item, torch.Tensor) for item in args[:2]):
            pairs = [(args[0], args[1])] if name == "sub" else [(args[0], args[1]), (args[1], args[0])]
            for values, mask in pairs:
                self._look_at_sum(values, mask if name == "add" else -mask)
        elif name in _REDUCES:
            self._reduce(args[0], arguments_of(func, args, kwargs or {}).get("dim"))
        elif name.startswith(ATTENTION):
            given = arguments_of(func, args, kwargs or {})
            mask = args[0] if name == "_safe_softmax" else given.get("attn_mask", given.get("attn_bias"))
            self._note(mask is not None and bool((mask <= -LIKE_INFINITY).all(dim=-1).any()))
        return func(*args, **(kwargs or {}))

    def _look_at_sum(self, values: torch.Tensor, mask: torch.Tensor) -> None:
        if not mask.is_floating_point() or not mask.numel():
            return
        hidden = mask <= -LIKE_INFINITY
        if bool((hidden | (mask == 0)).all()):
            self._look(values, float(mask.where(hidden, -math.inf).max()))

    def _look(self, values: torch.Tensor, number: float) -> None:
        if not LIKE_INFINITY <= abs(number) < math.inf or not bool(values.any()):  # a mask of zeros, to be added
            return
        if values.is_floating_point() and values.dim():
            sizes = values.abs()
            near = (sizes >= abs(number) / 2) & (sizes < self._smallest / 2) & sizes.isfinite()
            self.are_reached |= bool(near.any())
        self._smallest = min(self._smallest, abs(number))

    def _reduce(self, values: torch.Tensor, dim: int | list[int] | None) -> None:
        dims = list(range(values.dim())) if dim is None or dim == [] else [dim] if isinstance(dim, int) else dim
        length = math.prod(values.shape[each] for each in dims) if values.dim() else 1
        may_hide = self._smallest < math.inf and values.dtype != torch.bool and length > 1 and values.numel() > 0
        self._note(may_hide and bool((values.abs() >= self._smallest / SCALED).all(dim=dims).any()))

    def _note(self, hides: bool) -> None:
        self._num_reductions += 1
        if hides:
            self.hides.add(self._num_reductions)


def _number(given: Any) -> float:
    """The number that an argument is, or that all elements of a tensor are; NaN: it is none, or is not finite."""
    if isinstance(given, torch.Tensor):
        alike = given.numel() > 0 and not given.is_complex() and bool((given == given.flatten()[0]).all())
        return float(given.flatten()[0]) if alike else math.nan
    return float(given) if isinstance(given, int | float) else math.nan
