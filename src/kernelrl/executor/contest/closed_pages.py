"""What a contestant's process does about closed code of libraries (`closed_pages.c`).

It closes the code that the referee names, and says where it dies of it. A process of the executor's own finds
which functions must stay open: it closes all code, does whatever candidates may do, and opens each function that is
needed.
"""

from __future__ import annotations

import contextlib
import ctypes
import mmap
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
import torch
import tvm_ffi
from torch import nn

from kernelrl.executor.contest.operator_mode import OperatorMode, arguments_of
from kernelrl.executor.contest.values import tensors_in
from kernelrl.executor.legality.operators import ALLOCATION_AND_VIEWS, COPIES, PLUMBING, VIEWS
from kernelrl.executor.processes import elf
from kernelrl.executor.processes.note import argument_of

DTYPES = (
    torch.float32,
    torch.float64,
    torch.float16,
    torch.bfloat16,
    torch.int64,
    torch.int32,
    torch.int16,
    torch.int8,
    torch.uint8,
    torch.bool,
)
ONE_BYTE = (torch.bool, torch.uint8)
Copies = frozenset[torch.dtype] | None
"""The types between which the library may convert, beside its copies; None: it makes none, where they are the work."""
_METHODS = dict(zip(DTYPES, "float double half bfloat16 long int short char byte bool".split(), strict=True))
"""By dtype, the method of a tensor that converts to it."""
SIZES = (3, 40)
"""Edges of matrices: fewer elements than a vector register holds, and many more."""
LAST = {4: torch.channels_last, 5: torch.channels_last_3d}
"""By number of dimensions: the memory format in which the channels are the last one."""
CPU = torch.device("cpu")
OFFSETS = (1, 2, 4, 8)
"""Where a tensor may begin in its storage: a GPU's operators have code of its own for each width that this allows."""
PARALLEL = 200
"""Edge of a matrix that is large enough for all threads to work on it (at 32,768 elements)."""


