"""Triton's interpreter, many programs of a grid at a time.

The interpreter runs a kernel's Python once per program, which takes half a millisecond however little there is to do.
Here it runs once for a batch of programs: every array gets a leading axis, of one entry per program or of one for all.
What a launch leaves in memory is what the interpreter leaves, bit by bit. A batch is rolled back and run program by
program where its programs take different branches, where they touch each other's memory, or where they use an
operation that is not implemented here.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from itertools import groupby, islice, product
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
import triton
import triton.language as tl
from triton.runtime import interpreter
from triton.runtime.interpreter import GridExecutor, InterpreterBuilder, TensorHandle

VERSIONS = ("3.7.", "3.8.", "3.9.")
"""Of Triton, whose interpreter's insides this file has been tried with."""
LANES = 1 << 17
"""Elements of the largest array of pointers in a batch: more would not fit into a processor's cache."""
FIRST_LANES = 1 << 14
"""Elements that a program is thought to work on until one has."""


def install() -> None:
    """Have all kernels that this process interprets run in batches; with other versions, nothing changes."""
    if not triton.__version__.startswith(VERSIONS):
        return
    interpreter.GridExecutor = _BatchedGrid
    for name in ("_patch_lang_tensor", "_patch_reduce_scan"):
        setattr(interpreter, name, _with_ours_on_top(getattr(interpreter, name)))


def _with_ours_on_top(patch: Callable[..., None]) -> Callable[..., None]:
    """A kernel that calls another patches Triton's language once more, also within a batch."""

    def patch_both(*arguments: Any) -> None:
        patch(*arguments)
        if isinstance(interpreter.interpreter_semantic.builder, _Builder):
            *_, scope = arguments
            _patch_language(scope)

    return patch_both


class _Apart(Exception):
    """These programs cannot run as one batch."""


@dataclass
class _Experience:
    """What launches of a kernel have shown."""

    lanes: int = FIRST_LANES
    """Elements that a program works on."""
    shared: int = 0
    """How many of their numbers in the grid, from the first on, the programs of a batch must have in common."""


_EXPERIENCE: WeakKeyDictionary[Callable[..., None], _Experience] = WeakKeyDictionary()


class _BatchedGrid(GridExecutor):  # type: ignore[misc]  # triton has no types
    fn: Callable[..., None]

    def __call__(self, *args: Any, **kwargs: Any) -> None:
        self.fn = _Programs(self.fn)
        super().__call__(*args, **kwargs)


