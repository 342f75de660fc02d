"""Outputs that consist of what conversions to a lower precision round, such as the error of a quantised value."""

from __future__ import annotations

from typing import Any

import torch

from kernelrl.executor import trees
from kernelrl.executor.contest.choices import Choice, find_chosen
from kernelrl.executor.contest.operator_mode import OperatorMode
from kernelrl.executor.contest.rounding import NARROW, kept_in_float64, stay_in_float64

OF_ELEMENTS, OF_SIZE = 0.1, 0.3
"""An output is another one where so large a share of its elements differ, or it does by that share of its size."""


class Narrowing(OperatorMode):  # type: ignore[no-untyped-call]
    """While it is active, float64 stays float64, but what a reference converts to another precision is rounded to the
    numbers that this has."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        to = (kwargs or {}).get("dtype")
        result = kept_in_float64(func, func(*args, **stay_in_float64(func, args, kwargs or {})))
        narrows = func._schema.name == "aten::_to_copy" and to in NARROW and result.dtype == torch.float64
        return result.to(to).double() if narrows else result


def consists_of_rounding(plain: Any, narrowed: Any, choices: list[Choice]) -> bool:
    """Whether an output is another one, for the most part, where conversions to a lower precision round.

    Args:
        plain: what a reference returns in float64.
        narrowed: what it returns where they do.
        choices: indices that it chose, of which others may be as good.
    """
    both: list[list[torch.Tensor]] = [[], []]
    for result, outputs in zip((plain, narrowed), both, strict=True):
        trees.flatten(result, outputs, torch.float64)
    chosen = find_chosen(both[0], choices)
    return len(both[0]) != len(both[1]) or any(
        number not in chosen and _is_another(*pair) for number, pair in enumerate(zip(*both, strict=True))
    )


def _is_another(plain: torch.Tensor, narrowed: torch.Tensor) -> bool:
    if plain.shape != narrowed.shape:
        return True
    if not plain.numel():
        return False
    if not plain.is_floating_point():
        return float((plain != narrowed).double().mean()) > OF_ELEMENTS
    is_finite = narrowed.isfinite()
    if float((is_finite & ~plain.isfinite()).double().mean()) > OF_ELEMENTS:
        return True
    is_finite &= plain.isfinite()
    difference, size = (plain - narrowed)[is_finite].abs(), narrowed[is_finite].abs()
    is_much = bool(difference.square().sum() > OF_SIZE**2 * size.square().sum())
    return is_much or float((difference > OF_SIZE * size).double().sum()) > OF_ELEMENTS * plain.numel()
