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
    """While it is active, notes whether values come near the number that stands for infinity beside them.

    Then a program that leaves out what is hidden, as the number says, gives something else.
    """

    def __init__(self) -> None:
        super().__init__()
        self.are_reached = False
        self._smallest = math.inf  # of the numbers so far: what comes near it later is hidden already

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = func._schema.name.removeprefix("aten::").removesuffix("_")
        tensors = [
            item for item in args if isinstance(item, torch.Tensor) and item.is_floating_point() and item.numel()
        ]
        if name in ("masked_fill", "where"):
            for number in numbers_among(args):
                if LIKE_INFINITY <= abs(number) < math.inf:
                    self._look([values for values in tensors if values.dim()], abs(number))
        elif name == "add" and len(tensors) == 2:
            for mask, values in (tensors, reversed(tensors)):
                number = float(mask.min())
                if -math.inf < number <= -LIKE_INFINITY and bool(((mask == 0) | (mask == number)).all()):
                    self._look([values], -number)
        return func(*args, **(kwargs or {}))

    def _look(self, operands: list[torch.Tensor], number: float) -> None:
        for values in operands:
            sizes = values.abs()
            self.are_reached |= bool(((sizes >= number / 2) & (sizes < self._smallest / 2) & sizes.isfinite()).any())
        self._smallest = min(self._smallest, number)
