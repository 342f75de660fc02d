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
MASKS = ("masked_fill", "where", "mul", "add")
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

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        name = func._schema.name.removeprefix("aten::").removesuffix("_")
        if name in ("masked_fill", "where") and isinstance(result, torch.Tensor) and result.is_floating_point():
            for number in numbers_among(args):
                if LIKE_INFINITY <= abs(number) < math.inf:
                    self._look(result.where(result != number, 0.0), number)
        elif name == "add" and len(args) > 1 and all(isinstance(each, torch.Tensor) for each in args[:2]):
            for mask, values in (args[:2], args[1::-1]):
                if mask.is_floating_point() and mask.numel() and values.is_floating_point():
                    number = float(mask.min())
                    if -math.inf < number <= -LIKE_INFINITY and bool(((mask == 0) | (mask == number)).all()):
                        self._look(values, number)
        return result

    def _look(self, values: torch.Tensor, number: float) -> None:
        self.are_reached |= bool(((values.abs() >= abs(number) / 2) & values.isfinite()).any())