class Helper:
    """The compiled `closed_pages.c`, loaded into this process; without a path there is none, and nothing to call."""

    def __init__(self, path: str | None):
        self._library = ctypes.CDLL(path)

    def close(self, ranges: list[list[int]], path: str = "", parts: list[list[int]] | None = None) -> int:
        """Close ranges of code, and map parts of a file over some of it. Returns how many could not be.

        Args:
            ranges: a start and a length each.
            path: the file.
            parts: an address, a length, and the place in the file each.
        """
        parts = parts or []
        numbers, more = ([number for row in rows for number in row] for rows in (ranges, parts))
        failed: int = self._library.close_code(
            (ctypes.c_uint64 * len(numbers))(*numbers),
            ctypes.c_size_t(len(ranges)),
            path.encode(),
            (ctypes.c_uint64 * len(more))(*more),
            ctypes.c_size_t(len(parts)),
        )
        return failed

    def report_faults(self, address: int, clock_pages: tuple[int, int], libraries_compute: bool) -> None:
        """Write what this process dies of, closed code or a clock, to a place in memory.

        Args:
            address: of that place.
            clock_pages: see `sandbox.clock_pages`.
            libraries_compute: they may read the time-stamp counter, which then tells how often it was read.
        """
        ends = map(ctypes.c_uint64, clock_pages)
        self._library.report_faults(ctypes.c_void_p(address), *ends, ctypes.c_int(libraries_compute))

    def open_what_is_needed(self, functions: np.ndarray, pages: np.ndarray) -> np.ndarray:
        """From now on open a closed function when an instruction of it is needed.

        Args:
            functions: addresses where each starts and ends, sorted: shape (functions, 2).
            pages: the same of the ranges of pages in which they lie: shape (ranges, 2).

        Returns:
            For each function whether it has been needed so far, as it is at any time.
        """
        needed = np.zeros(len(functions), np.uint8)
        originals = np.zeros((pages[:, 1] - pages[:, 0]).sum() // mmap.PAGESIZE, np.uint64)
        self._kept: list[np.ndarray] = [functions.astype(np.uint64), needed, pages.astype(np.uint64), originals]
        first, second, third, fourth = (ctypes.c_void_p(array.ctypes.data) for array in self._kept)
        count, num_ranges = ctypes.c_size_t(len(functions)), ctypes.c_size_t(len(pages))
        self._library.open_what_is_needed(first, count, second, third, num_ranges, fourth)
        return needed


def find_needed(helper: Helper, mappings: list[Any], work: Callable[[], None]) -> dict[str, list[list[int]]]:
    """By file, where the functions start and end that some work needs. They are open in this process from then on.

    Args:
        mappings: the code that is closed, sorted: of each the start, the end, the place in the file, and the file.
    """
    spans, moved, files = [np.zeros((0, 2), np.int64)], [np.zeros(0, np.int64)], []
    for start, end, offset, file in mappings:
        code = elf.code(file)
        found = np.zeros((0, 2), np.int64) if code is None else code.spans + (start - offset)
        found = found[(found[:, 0] >= start) & (found[:, 1] <= end)]
        spans.append(found)
        moved.append(np.full(len(found), start - offset))
        files += [file] * len(found)
    functions, moves = np.concatenate(spans), np.concatenate(moved)
    pages = np.array([[start, end] for start, end, _, _ in mappings], np.int64)
    needed = helper.open_what_is_needed(functions, pages)
    helper.close([[start, end - start] for start, end, _, _ in mappings])
    work()
    marks = needed.tobytes()  # now: what follows is NumPy's work, and needs more
    by_file: dict[str, list[list[int]]] = {}
    for index, mark in enumerate(marks):
        if mark:
            by_file.setdefault(files[index], []).append((functions[index] - moves[index]).tolist())
    return by_file


class Plumbing(nn.Module):
    """Does all that a candidate may do around its own kernels.

    Args:
        copies: see `Copies`.
        device: where it works.
    """

    inputs: list[torch.Tensor]
    """What to do it with."""

    def __init__(self, copies: Copies, device: torch.device = CPU):
        super().__init__()
        self.weight = nn.Parameter(torch.empty(5, 7, device=device))
        self.register_buffer("count", torch.empty(2, dtype=torch.int64, device=device))
        self.copies = copies
        self.device = device
        self.echo = tvm_ffi.convert(lambda *values: values[0])

    def forward(self, *arguments: torch.Tensor) -> list[torch.Tensor]:
        for how in (contextlib.nullcontext, torch.inference_mode):
            with how(), working_on(self.device):
                self._work()
        with working_on(self.device):
            return [torch.empty(3, 4), torch.zeros(()), torch.empty(0, 2), *arguments]

    def _work(self) -> None:
        for tensor in self.inputs:
            if tensor.is_cpu or tensor.dtype == torch.float32:  # on a GPU the type matters to what is filled and copied
                _allocate(tensor)
                _view(tensor)
                self.echo(tensor, 1, 2.0, "text", None)
            _fill(tensor)
            if self.copies is not None:
                _copy(tensor, self.copies)
        for mistake in _mistakes(self.copies is not None):
            with contextlib.suppress(Exception):
                mistake()


def working_on(device: torch.device) -> contextlib.AbstractContextManager[Any]:
    """Make tensors there, unless another device is named."""
    return contextlib.nullcontext() if device == CPU else device


def all_inputs(device: torch.device = CPU) -> list[torch.Tensor]:
    """Tensors of every dtype and layout."""
    sizes = SIZES if device == CPU else SIZES[-1:]
    with working_on(device):
        return [tensor for size in sizes for dtype in DTYPES for tensor in _layouts(dtype, size)]


def _layouts(dtype: torch.dtype, size: int) -> Iterator[torch.Tensor]:
    base = torch.zeros(4, size, size, dtype=dtype)
    yield base
    yield base.transpose(1, 2)
    yield base[:, ::2, ::2]
    yield base[:1].expand(4, size, size)
    yield torch.empty(2, 3, size, size, dtype=dtype, memory_format=torch.channels_last).zero_()
    yield torch.zeros(2, 3, 2, 3, size, dtype=dtype)
    yield torch.zeros((), dtype=dtype)
    yield torch.zeros(0, 3, dtype=dtype)


def _allocate(x: Any) -> None:
    torch.empty(x.shape, dtype=x.dtype, device=x.device)
    torch.empty(3, 4)
    torch.empty_strided(x.shape, x.stride(), dtype=x.dtype)
    torch.empty_like(x)
    torch.empty_like(x, dtype=torch.float32, memory_format=torch.contiguous_format)
    torch.zeros(x.shape, dtype=x.dtype)
    torch.zeros_like(x)
    torch.ones(x.shape, dtype=x.dtype)
    torch.ones_like(x)
    torch.full(x.shape, 1, dtype=x.dtype)
    torch.full((2, 2), float("-inf"))
    torch.full_like(x, 1)
    torch.scalar_tensor(1.0, dtype=x.dtype)
    torch.tensor([1, 0], dtype=x.dtype)
    torch.tensor(1.5)
    x.new_empty((3, 4))
    x.new_zeros(3)
    x.new_ones((2, 3))
    x.new_full((2,), 1)
    x.new_empty_strided((2, 3), (3, 1))


def _view(x: Any) -> None:
    x.detach().data.requires_grad_(False)
    x.as_strided(x.shape, x.stride())
    x.unsqueeze(0).squeeze(0).squeeze()
    x.expand(2, *x.shape).expand_as(x.expand(2, *x.shape))
    x.view_as(x)
    torch.dropout(x, 0.0, train=True)
    x.reshape_as(x)
    x.broadcast_to((2, *x.shape))
    x.view(x.shape)
    x.reshape(x.shape)
    x.permute(list(range(x.dim()))[::-1])
    if x.dim():
        x.movedim(0, -1)
        x.moveaxis(0, -1)
        x.narrow(0, 0, x.shape[0])
        x.split(2)
        x.chunk(2)
        x.unbind(0)
        x.unflatten(0, (x.shape[0], 1))
        x[0:1].expand(3, *x.shape[1:]).expand(-1, *x.shape[1:]) if x.shape[0] else None
        x[::2]
        x[None, ..., None]
        x.unfold(0, 1, 1) if x.shape[0] else None
        x[0] if x.shape[0] else None
        x[-1] if x.shape[0] else None
    if x.dim() > 1:
        x.transpose(0, 1)
        x.swapaxes(0, -1)
        x.swapdims(0, -1)
        x.diagonal()
        x[:, 0:1]
        x[..., 0]
        x.mT  # noqa: B018
    if x.dim() == 2:
        x.t()
        x.T  # noqa: B018
    if x.is_contiguous():
        x.flatten()
        x.ravel()
        x.view(-1)
        x.reshape(-1)
        x.contiguous()
        x.view(torch.uint8) if x.dim() else None
        x.to(x.dtype), x.to(x), x.to(x.device, x.dtype), x.to(device=x.device, dtype=x.dtype)
        x.type_as(x)
        x.cpu()
        x.numpy() if x.dtype != torch.bfloat16 and x.is_cpu else None
    if x.numel():
        x[(0,) * x.dim()].item()
        float(x[(0,) * x.dim()])
    x.size(), x.stride(), x.numel(), x.data_ptr(), x.storage_offset(), x.element_size(), x.nbytes, x.is_contiguous()
    x.untyped_storage().nbytes()
    repr(x.shape), str(x.dtype), str(x.device), x.is_floating_point(), x.is_complex(), x.requires_grad, x.get_device()
    torch.promote_types(x.dtype, torch.float32)
    torch.result_type(x, 1.0)
    torch.broadcast_shapes(x.shape, x.shape)  # type: ignore[no-untyped-call]


def _fill(x: Any) -> None:
    new: Any = torch.empty_strided(x.shape, x.stride(), dtype=x.dtype)
    if 0 not in x.stride():
        new.zero_()
        new.fill_(1)
    new.resize_(2, 3)
    new.set_(torch.empty(4, dtype=x.dtype))
    x.new_empty(0, device="cpu").set_(x.untyped_storage().cpu(), x.storage_offset(), x.size(), x.stride())


def is_plain(types: frozenset[torch.dtype], given: torch.dtype, wanted: torch.dtype) -> bool:
    """Whether the library may convert values of one type to another, beside a kernel that computes.

    With views of their bytes, most conversions are gates of which programs are made: what makes a boolean of many bytes
    tells whether any of them is set, what makes a number of an integer, or a shorter one, rounds, and a wider integer
    has a sign in all its new bits; what makes a byte of an integer gives its remainder. Not so what makes a number of a
    byte, or takes half of an index. What else a task's own types need is open where it has them.

    Args:
        types: those that the task has.
        given, wanted: of `DTYPES`; others never convert.
    """
    if given == wanted:
        return True
    if given not in DTYPES or wanted not in DTYPES or (wanted == torch.bool and given not in ONE_BYTE):
        return False
    if given in ONE_BYTE:
        return True
    if given == torch.int8 and wanted.is_floating_point:
        return True
    if given.is_floating_point or wanted.is_floating_point:
        return given.is_floating_point and wanted.is_floating_point and {given, wanted} <= types
    return wanted in types or (given, wanted) == (torch.int64, torch.int32)


def _copy(x: Any, types: frozenset[torch.dtype]) -> None:
    x.contiguous()
    if x.dim() in LAST:
        x.contiguous(memory_format=LAST[x.dim()]), x.to(memory_format=LAST[x.dim()])
    x.clone()
    x.clone(memory_format=torch.contiguous_format)
    x.reshape(-1)
    x.flatten()
    x.transpose(0, -1).contiguous() if x.dim() else None
    x.permute(list(range(x.dim()))[::-1]).contiguous()
    new = torch.empty(x.shape, dtype=x.dtype)
    new.copy_(x)
    new[...] = x
    new[...] = 0
    if x.numel():
        new[(0,) * x.dim()] = 1
    if x.dim():
        new[:1] = x[:1]
        new.transpose(0, -1).copy_(x.transpose(0, -1))
    for dtype in filter(partial(is_plain, types, x.dtype), DTYPES):
        x.to(dtype), x.to(x.device, dtype), x.to(device=x.device, dtype=dtype), getattr(x, _METHODS[dtype])()
        other = torch.empty(x.shape, dtype=dtype)
        other.copy_(x)
        x.to(other), x.type_as(other)
        x.to(dtype=dtype, copy=True, memory_format=torch.contiguous_format)


def work_as_native_code(copies: Copies, device: torch.device = CPU) -> None:
    """C++ enters at the dispatcher's first keys, which Python's functions leave out."""
    native: Any = torch.ops.aten
    x = torch.empty(3, 4, device=device)
    for make in (native.empty_like, native.zeros_like, native.ones_like):
        make(x), make(x, dtype=torch.bfloat16)
    native.full_like(x, 1.0), native.full([3], 1.0, device=device), native.empty_strided([3, 4], [4, 1], device=device)
    for make in (native.empty, native.zeros, native.ones):
        make([3, 4], device=device)
    native.scalar_tensor(1.0, device=device), native.fill_(x, 1.0), native.select(x, 0, 0), native.expand_as(x[:1], x)
    native.squeeze(x), native.transpose(x, 0, 1), native.view(x, [-1]), native.reshape(x, [-1])
    if copies is not None:
        native.contiguous(x.t()), native.clone(x), native.copy_(x, x.t().reshape(3, 4)), native.reshape(x.t(), [-1])
        for dtype in DTYPES:
            y = torch.zeros(3, 4, dtype=dtype, device=device)
            for wanted in filter(partial(is_plain, copies, dtype), DTYPES):
                native.to(y, wanted), native.to.dtype_layout(y, dtype=wanted), native.to(y, x.device, wanted)
                native.to.other(y, torch.empty(3, 4, dtype=wanted, device=device))


def work_in_parallel(copies: Copies, device: torch.device = CPU) -> None:
    """Fill and copy what is large enough for all threads. On busy cores each of these calls takes milliseconds."""
    ctypes.CDLL("libtorch_cpu.so")._ZN2at16init_num_threadsEv()  # as a module's first `at::parallel_for` does
    for dtype in DTYPES:
        x = torch.full((PARALLEL, PARALLEL), 1, dtype=dtype, device=device)
        torch.zeros_like(x)
        for offset in OFFSETS if device != CPU else ():
            flat = x.view(-1)[offset:]
            flat.fill_(1), flat.zero_()
            if copies is not None:
                for wanted in filter(partial(is_plain, copies, dtype), DTYPES):
                    flat.to(wanted), flat.clone().copy_(flat.to(wanted)), flat.copy_(flat.to(wanted))
        if copies is not None:
            x.clone(), x.t().contiguous(), x[:, ::2].contiguous(), x[:1].expand(PARALLEL, PARALLEL).contiguous()
            for wanted in filter(partial(is_plain, copies, dtype), DTYPES):
                x.to(wanted), x.t().to(wanted)


def _mistakes(copies: bool) -> list[Callable[[], Any]]:
    """What raises an exception, as an honest candidate's mistake does."""
    x: Any = torch.zeros(4, 6)
    library: Any = torch
    found: list[Callable[[], Any]] = [
        lambda: x.view(5, 5),
        lambda: x.t().view(-1),
        lambda: x.reshape(7, -1),
        lambda: x.expand(5, 6),
        lambda: torch.empty(1 << 50),
        lambda: torch.ones(1 << 50),
        lambda: x[4],
        lambda: x[0, 0, 0],
        lambda: x.permute(0, 0),
        lambda: x.transpose(0, 3),
        lambda: x.select(0, 9),
        lambda: x.narrow(0, 2, 5),
        lambda: x.unflatten(0, (3, 3)),
        lambda: x.squeeze(5),
        lambda: x.unsqueeze(7),
        lambda: x.expand(3),
        lambda: x.flatten(1, 0),
        lambda: x.flatten(0, 9),
        lambda: x.chunk(0),
        lambda: x.unbind(4),
        lambda: x.diagonal(0, 0, 0),
        lambda: x.unfold(0, 9, 1),
        lambda: x.unfold(0, 1, 0),
        lambda: torch.empty(2, 3, 4).t(),
        lambda: torch.empty_strided((2, 2), (1,)),
        lambda: torch.zeros((1 << 30, 1 << 30)),
        lambda: x.split(-1),
        lambda: x.as_strided((9, 9), (9, 1)),
        lambda: x.view(torch.int64)[0].view(3),
        lambda: x.item(),
        lambda: torch.empty(-1),
        lambda: torch.empty((1 << 60,)),
        lambda: library.full((2,), "x"),
        lambda: torch.tensor([[1], [1, 2]]),
        lambda: library.broadcast_shapes((2,), (3,)),
        lambda: x.requires_grad_(True).numpy(),
        lambda: library.nn.ReLU()(x, x),
    ]
    return [*found, lambda: x.copy_(torch.zeros(5)), lambda: x[:2].copy_(x[:3])] if copies else found


class NotAllowed(Exception):
    """An operator does what only a kernel may do."""


class Allowed(OperatorMode):  # type: ignore[no-untyped-call]
    """Lets nothing reach PyTorch's dispatcher but what the library may do beside a kernel.

    Args:
        copies: see `Copies`.
    """

    def __init__(self, copies: Copies):
        super().__init__()
        self._copies = copies
        self._operators = ALLOCATION_AND_VIEWS if copies is None else PLUMBING

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func._schema.name not in self._operators or not self._is_plain(func, args, kwargs or {}):
            raise NotAllowed
        result = func(*args, **(kwargs or {}))
        if self._copies is None and _moves_data(func._schema.name, tensors_in((args, kwargs)), tensors_in(result)):
            raise NotAllowed
        return result

    def _is_plain(self, func: Any, args: Any, kwargs: dict[str, Any]) -> bool:
        """Whether it makes no conversion that only a kernel may make, see `is_plain`."""
        name, given = func._schema.name, arguments_of(func, args, kwargs)
        if name not in COPIES and not (name == "aten::fill_" and isinstance(given["value"], torch.Tensor)):
            return True
        source = given.get("src", given.get("value", given["self"]))
        targets = [given["self"], *(given.get(name) for name in ("dtype", "other", "out"))]
        wanted = [each.dtype if isinstance(each, torch.Tensor) else each for each in targets if each is not None]
        return all(is_plain(self._copies or frozenset(), source.dtype, dtype) for dtype in wanted)


def _moves_data(name: str, given: list[torch.Tensor], made: list[torch.Tensor]) -> bool:
    """Whether an operator that gives views or memory has moved data: `reshape` copies where there is no view, `fill_`
    where it is given a tensor, `resize_` what was there before."""
    if name not in VIEWS:
        has_data = any(tensor.numel() for tensor in given)
        return has_data and (len(given) > 1 or name == "aten::resize_")
    places = {tensor.untyped_storage().data_ptr() for tensor in given}
    return not all(tensor.untyped_storage().data_ptr() in places for tensor in made)


def allowed_among(operators: list[dict[str, Any]], copies: Copies) -> list[dict[str, Any]]:
    """The records of those operators that do nothing that only a kernel may do, however they are called.

    It calls them, so that it is asked where they find libraries open: what they need there is not noted.
    """
    return [operator for operator in operators if (calls := _calls_of(operator)) and _are_allowed(calls, copies)]


def _are_allowed(calls: list[Callable[[], Any]], copies: Copies) -> bool:
    """Whether calls do nothing that is not allowed. One that fails may do more, unseen: its error may show a tensor."""
    for call in calls:
        try:
            with Allowed(copies):
                call()
        except Exception:
            return False
    return True


def replay(operators: list[dict[str, Any]], copies: Copies) -> None:
    """Call operators as they were recorded, with other values, if they are allowed: see `allowed_among`."""
    for operator in operators:
        calls = _calls_of(operator)
        if _are_allowed(calls, copies):
            for call in calls:
                with contextlib.suppress(Exception):
                    call()


def _calls_of(operator: dict[str, Any]) -> list[Callable[[], Any]]:
    """The calls of a recorded operator: by the overload that was recorded, and as Python calls it. None, where the
    record is no record: a candidate may have written it."""
    try:
        name, overload = operator["name"], operator["overload"]
        packet = getattr(torch.ops.aten, name.removeprefix("aten::"))
        if name not in PLUMBING or overload not in packet.overloads():
            return []
        args = [argument_of(form) for form in operator["args"]]
        kwargs = {key: argument_of(form) for key, form in operator["kwargs"].items()}
        by_name = getattr(torch.Tensor, packet.__name__, getattr(torch, packet.__name__, None))
        functions = [getattr(packet, overload), by_name]
    except Exception:
        return []
    return [partial(function, *args, **kwargs) for function in functions if function is not None]
