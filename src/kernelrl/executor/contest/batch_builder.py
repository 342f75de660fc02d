"""The interpreter's operations on a batch of Triton programs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import triton.language as tl
from triton.runtime import interpreter
from triton.runtime.interpreter import InterpreterBuilder, TensorHandle

from kernelrl.executor.contest.batch_memory import Apart, BatchMemory


class BatchBuilder(InterpreterBuilder):  # type: ignore[misc]
    """The interpreter's operations on arrays of which the first axis is the program, or of length 1 for all alike.

    A scalar has a second axis of length 1.
    """

    options: Any

    def __init__(self, batch: list[tuple[int, ...]], at_once: bool):
        super().__init__()
        if not self.options.debug:  # without it the checks of overflows are computed and not looked at
            self.options = replace(self.options, sanitize_overflow=False)
        self.memory = BatchMemory(len(batch), at_once)
        self.grid_dim = interpreter.interpreter_builder.grid_dim
        numbers = np.array(batch, dtype=np.int32).T.reshape(3, -1, 1)
        self._numbers = [axis if (axis != axis[0]).any() else axis[:1] for axis in numbers]

    def create_get_program_id(self, axis: int) -> TensorHandle:
        return TensorHandle(self._numbers[axis], tl.int32)

    def create_get_num_programs(self, axis: int) -> TensorHandle:
        return self.get_int32(self.grid_dim[axis])

    def create_load(self, ptr: TensorHandle, *_: Any) -> TensorHandle:
        return self.create_masked_load(ptr, None, None)

    def create_store(self, ptr: TensorHandle, val: TensorHandle, *_: Any) -> None:
        self.create_masked_store(ptr, val, None)

    def create_masked_load(
        self, ptrs: TensorHandle, mask: TensorHandle | None, other: TensorHandle | None, *_: Any
    ) -> TensorHandle:
        kind = ptrs.get_element_ty()
        dtype = interpreter._get_np_dtype(kind)
        default = np.zeros((), dtype) if other is None else other.data
        return TensorHandle(self.memory.load(ptrs.data, _where_it_matters(mask), default, dtype), kind)

    def create_masked_store(self, ptrs: TensorHandle, value: TensorHandle, mask: TensorHandle | None, *_: Any) -> None:
        self.memory.store(ptrs.data, _where_it_matters(mask), value.data)

    def create_atomic_rmw(self, op: Any, ptr: TensorHandle, val: TensorHandle, mask: TensorHandle, *how: Any) -> Any:
        number = (self.memory.num_programs, 1)
        arrays = np.broadcast_arrays(ptr.data, val.data, mask.data, np.empty(number + (1,) * (ptr.data.ndim - 2)))
        pointers, values, chosen = (np.ascontiguousarray(array) for array in arrays[:3])
        self.memory.prepare_write(pointers, chosen, values.dtype)
        handles = TensorHandle(pointers, ptr.dtype), TensorHandle(values, val.dtype), TensorHandle(chosen, mask.dtype)
        return super().create_atomic_rmw(op, *handles, *how)

    def create_addptr(self, ptr: TensorHandle, offset: TensorHandle) -> TensorHandle:
        bytes_ = offset.data.astype(np.uint64)
        bytes_ *= max(1, ptr.get_element_ty().primitive_bitwidth // 8)
        if np.broadcast_shapes(ptr.data.shape, bytes_.shape) == bytes_.shape:
            bytes_ += ptr.data
        else:
            bytes_ = ptr.data + bytes_
        return TensorHandle(bytes_, ptr.dtype)

    def create_make_range(self, ret_ty: Any, start: int, stop: int) -> TensorHandle:
        return TensorHandle(np.arange(start, stop, dtype=np.int32)[None], tl.int32)

    def create_splat(self, ret_ty: Any, arg: TensorHandle) -> TensorHandle:
        return self.create_broadcast(arg, ret_ty.shape)

    def create_unsplat(self, arg: TensorHandle) -> TensorHandle:
        return TensorHandle(arg.data.reshape(len(arg.data), -1)[:, :1], arg.dtype.scalar)

    def create_broadcast(self, arg: TensorHandle, shape: Sequence[int]) -> TensorHandle:
        data = arg.data
        if data.size == len(data):
            data = data.reshape(-1, *(1 for _ in shape))
        elif data.ndim != 1 + len(shape):
            raise Apart
        data = np.broadcast_to(data, (len(data), *shape))
        self.memory.lanes = max(self.memory.lanes, data.size)
        return TensorHandle(data, arg.dtype.scalar)

    def create_expand_dims(self, arg: TensorHandle, axis: int) -> TensorHandle:
        return TensorHandle(np.expand_dims(arg.data, axis + 1), arg.dtype.scalar)

    def create_reshape(self, arg: TensorHandle, shape: Sequence[int], allow_reorder: bool) -> TensorHandle:
        return TensorHandle(arg.data.reshape(len(arg.data), *(shape or [1])), arg.dtype.scalar)

    def create_trans(self, arg: TensorHandle, perm: Sequence[int]) -> TensorHandle:
        return TensorHandle(np.transpose(arg.data, (0, *(axis + 1 for axis in perm))), arg.dtype.scalar)

    def create_cat(self, lhs: TensorHandle, rhs: TensorHandle) -> TensorHandle:
        return TensorHandle(np.concatenate(_of_one_length(lhs.data, rhs.data), axis=1), lhs.dtype.scalar)

    def create_join(self, lhs: TensorHandle, rhs: TensorHandle) -> TensorHandle:
        return TensorHandle(np.stack(_of_one_length(lhs.data, rhs.data), axis=-1), lhs.dtype.scalar)

    def create_gather(self, src: TensorHandle, indices: TensorHandle, axis: int) -> TensorHandle:
        data, at = _of_one_length(src.data, indices.data)
        return TensorHandle(np.take_along_axis(data, at, axis=axis + 1), src.dtype.scalar)


_AS_THEY_ARE = """
    si_to_fp ui_to_fp fp_to_si fp_to_ui fp_ext fp_trunc int_cast fp_to_fp bitcast int_to_ptr ptr_to_int
    fadd fmul fdiv frem fsub fneg mul precise_divf approx_divf sdiv udiv srem urem add sub shl lshr ashr idiv umulhi
    minsi minui minimumf minnumf maxsi maxui maximumf maxnumf clampf select fma and xor or addptr
    icmpSLE icmpSLT icmpSGE icmpSGT icmpULE icmpULT icmpUGE icmpUGT icmpEQ icmpNE
    fcmpOLT fcmpOGT fcmpOLE fcmpOGE fcmpOEQ fcmpONE fcmpULT fcmpUGT fcmpULE fcmpUGE fcmpUEQ fcmpUNE
    fabs iabs floor ceil cos sin exp exp2 log log2 sqrt precise_sqrt rsqrt erf
    split dot extern_elementwise assert assume barrier
