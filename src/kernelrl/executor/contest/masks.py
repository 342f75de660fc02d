"""Masks that hide values by putting a large number in their place, or adding it, which stands for infinity."""

from __future__ import annotations

import math
from collections.abc import Iterable
from functools import partial
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
FACTORS = (math.inf, 1e60)
"""By how much larger it makes no difference. Where infinity does in the task's own inputs, because a program subtracts
it from itself, a large number may make none."""
FACTOR_OF_INTEGERS, LARGEST_INTEGER = 1024, 1 << 52
"""The same of integers, and those that are so large already."""
ATTENTION = ("_scaled_dot_product", "_safe_softmax")
"""How names of operators begin that apply a mask themselves."""


def masks_by_number(given: Iterable[Any]) -> bool:
    """Whether a finite number among the arguments of one of `MASKS` stands for infinity."""
    return any(map(_stands_for_infinity, numbers_among(given)))


class Enlarged(OperatorMode):  # type: ignore[no-untyped-call]
    """While it is active, a number that stands for infinity is larger where a program writes it, or adds a mask of it.

    Where that makes another result, a program that leaves out what is hidden, as the number says, gives something else:
    all of a line is hidden, or values come near the number.

    Args:
        factor: by which it is larger; may be infinite.
    """

    def __init__(self, factor: float):
        super().__init__()
        self._factor = factor
        self.hides = False
        """All of some line is hidden from an operator that applies a mask itself."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        name = func._schema.name.removeprefix("aten::").removesuffix("_")
        if name in WRITES:
            tensor = next((each for each in args if isinstance(each, torch.Tensor) and each.dim()), None)
            whole = tensor is not None and not tensor.is_floating_point() and name != "where"
            enlarge = partial(self._enlarged, whole=whole)
            args, kwargs = tuple(map(enlarge, args)), {key: enlarge(each) for key, each in kwargs.items()}
        elif name == "add":
            args = tuple(map(self._enlarged_mask, args))
        elif name == "sub" and isinstance(args[1], torch.Tensor) and args[1].is_floating_point():
            args = self._enlarged_mask(args[0]), -self._enlarged_mask(-args[1])
        elif name == "mul":
            return _product(func, args, kwargs)
        elif name.startswith(ATTENTION):
            given = arguments_of(func, args, kwargs)
            mask = args[0] if name == "_safe_softmax" else given.get("attn_mask", given.get("attn_bias"))
            self.hides |= mask is not None and bool((mask <= -LIKE_INFINITY).all(dim=-1).any())
        return func(*args, **kwargs)

    def _enlarged(self, given: Any, whole: bool) -> Any:
        """An argument, with a larger number in place of one that stands for infinity; tensors of no dimension are
        numbers."""
        if isinstance(given, torch.Tensor) and not given.dim() and given.dtype != torch.bool:
            whole = not given.is_floating_point()
            return torch.full_like(given, self._enlarged(given.item(), whole))
        if isinstance(given, bool) or not isinstance(given, int | float) or not _stands_for_infinity(given):
            return given
        if whole:
            return given * FACTOR_OF_INTEGERS if abs(given) < LARGEST_INTEGER else given
        return given * self._factor

    def _enlarged_mask(self, given: Any) -> Any:
        """A tensor that is 0 where a mask leaves values, and elsewhere a number below zero that stands for infinity."""
        if not isinstance(given, torch.Tensor) or not given.is_floating_point() or not given.dim():
            return given
        hidden = given <= -LIKE_INFINITY
        is_mask = bool(hidden.any()) and bool((hidden | (given == 0)).all())
        return torch.where(hidden, given * self._factor, given) if is_mask else given


def _product(func: Any, args: Any, kwargs: Any) -> Any:
    """A product in which nothing times infinity is nothing, as it is with a number."""
    nothing = [each == 0 for each in args[:2]]
    result = func(*args, **kwargs)
    if not result.is_floating_point() or not bool(result.isnan().any()):
        return result
    return result.masked_fill_(result.isnan() & (nothing[0] | nothing[1]), 0.0)


def _stands_for_infinity(number: float) -> bool:
    return LIKE_INFINITY <= abs(number) < math.inf
