"""The note of a contestant's process: memory shared with the referee that tells, once the process is dead, what it did.

It explains a verdict and decides none: a candidate can write to it what it likes.
"""

from __future__ import annotations

import ctypes
import json
import mmap
import os
import struct
from typing import Any

import torch

from kernelrl.executor.confinement.system_calls import name_of_call

NUM_BYTES = 1 << 16
_HEAD = struct.Struct("<QQI")
"""Address of the instruction that could not be fetched, the clock that was read, and the number of bytes of text that
follow. A clock is one of `_CLOCKS`, or `_SYSTEM_CALL` and the number of the call."""
_CLOCKS = {1: "the processor's time-stamp counter", 2: "the kernel's clocks through the vDSO"}
_SYSTEM_CALL = 1 << 32
_TEXT_AT = _HEAD.size
MAX_DEPTH = 10
"""How deep an operator's arguments are nested at most, as they are written down."""
NAMED: dict[str, Any] = {
    str(value): value
    for value in vars(torch).values()
    if isinstance(value, torch.dtype | torch.memory_format) or value is torch.strided
}
"""Arguments of operators that are written by their name, such as `torch.float32`."""


class Note:
    """One note.

    Args:
        fd: of the shared memory, which stays the caller's; None: a new one's, see `fd`.
    """

    def __init__(self, fd: int | None = None):
        self.fd = os.memfd_create("kernelrl-note") if fd is None else fd
        if fd is None:
            os.ftruncate(self.fd, NUM_BYTES)
        self._memory = mmap.mmap(self.fd, NUM_BYTES)

    @property
    def address(self) -> int:
        """Where it lies in this process; its first eight bytes take the address of a fault, the next a clock."""
        return ctypes.addressof(ctypes.c_char.from_buffer(self._memory))

    def close(self) -> None:
        """Give its descriptor back; what it says can be read on."""
        os.close(self.fd)

    def clear(self) -> None:
        """Forget the operators of the call before."""
        self._memory[:_TEXT_AT] = bytes(_TEXT_AT)

    def begin(self, operator: dict[str, Any]) -> None:
        """Write down an operator that is about to run. What does not fit is left out."""
        fault, clock, length = _HEAD.unpack_from(self._memory)
        line = json.dumps(operator).encode() + b"\n"
        end = _TEXT_AT + length + len(line)
        if end <= NUM_BYTES:
            self._memory[_TEXT_AT + length : end] = line
            _HEAD.pack_into(self._memory, 0, fault, clock, length + len(line))

    def fault(self) -> int | None:
        """Address of the closed code that the process has died of; None: it has named none."""
        address: int = _HEAD.unpack_from(self._memory)[0]
        return address or None

    def clock(self) -> str | None:
        """The clock that the process has died of, in words; None: it has named none."""
        clock: int = _HEAD.unpack_from(self._memory)[1]
        if clock & _SYSTEM_CALL:
            return f"system call {name_of_call(clock & (_SYSTEM_CALL - 1))}"
        return _CLOCKS.get(clock)

    def operators(self) -> list[dict[str, Any]]:
        """The operators of the last recorded call, as `describe_operator` makes them where nobody forged them."""
        _, _, length = _HEAD.unpack_from(self._memory)
        found = []
        for line in self._memory[_TEXT_AT : _TEXT_AT + length].splitlines():
            try:
                operator = json.loads(line)
            except (ValueError, RecursionError):
                continue
            if _depth(operator) > MAX_DEPTH:  # whoever sends it on would fail
                continue
            if isinstance(operator, dict) and isinstance(operator.get("name"), str):
                found.append(operator)
        return found


def _depth(form: Any) -> int:
    """How deep lists and objects are nested, as far as it matters."""
    depth, level = 0, [form]
    while depth <= MAX_DEPTH and (level := [item for each in level for item in _parts(each)]):
        depth += 1
    return depth


def _parts(form: Any) -> list[Any]:
    return form if isinstance(form, list) else list(form.values()) if isinstance(form, dict) else []


def describe_operator(func: Any, args: Any, kwargs: Any) -> dict[str, Any]:
    """An operator and what it was called with, without values of tensors.

    Args:
        func: the overload, e.g. `torch.ops.aten.copy_.default`.
        args, kwargs: its arguments.
    """
    return {
        "name": func._schema.name,
        "overload": func._overloadname,
        "args": [_describe(value) for value in args],
        "kwargs": {name: _describe(value) for name, value in kwargs.items()},
    }


def _describe(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        if value.layout != torch.strided:
            return None
        return {"tensor": [str(value.dtype), list(value.shape), list(value.stride()), value.device.type]}
    if isinstance(value, list | tuple):
        return [_describe(item) for item in value]
    if isinstance(value, torch.device):
        return {"device": str(value)}
    if isinstance(value, bool | int | float | str | None):
        return value
    if isinstance(value, torch.dtype | torch.layout | torch.memory_format):
        return {"named": str(value)}
    return {"unknown": type(value).__name__}  # of a storage, for one: its text would be all that it holds


def argument_of(form: Any) -> Any:
    """The argument of a form made by `_describe`, with fresh memory for each tensor.

    Raises:
        KeyError, ValueError, TypeError, RuntimeError: the form is none of those.
    """
    if isinstance(form, list):
        return [argument_of(item) for item in form]
    if not isinstance(form, dict):
        return form
    ((kind, value),) = form.items()
    match kind:
        case "tensor":
            dtype, shape, stride, device = value
            return torch.empty_strided(shape, stride, dtype=NAMED[dtype], device=_device(device)).zero_()
        case "device":
            return _device(value)
        case _:
            return NAMED[value]


def _device(name: str) -> torch.device:
    return torch.device("cuda" if name.startswith("cuda") else "cpu")
