"""Masks that hide values by putting a large number in their place, or adding it, which stands for infinity."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import torch

from kernelrl.executor.contest.operator_mode import OperatorMode
from kernelrl.executor.contest.values import numbers_among

LIKE_INFINITY = 1000.0
"""What a mask puts in the place of a value stands for infinity where it is so large, and so does a limit.

Where it is infinity itself, the reference's outputs tell whether it says what becomes of a row that is all hidden."""
WRITES = frozenset(
    "masked_fill where full new_full full_like fill index_fill index_put scatter constant_pad_nd".split()
)
"""Operators that write numbers which a program names."""
MASKS = ("masked_fill", "where", "mul", "add", "full", "full_like", "new_full")
"""Operators by which masks are made and applied."""


def masks_by_number(given: Iterable[Any]) -> bool:
    """Whether a finite number among the arguments of one of `MASKS` stands for infinity."""
    return any(LIKE_INFINITY <= abs(number) < math.inf for number in numbers_among(given))


class Masks(OperatorMode):  # type: ignore[no-untyped-call]
    """While it is active, notes what masks that write or add a finite number for infinity do.

    Where values come near that number, a program that leaves out what is hidden, as the number says, gives something
    else; and so does one where all is hidden along a dimension.
    """

    def __init__(self) -> None:
        super().__init__()
        self.are_reached = False
        self.hides: set[int] = set()
        """Dimensions along which some line of values is hidden whole, counted from the last, -1."""
        self._smallest = math.inf  # of the numbers so far: what comes near it later is hidden already

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = func._schema.name.removeprefix("aten::").removesuffix("_")
        if name == "masked_fill" and _stands_for_infinity(number := _number(args[2])):
            self._look(args[0], number, args[1])
        elif name == "where" and len(args) == 3:
            for values, filling, hidden in ((args[1], args[2], ~args[0]), (args[2], args[1], args[0])):
                if isinstance(values, torch.Tensor) and _stands_for_infinity(number := _number(filling)):
                    self._look(values, number, hidden)
        elif name in ("add", "sub") and all(isinstance(item, torch.Tensor) for item in args[:2]):
            pairs = [(args[0], args[1])] if name == "sub" else [(args[0], args[1]), (args[1], args[0])]
            for values, mask in pairs:
                self._look_at_sum(values, mask if name == "add" else -mask)
        return func(*args, **(kwargs or {}))

    def _look_at_sum(self, values: torch.Tensor, mask: torch.Tensor) -> None:
        if not mask.is_floating_point() or not mask.numel():
            return
        number = float(mask.min())
        if number < 0 and _stands_for_infinity(number) and bool(((mask == 0) | (mask == number)).all()):
            self._look(values, number, mask == number)

    def _look(self, values: torch.Tensor, number: float, hidden: torch.Tensor) -> None:
        is_mask_itself = not bool(values.any())  # that is made of zeros, and will be added
        if values.is_floating_point() and values.dim() and not is_mask_itself:
            sizes = values.abs()
            near = (sizes >= abs(number) / 2) & (sizes < self._smallest / 2) & sizes.isfinite()
            self.are_reached |= bool(near.any())
            self._smallest = min(self._smallest, abs(number))
        lines, _ = torch.broadcast_tensors(hidden, values)  # type: ignore[no-untyped-call]
        lengths = lines.shape
        self.hides |= {dim for dim in range(-len(lengths), 0) if lengths[dim] > 1 and bool(lines.all(dim=dim).any())}


def _number(given: Any) -> float:
    """The number that an argument is, or that all elements of a tensor are; NaN: it is none, or is not finite."""
    if isinstance(given, torch.Tensor):
        alike = given.numel() > 0 and not given.is_complex() and bool((given == given.flatten()[0]).all())
        return float(given.flatten()[0]) if alike else math.nan
    return float(given) if isinstance(given, int | float) else math.nan


def _stands_for_infinity(number: float) -> bool:
    return LIKE_INFINITY <= abs(number) < math.inf
