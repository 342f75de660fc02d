"""Tensors whose values leave PyTorch's operators, as for NumPy: what is made of them there is not seen."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

_WAYS_OUT = frozenset("numpy tolist data_ptr storage untyped_storage __array__ __dlpack__".split())
"""Methods of tensors. What reads a single number (`item`, `float`) is an operator."""


class Leaving(TorchFunctionMode):
    """While it is active, notes tensors whose values leave.

    Args:
        note: gets each of them, and whether its bits are looked at as integers, where operators follow.
    """

    def __init__(self, note: Callable[[torch.Tensor, bool], None]):
        super().__init__()
        self._note = note

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = getattr(func, "__name__", None)
        if name in _WAYS_OUT and args and isinstance(args[0], torch.Tensor):
            self._note(args[0], False)
        elif name == "view" and len(args) > 1 and isinstance(args[1], torch.dtype) and args[0].is_floating_point():
            self._note(args[0], True)
        return func(*args, **(kwargs or {}))
