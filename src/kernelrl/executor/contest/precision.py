"""What half a unit of the last place is in a precision, for float64 values that stand for numbers of that precision."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any

import torch


@dataclass(frozen=True)
class Units:
    """How large the errors are that one precision makes, times a factor that may be negative."""

    of_values: float
    """Half of a unit of the last place, relative to a value."""
    of_sums: float
    """That of the precision in which sums are made: float32 at least, as in every library."""
    sum_eps: float
    """Of that precision, whatever the factor is."""
    tiny: float
    """The absolute error that every result may have."""
    largest: float
    """Up to here the precision has every whole number, whatever the factor is."""

    @classmethod
    @cache
    def of(cls, dtype: torch.dtype, times: float) -> Units:
        """Those of a precision, times a factor."""
        info = torch.finfo(dtype)
        unit, sum_eps = times * info.eps / 2, min(info.eps, torch.finfo(torch.float32).eps)
        return cls(unit, times * sum_eps / 2, sum_eps, times * least(dtype), abs(times / unit) if unit else 0.0)


def least(dtype: torch.dtype) -> float:
    """The absolute error that every result may have, however small it is.

    Many programs flush float32 and bfloat16 results below the smallest normal number to zero. No processor does so with
    float16, of which the smallest normal number is as large as an element of a long softmax; its results are off by the
    spacing of those below it.
    """
    info = torch.finfo(dtype)
    return float(info.tiny * info.eps if dtype == torch.float16 else info.tiny)


def is_float(item: Any) -> bool:
    """Whether it is a tensor of float64."""
    return isinstance(item, torch.Tensor) and item.dtype == torch.float64


def of_squares(func: Any, args: tuple[Any, ...], kwargs: Any) -> torch.Tensor:
    """What an operator gives of the squares of its operands."""
    result: torch.Tensor = func(*(item.square() if is_float(item) else item for item in args), **kwargs)
    return result