"""
"""Operations that work on the last axes, or on each element by itself."""
_CONSTANTS = """
    int1 int8 uint8 int16 uint16 int32 uint32 int64 uint64 fp16 bf16 fp32 fp64 null_value all_ones_value
"""


def _restrict_builder() -> None:
    """Constants get the program's axis; a batch with an operation that is not listed here comes apart."""

    def lifted(make: Callable[..., TensorHandle]) -> Callable[..., TensorHandle]:
        def make_lifted(self: BatchBuilder, *arguments: Any) -> TensorHandle:
            handle = make(self, *arguments)
            return TensorHandle(handle.data.reshape(1, 1), handle.dtype)

        return make_lifted

    def refuse(self: BatchBuilder, *_: Any, **__: Any) -> None:
        raise Apart

    for name in {f"get_{name}" for name in _CONSTANTS.split()} & vars(InterpreterBuilder).keys():
        setattr(BatchBuilder, name, lifted(getattr(InterpreterBuilder, name)))
    known = {f"create_{name}" for name in _AS_THEY_ARE.split()} | vars(BatchBuilder).keys()
    for name in dir(InterpreterBuilder):
        if name.startswith("create_") and name not in known:
            setattr(BatchBuilder, name, refuse)


_restrict_builder()


def _where_it_matters(mask: TensorHandle | None) -> np.ndarray | None:
    return None if mask is None or mask.data.all() else mask.data


def _of_one_length(*arrays: np.ndarray) -> list[np.ndarray]:
    """Arrays whose first axes have one length."""
    length = max(len(array) for array in arrays)
    return [np.broadcast_to(array, (length, *array.shape[1:])) for array in arrays]