class _Programs:
    """Stands for a kernel's function. Its call for the first program of a grid runs all of them, the others nothing."""

    def __init__(self, kernel: Callable[..., None]):
        self._kernel = kernel
        self._experience = _EXPERIENCE.setdefault(kernel, _Experience())
        self._is_done = False
        self.__name__, self.__globals__ = kernel.__name__, kernel.__globals__
        self.__signature__, self.__annotations__ = inspect.signature(kernel), kernel.__annotations__

    def __call__(self, **arguments: Any) -> None:
        if self._is_done:
            return
        self._is_done = True
        seen = self._experience
        programs = product(*(range(size) for size in interpreter.interpreter_builder.grid_dim))
        while some := list(islice(programs, max(1, LANES // seen.lanes))):
            shared = seen.shared
            for _, group in groupby(some, key=lambda program: program[:shared]):  # noqa: B023
                batch = list(group)
                if len(batch) > 1:
                    if self._run_batch(batch, arguments):
                        continue
                    seen.shared = shared + 1
                for program in batch:
                    interpreter.interpreter_builder.set_grid_idx(*program)
                    self._kernel(**arguments)

    def _run_batch(self, batch: list[tuple[int, ...]], arguments: dict[str, Any]) -> bool:
        """Whether it went well; otherwise memory is as it was."""
        builder = _Builder(batch)
        try:
            with _speaking(builder):
                self._kernel(**{name: _lifted(value) for name, value in arguments.items()})
        except Exception:  # if it is the kernel's own, running it alone will tell
            builder.memory.undo()
            return False
        self._experience.lanes = max(1, builder.memory.lanes // len(batch))
        return True


@contextmanager
def _speaking(builder: _Builder) -> Iterator[None]:
    """Triton's language means batches meanwhile."""
    scope = interpreter._LangPatchScope()
    semantic = interpreter.interpreter_semantic
    scope.set_attr(semantic, "builder", builder)
    _patch_language(scope)
    try:
        yield
    finally:
        scope.restore()


def _patch_language(scope: Any) -> None:
    scope.set_attr(tl.tensor, "__index__", lambda tensor: int(_same_for_all(tensor.handle.data)))
    scope.set_attr(tl.tensor, "__bool__", _truth)
    scope.set_attr(tl.tensor, "T", property(_transposed))
    for module in (tl, tl.core):
        scope.set_attr(module, "reduce", _reduce)
        scope.set_attr(module, "associative_scan", _scan)


def _lifted(argument: Any) -> Any:
    """An argument of the kernel, as one value for all programs."""
    if isinstance(argument, tl.tensor):
        handle = argument.handle
        return tl.tensor(TensorHandle(handle.data.reshape(1, 1), handle.dtype), argument.type)
    if isinstance(argument, tl.core.base_value) and not isinstance(argument, tl.constexpr):
        raise _Apart
    return argument


def _same_for_all(data: np.ndarray) -> Any:
    """The value of a scalar on which the kernel's course depends."""
    first = data.flat[0]
    if data.size != data.shape[0] or (data != first).any():
        raise _Apart
    return first


def _truth(tensor: Any) -> bool:
    data = tensor.handle.data
    return bool(_same_for_all(data)) if data.size == data.shape[0] else True  # as the interpreter has it


def _transposed(tensor: Any) -> Any:
    handle = TensorHandle(np.swapaxes(tensor.handle.data, -1, -2), tensor.handle.dtype)
    *outer, rows, columns = tensor.type.shape
    return tl.tensor(handle, tl.block_type(tensor.dtype, [*outer, columns, rows]))


@dataclass
class _Access:
    """Addresses that one operation reads or writes.

    Attributes:
        pointers: (programs or 1, ...).
        mask: which of them count, of the same shape; None: all.
        low: the lowest address.
        high: the first address behind.
        size: of an element (in bytes).
    """

    pointers: np.ndarray
    mask: np.ndarray | None
    low: int
    high: int
    size: int

    def rows(self) -> tuple[np.ndarray, np.ndarray]:
        """Each program's lowest address and the first behind; a program without any has the second before the first."""
        pointers = self.pointers.reshape(len(self.pointers), -1)
        if self.mask is None:
            return pointers.min(axis=1), pointers.max(axis=1) + np.uint64(self.size)
        mask = self.mask.reshape(pointers.shape)
        lows, highs = np.where(mask, pointers, self.high), np.where(mask, pointers + np.uint64(self.size), 0)
        return lows.min(axis=1), highs.max(axis=1)


@dataclass
class _Memory:
    """What a batch reads and writes, so that it can be undone.

    One operation does its work for all programs before the next does any. That is what the programs would do one after
    the other if none touches what another one writes.
    """

    num_programs: int
    reads: list[_Access] = field(default_factory=list)
    writes: list[_Access] = field(default_factory=list)
    old: list[tuple[np.ndarray, Any, np.ndarray]] = field(default_factory=list)
    lanes: int = 1
    """Elements of the largest array."""

    def load(
        self, pointers: np.ndarray, mask: np.ndarray | None, other: np.ndarray, dtype: np.dtype[Any]
    ) -> np.ndarray:
        if mask is not None:
            pointers, mask = np.broadcast_arrays(pointers, mask)
        place = self._place(pointers, mask, dtype)
        if place is None:
            return np.broadcast_to(other, pointers.shape)
        access, memory, where = place
        self._note(access, self.reads, against=self.writes)
        values = memory[where]
        return values.reshape(pointers.shape) if mask is None else np.where(mask, values, other)

    def store(self, pointers: np.ndarray, mask: np.ndarray | None, values: np.ndarray) -> None:
        if mask is None:
            pointers, values = np.broadcast_arrays(pointers, values)
        else:
            pointers, mask, values = np.broadcast_arrays(pointers, mask, values)
        place = self.prepare_write(pointers, mask, values.dtype)
        if place is not None:
            memory, where = place
            memory[where] = values.reshape(-1) if mask is None else values[mask]

    def prepare_write(
        self, pointers: np.ndarray, mask: np.ndarray | None, dtype: np.dtype[Any]
    ) -> tuple[np.ndarray, Any] | None:
        """Memory as an array and which elements are about to be written; None: none is."""
        place = self._place(pointers, mask, dtype)
        if place is None:
            return None
        access, memory, where = place
        self._note(access, self.writes, against=self.reads + self.writes)
        if not isinstance(where, slice):
            where = where.reshape(-1) if mask is None else where[mask]
        self.old.append((memory, where, memory[where].copy()))
        return memory, where

    def undo(self) -> None:
        """Leave memory as it was."""
        for memory, where, values in reversed(self.old):
            memory[where] = values

    def _place(
        self, pointers: np.ndarray, mask: np.ndarray | None, dtype: np.dtype[Any]
    ) -> tuple[_Access, np.ndarray, Any] | None:
        """The access, memory as an array, and which of its elements are meant; None: none is."""
        self.lanes = max(self.lanes, pointers.size)
        size = dtype.itemsize
        if mask is None:
            flat = pointers.reshape(-1)
            low, high = int(flat[0]), int(flat[-1]) + size
            if high - low == flat.size * size and ((flat[1:] - flat[:-1]) == size).all():
                access = _Access(pointers, None, low, high, size)
                return access, _memory(low, high, dtype), slice(0, flat.size)
        meant = pointers if mask is None else pointers[mask]
        if not meant.size:
            return None
        low, high = int(meant.min()), int(meant.max()) + size
        where = pointers.view(np.int64) - low
        if mask is not None:
            where = np.where(mask, where, 0)
        if (where & (size - 1)).any():
            raise _Apart
        where >>= size.bit_length() - 1
        return _Access(pointers, mask, low, high, size), _memory(low, high, dtype), where

    def _note(self, access: _Access, among: list[_Access], against: list[_Access]) -> None:
        """Keep an access in mind that follows others.

        Raises:
            _Apart: programs may touch what another one writes.
        """
        for earlier in against:
            if access.low < earlier.high and earlier.low < access.high and not self._each_its_own(access, earlier):
                raise _Apart
        among.append(access)

    def _each_its_own(self, one: _Access, other: _Access) -> bool:
        """Whether no program's addresses lie between those of another."""
        if len(one.pointers) != self.num_programs or len(other.pointers) != self.num_programs:
            return False
        (lows, highs), (more_lows, more_highs) = one.rows(), other.rows()
        lows, highs = np.minimum(lows, more_lows), np.maximum(highs, more_highs)
        lows, highs = lows[lows < highs], highs[lows < highs]
        order = np.argsort(lows)
        return bool((lows[order][1:] >= highs[order][:-1]).all())


class _Span:
    """Memory from an address on, for `np.asarray`."""

    def __init__(self, low: int, count: int, dtype: np.dtype[Any]):
        self.__array_interface__ = {"data": (low, False), "shape": (count,), "typestr": dtype.str, "version": 3}


def _memory(low: int, high: int, dtype: np.dtype[Any]) -> np.ndarray:
    return np.asarray(_Span(low, (high - low) // dtype.itemsize, dtype))


class _Builder(InterpreterBuilder):  # type: ignore[misc]
    """The interpreter's operations on arrays of which the first axis is the program, or of length 1 for all alike.

    A scalar has a second axis of length 1.
    """

    options: Any

    def __init__(self, batch: list[tuple[int, ...]]):
        super().__init__()
        if not self.options.debug:  # without it the checks of overflows are computed and not looked at
            self.options = replace(self.options, sanitize_overflow=False)
        self.memory = _Memory(len(batch))
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
            raise _Apart
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
    split dot assert assume barrier
"""
"""Operations that work on the last axes, or on each element by itself."""
_CONSTANTS = """
    int1 int8 uint8 int16 uint16 int32 uint32 int64 uint64 fp16 bf16 fp32 fp64 null_value all_ones_value
"""


def _restrict_builder() -> None:
    """Constants get the program's axis; a batch with an operation that is not listed here comes apart."""

    def lifted(make: Callable[..., TensorHandle]) -> Callable[..., TensorHandle]:
        def make_lifted(self: _Builder, *arguments: Any) -> TensorHandle:
            handle = make(self, *arguments)
            return TensorHandle(handle.data.reshape(1, 1), handle.dtype)

        return make_lifted

    def refuse(self: _Builder, *_: Any, **__: Any) -> None:
        raise _Apart

    for name in {f"get_{name}" for name in _CONSTANTS.split()} & vars(InterpreterBuilder).keys():
        setattr(_Builder, name, lifted(getattr(InterpreterBuilder, name)))
    known = {f"create_{name}" for name in _AS_THEY_ARE.split()} | vars(_Builder).keys()
    for name in dir(InterpreterBuilder):
        if name.startswith("create_") and name not in known:
            setattr(_Builder, name, refuse)


_restrict_builder()


def _where_it_matters(mask: TensorHandle | None) -> np.ndarray | None:
    return None if mask is None or mask.data.all() else mask.data


def _of_one_length(*arrays: np.ndarray) -> list[np.ndarray]:
    """Arrays whose first axes have one length."""
    length = max(len(array) for array in arrays)
    return [np.broadcast_to(array, (length, *array.shape[1:])) for array in arrays]


def _as_tensor(data: np.ndarray, dtype: Any) -> Any:
    """A tensor of results, (programs or 1, ...)."""
    data = data.astype(interpreter._get_np_dtype(dtype))
    if data.ndim == 1:
        return tl.tensor(TensorHandle(data[:, None], dtype.scalar), dtype)
    return tl.tensor(TensorHandle(data, dtype.scalar), tl.block_type(dtype, list(data.shape[1:])))


def _reduce(input: Any, axis: int | None, combine_fn: Any, keep_dims: bool = False, **_: Any) -> Any:
    """`tl.reduce` as the interpreter has it, for the functions that it knows."""
    tensors = input if isinstance(input, tuple) else (input,)
    tensor, standard = tensors[0], tl.standard
    data, kind = tensor.handle.data, tensor.dtype
    rank = len(tensor.shape)
    if not rank or (axis is not None and not -rank <= axis < rank):
        raise _Apart
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
        raise _Apart
    return found if isinstance(input, tuple) else found[0]


def _scan(input: Any, axis: int, combine_fn: Any, reverse: bool = False, **_: Any) -> Any:
    """`tl.associative_scan` as the interpreter has it, for sums and products."""
    tensors = input if isinstance(input, tuple) else (input,)
    accumulate: Any = {tl.standard._sum_combine: np.cumsum, tl.standard._prod_combine: np.cumprod}.get(combine_fn)
    rank = len(tensors[0].shape)
    if accumulate is None or len(tensors) > 1 or not -rank <= axis < rank:
        raise _Apart
    along = axis % rank + 1
    data = tensors[0].handle.data
    data = np.flip(accumulate(np.flip(data, along), axis=along), along) if reverse else accumulate(data, axis=along)
    found = _as_tensor(data, tensors[0].dtype)
    return (found,) if isinstance(input, tuple) else found
