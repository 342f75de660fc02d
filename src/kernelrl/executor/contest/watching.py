"""How a process looks for accesses beyond a tensor's memory: tensors lie apart, and Triton's interpreter is watched.

This finds mistakes. It runs in the candidate's own process, so nothing but a report of a mistake is believed.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from triton.runtime import interpreter

from kernelrl.executor.contest.batch_builder import BatchBuilder

ACCESSES: dict[str, tuple[int, int | None]] = {
    "create_masked_load": (0, 1),
    "create_masked_store": (0, 2),
    "create_atomic_rmw": (1, 3),
    "create_atomic_cas": (0, None),
}
"""By name of a builder's method: positions of the pointers and of the mask among its arguments."""
FILE = "kernel_module.py"
"""Name of the file in which the candidate lies."""


class OutOfBounds(Exception):
    """A Triton kernel touches memory that is in none of the tensors that it was given."""


def in_own_memory(tensor: torch.Tensor) -> torch.Tensor:
    """A copy with the same strides, in an allocation that ends where its last element does."""
    if not tensor.numel():
        return tensor
    length = 1 + sum((size - 1) * stride for size, stride in zip(tensor.shape, tensor.stride(), strict=True))
    flat = torch.empty(length, dtype=tensor.dtype)
    flat.copy_(tensor.as_strided((length,), (1,)))
    return flat.as_strided(tensor.shape, tensor.stride())


@dataclass
class Watch:
    """What is known of the launch that runs, and of those before."""

    spans: list[tuple[int, int]] = field(default_factory=list)
    """First address and end of the memory of each tensor that the kernel was given."""
    knows_origins: bool = True
    """No pointer of this launch was made from an integer, as one that comes out of memory is: it may be that of any
    tensor, and is not judged."""
    is_complete: bool = True
    """That was so in every launch."""


def watch_bounds() -> Watch:
    """From now on, the interpreter raises `OutOfBounds` in the line in which a kernel leaves its tensors."""
    watch = Watch()

    def watched(launch: Callable[..., None]) -> Callable[..., None]:
        def launch_watched(self: Any, *args: Any, **kwargs: Any) -> None:
            storages = [tensor.untyped_storage() for tensor in _tensors((*args, *kwargs.values()))]
            watch.spans = [(storage.data_ptr(), storage.data_ptr() + storage.nbytes()) for storage in storages]
            watch.knows_origins = True
            launch(self, *args, **kwargs)

        return launch_watched

    def checked(access: Callable[..., Any], pointers_at: int, mask_at: int | None) -> Callable[..., Any]:
        def access_checked(self: Any, *args: Any, **kwargs: Any) -> Any:
            pointers, mask = args[pointers_at], None if mask_at is None else args[mask_at]
            if watch.knows_origins:
                dtype = interpreter._get_np_dtype(pointers.get_element_ty())
                _check(watch.spans, pointers.data, None if mask is None else mask.data, dtype.itemsize)
            return access(self, *args, **kwargs)

        return access_checked

    def from_integers(convert: Callable[..., Any]) -> Callable[..., Any]:
        def convert_watched(self: Any, *args: Any, **kwargs: Any) -> Any:
            watch.knows_origins = watch.is_complete = False
            return convert(self, *args, **kwargs)

        return convert_watched

    interpreter.GridExecutor.__call__ = watched(interpreter.GridExecutor.__call__)
    parent = interpreter.InterpreterBuilder
    for builder in (parent, BatchBuilder):
        for name, positions in ACCESSES.items():
            if name in vars(builder):
                setattr(builder, name, checked(vars(builder)[name], *positions))
    parent.create_int_to_ptr = from_integers(parent.create_int_to_ptr)
    return watch


def _tensors(argument: Any) -> Iterator[torch.Tensor]:
    """The tensors of a kernel's argument: itself, those of a tuple, that of a descriptor or of another view."""
    if isinstance(argument, torch.Tensor):
        yield argument
    elif isinstance(argument, tuple):
        for each in argument:
            yield from _tensors(each)
    elif hasattr(argument, "base"):
        yield from _tensors(argument.base)


def _check(spans: list[tuple[int, int]], pointers: Any, mask: Any, size: int) -> None:
    if mask is not None:
        pointers, mask = np.broadcast_arrays(pointers, mask)
        pointers = pointers[mask.astype(bool)]
    inside = np.zeros(np.shape(pointers), bool)
    for low, high in spans:
        inside |= (pointers >= low) & (pointers + np.uint64(size) <= high)
    if not inside.all():
        address = int(pointers[~inside].flat[0])
        low, high = min(spans, key=lambda span: min(abs(address - span[0]), abs(address - span[1])))
        where = f"{low - address} bytes before the start" if address < low else f"{address - high} bytes behind the end"
        raise OutOfBounds(f"{_line()}{size} bytes are accessed {where} of a tensor")


def _line() -> str:
    """The candidate's line that runs."""
    frame: Any = sys._getframe()
    while frame is not None:
        if frame.f_code.co_filename.endswith(FILE):
            return f"line {frame.f_lineno}: "
        frame = frame.f_back
    return ""
