"""bfloat16 in Triton's interpreter, which keeps it as uint16 and would compute with the bits of that.

Here numbers are made float32 for an operation, and what it gives is rounded to the nearest, as a GPU does.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import triton.language as tl
from triton.runtime.interpreter import InterpreterBuilder, ReduceScanOpInterface, TensorHandle

_OPERATIONS = """
    fadd fmul fdiv frem fsub fneg precise_divf approx_divf fma clampf minimumf minnumf maximumf maxnumf dot
    fcmpOLT fcmpOGT fcmpOLE fcmpOGE fcmpOEQ fcmpONE fcmpULT fcmpUGT fcmpULE fcmpUGE fcmpUEQ fcmpUNE
"""


def install() -> None:
    """Have the interpreter of this process compute with bfloat16."""
    for name in {f"create_{name}" for name in _OPERATIONS.split()} & vars(InterpreterBuilder).keys():
        setattr(InterpreterBuilder, name, _in_float32(getattr(InterpreterBuilder, name)))
    InterpreterBuilder.cast_impl = _cast(InterpreterBuilder.cast_impl)
    ReduceScanOpInterface.apply = _reduced_in_float32(ReduceScanOpInterface.apply)


def _in_float32(operation: Callable[..., TensorHandle]) -> Callable[..., TensorHandle]:
    """An operation on numbers of one type. Comparisons and products of matrices give another."""

    def run(self: InterpreterBuilder, first: TensorHandle, *others: Any) -> TensorHandle:
        if not any(_is_bfloat16(each) for each in (first, *others)):
            return operation(self, first, *others)
        result = operation(self, *(_widened(each) if _is_bfloat16(each) else each for each in (first, *others)))
        keeps_type = operation.__name__ != "create_dot" and result.data.dtype == np.float32
        return TensorHandle(_rounded(result.data), tl.bfloat16) if keeps_type else result

    run.__name__ = operation.__name__
    return run


def _cast(cast: Callable[..., TensorHandle]) -> Callable[..., TensorHandle]:
    """A conversion from one type to another."""

    def run(self: InterpreterBuilder, source: TensorHandle, to: Any) -> TensorHandle:
        source = _widened(source) if _is_bfloat16(source) else source
        if to.scalar == tl.bfloat16:
            return TensorHandle(_rounded(source.data.astype(np.float32)), tl.bfloat16)
        return cast(self, source, to)

    return run


def _reduced_in_float32(apply: Callable[..., Any]) -> Callable[..., Any]:
    """A reduction or a scan of a tensor, or of several at once, of which each has a result."""

    def run(self: ReduceScanOpInterface, given: Any) -> Any:
        if not isinstance(given, tuple) or not any(_is_bfloat16(tensor.handle) for tensor in given):
            return apply(self, given)
        results = apply(self, tuple(map(_wide_tensor, given)))
        return tuple(
            _narrow_tensor(result) if _is_bfloat16(tensor.handle) else result
            for tensor, result in zip(given, results, strict=True)
        )

    return run


def _wide_tensor(tensor: Any) -> Any:
    if not _is_bfloat16(tensor.handle):
        return tensor
    return tl.tensor(_widened(tensor.handle), _with_element(tensor.type, tl.float32))


def _narrow_tensor(tensor: Any) -> Any:
    return tl.tensor(TensorHandle(_rounded(tensor.handle.data), tl.bfloat16), _with_element(tensor.type, tl.bfloat16))


def _with_element(kind: Any, element: Any) -> Any:
    return tl.block_type(element, list(kind.shape)) if kind.is_block() else element


def _is_bfloat16(item: Any) -> bool:
    return isinstance(item, TensorHandle) and bool(item.dtype.scalar == tl.bfloat16) and item.data.dtype == np.uint16


def _widened(handle: TensorHandle) -> TensorHandle:
    return TensorHandle((handle.data.astype(np.uint32) << np.uint32(16)).view(np.float32), tl.float32)


def _rounded(values: np.ndarray) -> np.ndarray:
    """The bits of the nearest numbers of bfloat16, of two as near the even one."""
    bits = values.view(np.uint32)
    even = ((bits + np.uint32(0x7FFF) + ((bits >> np.uint32(16)) & np.uint32(1))) >> np.uint32(16)).astype(np.uint16)
    return np.where(np.isnan(values), np.uint16(0x7FC0), even)
