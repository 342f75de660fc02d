"""The contestant's end of the memory of a call (processes/call_memory.py): the preloaded allocator."""

from __future__ import annotations

import ctypes
import mmap
import os
from typing import Any

from kernelrl.executor.processes.call_memory import MAX_SPANS

_LIBRARY: Any = ctypes.CDLL(None)


class CallRegion:
    """Memory from which PyTorch's tensors are allocated during a call.

    Args:
        fd: the memory; closed.
        num_bytes: its size.
    """

    def __init__(self, fd: int, num_bytes: int):
        self._map = mmap.mmap(fd, num_bytes)
        os.close(fd)
        self.address = ctypes.addressof(ctypes.c_char.from_buffer(self._map))
        self._begin, self._end = _LIBRARY.kernelrl_begin_call, _LIBRARY.kernelrl_end_call
        self._end.restype = ctypes.c_size_t
        self._spans = (ctypes.c_size_t * 2 * MAX_SPANS)()
        _LIBRARY.kernelrl_use_region(ctypes.c_void_p(self.address), ctypes.c_size_t(num_bytes))

    def owns(self, pointer: int) -> bool:
        """Whether an address lies there."""
        return self.address <= pointer < self.address + len(self._map)

    def begin(self) -> None:
        """From here on tensors lie there."""
        self._begin()

    def end(self) -> list[list[int]]:
        """The call is over: which spans of the region the next one may use."""
        count = self._end(self._spans, ctypes.c_size_t(MAX_SPANS))
        return [list(span) for span in self._spans[:count]]
