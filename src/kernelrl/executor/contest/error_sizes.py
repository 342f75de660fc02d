"""How large errors are: found in one run of a program, and the same in those that differ from it by rounding alone."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

MOST_BYTES = 256 << 20
"""Of what is kept of all operators of a program. What goes beyond is found anew in each run."""


class ErrorSizes:
    """What was found out about the operators of a program, by their numbers."""

    def __init__(self) -> None:
        self._found: dict[Any, Any] = {}
        self._num_bytes = 0

    def of(
        self, number: int, find: Callable[..., Any], func: Any, args: tuple[Any, ...], kwargs: Any, *others: Any
    ) -> Any:
        """What `find` says of an operator.

        Args:
            number: of the operator in the program.
            find: makes a tensor of these arguments, or a record of tensors; None: there is nothing to say.
            func: the operator.
            args: its arguments; what was found for tensors of other shapes is not for these.
            kwargs: likewise.
            others: further arguments of `find`, the same in each run but for rounding.
        """
        shapes = [item.shape for item in args if isinstance(item, torch.Tensor)]
        key = number, find, func, *shapes
        if key in self._found:
            return self._found[key]
        found = find(func, args, kwargs, *others)
        parts = [found, *vars(found).values()] if hasattr(found, "__dict__") else [found]
        tensors = [part for part in parts if isinstance(part, torch.Tensor)]
        num_bytes = sum(tensor.untyped_storage().nbytes() for tensor in tensors)
        if self._num_bytes + num_bytes <= MOST_BYTES:
            self._num_bytes += num_bytes
            self._found[key] = found
        return found
