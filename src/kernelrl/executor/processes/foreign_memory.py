"""Another process's memory, read from outside."""

from __future__ import annotations

import ctypes
import os

import torch

_LIBC = ctypes.CDLL(None, use_errno=True)


class _Iovec(ctypes.Structure):
    _fields_ = [("base", ctypes.c_void_p), ("length", ctypes.c_size_t)]


def read_memory(pid: int, pointer: int, buffer: torch.Tensor) -> None:
    """Copy a process's memory at an address into one-dimensional bytes.

    Raises:
        ValueError: there is no such memory.
    """
    num_bytes, done = buffer.numel(), 0
    while done < num_bytes:
        local = _Iovec(buffer.data_ptr() + done, num_bytes - done)
        remote = _Iovec(pointer + done, num_bytes - done)
        count = _LIBC.process_vm_readv(pid, ctypes.byref(local), 1, ctypes.byref(remote), 1, 0)
        if count <= 0:
            reason = os.strerror(ctypes.get_errno())
            raise ValueError(f"memory of process {pid} at {pointer:#x} cannot be read: {reason}")
        done += count
