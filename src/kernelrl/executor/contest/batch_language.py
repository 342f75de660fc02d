"""Triton's language for a batch of programs: truth, transposition, reductions, scans."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import triton.language as tl
from triton.runtime import interpreter
from triton.runtime.interpreter import TensorHandle

from kernelrl.executor.contest.batch_builder import BatchBuilder
from kernelrl.executor.contest.batch_memory import Apart
from kernelrl.executor.contest.folding import combining, reduced, scanned


@contextmanager
def speaking(builder: BatchBuilder) -> Iterator[None]:
    """Triton's language means batches meanwhile."""
    scope = interpreter._LangPatchScope()
    semantic = interpreter.interpreter_semantic
    scope.set_attr(semantic, "builder", builder)
    patch_language(scope)
    try:
        yield
    finally:
        scope.restore()


def patch_language(scope: Any) -> None:
    """What Triton's language does with the values of tensors, it does for a batch."""
    scope.set_attr(tl.tensor, "__index__", lambda tensor: int(_same_for_all(tensor.handle.data)))
    scope.set_attr(tl.tensor, "__bool__", _truth)
    scope.set_attr(tl.tensor, "T", property(_transposed))
    for module in (tl, tl.core):
        scope.set_attr(module, "reduce", _reduce)
        scope.set_attr(module, "associative_scan", _scan)


def lifted(argument: Any) -> Any:
    """An argument of the kernel, as one value for all programs."""
    if isinstance(argument, tl.tensor):
        handle = argument.handle
        return tl.tensor(TensorHandle(handle.data.reshape(1, 1), handle.dtype), argument.type)
    if isinstance(argument, tl.core.base_value) and not isinstance(argument, tl.constexpr):
        raise Apart
    return argument


def _same_for_all(data: np.ndarray) -> Any:
    """The value of a scalar on which the kernel's course depends."""
    first = data.flat[0]
    if data.size != data.shape[0] or (data != first).any():
        raise Apart
    return first


def _truth(tensor: Any) -> bool:
    data = tensor.handle.data
    return bool(_same_for_all(data)) if data.size == data.shape[0] else True  # as the interpreter has it


def _transposed(tensor: Any) -> Any:
    handle = TensorHandle(np.swapaxes(tensor.handle.data, -1, -2), tensor.handle.dtype)
    *outer, rows, columns = tensor.type.shape
    return tl.tensor(handle, tl.block_type(tensor.dtype, [*outer, columns, rows]))


def _as_tensor(data: np.ndarray, dtype: Any) -> Any:
    """A tensor of results, (programs or 1, ...)."""
    data = data.astype(interpreter._get_np_dtype(dtype))
    if data.ndim == 1:
        return tl.tensor(TensorHandle(data[:, None], dtype.scalar), dtype)
    return tl.tensor(TensorHandle(data, dtype.scalar), tl.block_type(dtype, list(data.shape[1:])))


def _reduce(input: Any, axis: int | None, combine_fn: Any, keep_dims: bool = False, **_: Any) -> Any:
    """`tl.reduce` as the interpreter has it."""
    tensors = input if isinstance(input, tuple) else (input,)
    tensor, standard = tensors[0], tl.standard
    data, kind = tensor.handle.data, tensor.dtype
    rank = len(tensor.shape)
    if not rank or (axis is not None and not -rank <= axis < rank) or tl.bfloat16 in [each.dtype for each in tensors]:
        raise Apart
    # all axes at once, not reshaped to one: so NumPy adds in the order in which it adds those of one program
    along = tuple(range(1, data.ndim)) if axis is None else axis % rank + 1

    def over(function: Callable[..., np.ndarray], dtype: Any = kind) -> Any:
        return _as_tensor(function(data, axis=along, keepdims=keep_dims), dtype)

    found: tuple[Any, ...]
    if combine_fn is standard._sum_combine:
        found = (over(np.sum),)
    elif combine_fn is standard._elementwise_max:
        found = (over(np.nanmax),)
    elif combine_fn is standard._elementwise_min:
        found = (over(np.nanmin),)
    elif combine_fn in (standard._argmax_combine_tie_break_left, standard._argmax_combine_tie_break_fast):
        found = over(np.nanmax), over(np.nanargmax, tl.int32)
    elif combine_fn in (standard._argmin_combine_tie_break_left, standard._argmin_combine_tie_break_fast):
        found = over(np.nanmin), over(np.nanargmin, tl.int32)
    else:
        found = _reduced(tensors, axis, combine_fn, keep_dims)
    return found if isinstance(input, tuple) else found[0]


def _reduced(tensors: tuple[Any, ...], axis: int | None, function: Any, keep_dims: bool) -> tuple[Any, ...]:
    """By a function of the kernel's own."""
    rank, dtypes = len(tensors[0].shape), [each.dtype for each in tensors]
    arrays = [each.handle.data for each in tensors]
    if axis is None:
        arrays = [each.reshape(len(each), -1) for each in arrays]
    along = 1 if axis is None else axis % rank + 1
    found = reduced(arrays, along, combining(function, _as_tensor, dtypes))
    kept = [each.reshape(len(each), *[1] * rank) if axis is None else each for each in found]
    arrays = kept if keep_dims else [np.squeeze(each, along) for each in found]
    return tuple(_as_tensor(each, dtype) for each, dtype in zip(arrays, dtypes, strict=True))


def _scan(input: Any, axis: int, combine_fn: Any, reverse: bool = False, **_: Any) -> Any:
    """`tl.associative_scan` as the interpreter has it."""
    tensors = input if isinstance(input, tuple) else (input,)
    rank, dtypes = len(tensors[0].shape), [each.dtype for each in tensors]
    if not -rank <= axis < rank or tl.bfloat16 in dtypes:
        raise Apart
    along = axis % rank + 1
    arrays = [np.flip(each.handle.data, along) if reverse else each.handle.data for each in tensors]
    accumulate: Any = {tl.standard._sum_combine: np.cumsum, tl.standard._prod_combine: np.cumprod}.get(combine_fn)
    if accumulate is not None:
        arrays = [accumulate(each, axis=along) for each in arrays]
    else:
        arrays = scanned(arrays, along, combining(combine_fn, _as_tensor, dtypes))
    if reverse:
        arrays = [np.flip(each, along) for each in arrays]
    found = tuple(_as_tensor(each, dtype) for each, dtype in zip(arrays, dtypes, strict=True))
    return found if isinstance(input, tuple) else found[0]
