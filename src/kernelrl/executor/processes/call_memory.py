"""The memory of a call: where the tensors of one call lie, and the referee's proof that they were made in it.

Before each call of a candidate, and each timed one, the referee overwrites a region that it shares with the process,
and afterwards it wants the outputs there: an output of an earlier call, or one made while the model was constructed, is
gone or lies elsewhere. The rule rests on that overwriting alone. The allocator in the process (contest/call_memory.c)
only makes honest outputs lie where they must; what it names as free is overwritten, so a candidate that lies about it
gains nothing.
"""

from __future__ import annotations

import ctypes
import errno
import fcntl
import mmap
import os
import random
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import chain
from typing import Any, BinaryIO

import torch

GARBAGE = (0x5A, 0xDA, 0xFF, 0x5A, 0xDA, 0xFF, 0x00)
"""Of one of these bytes, which come in random order, a call's memory consists before it writes there: as floats 1.5e16,
-3e16, NaN and, seldom, zero. What one of them does not change (a minimum, a product with zero, `all`), another does."""
OVERWRITTEN_BYTES = 256 << 20
"""So much is filled before a call, beside where outputs may lie; what a process has touched beyond is cleared, and may
cost page faults again."""
PIECE_BYTES = 64 << 10
"""What the smallest piece counts for."""
SLACK_BYTES = 64 << 10
"""So much of what nobody has touched yet is filled before a call, beside the memory of its outputs."""
MAX_SPANS = 64
MAX_PLACES = 8
"""Outputs whose places are remembered."""
_HEAD_BYTES = 64
"""The allocator's note at the beginning of a span: it stays, and no output lies there."""
_PUNCH_HOLE = 0x3  # FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE
_SEALS, _SEAL_WRITE = 0x1 | 0x2 | 0x4, 0x8  # F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW, F_SEAL_WRITE
_F_ADD_SEALS = 1033
_LIBC = ctypes.CDLL(None, use_errno=True)
_LIBC.fallocate.argtypes = [ctypes.c_int, ctypes.c_int, ctypes.c_int64, ctypes.c_int64]


class CallMemory:
    """The referee's end of one process's region. Overwritten and read only while that process is frozen.

    Args:
        num_bytes: its size; only what is touched takes memory.
    """

    def __init__(self, num_bytes: int):
        self._file = os.fdopen(sealed_memory("kernelrl-call", num_bytes), "rb+", buffering=0)
        self.fd = self._file.fileno()
        self.num_bytes = num_bytes
        self.address = 0
        """Where the process has it."""
        self._map = mmap.mmap(self.fd, num_bytes)
        self._bytes = torch.frombuffer(self._map, dtype=torch.uint8)
        self._spans: list[tuple[int, int]] = []
        self._filled: list[tuple[int, int]] = []
        self._places = deque[tuple[int, int]](maxlen=MAX_PLACES)
        self._ahead = 0
        self._garbage = GARBAGE[0]
        self._coming: list[int] = []
        self._lay_unfilled = False

    def expect(self, spans: Any) -> None:
        """Believe that the next call may use these spans, so that outputs of it are looked for there.

        Args:
            spans: pairs of offsets in ascending order, as the process has said after its last call.

        Raises:
            ValueError: it has said something else.
        """
        if not (
            isinstance(spans, list)
            and len(spans) <= MAX_SPANS
            and all(isinstance(span, list) and len(span) == 2 for span in spans)
            and all(type(end) is int and 0 <= end <= self.num_bytes for span in spans for end in span)
            and list(chain.from_iterable(spans)) == sorted(chain.from_iterable(spans))
        ):
            raise ValueError(f"no spans of {self.num_bytes} bytes: {spans!s:.100}")
        self._spans = [(low, high) for low, high in spans]

    def overwrite(self, spans: Any, output_bytes: int) -> None:
        """Fill what the next call may use with garbage, as far as it has been touched or an output may lie there.

        Args:
            spans: see `expect`.
            output_bytes: size of its outputs.

        Raises:
            ValueError: see there.
        """
        self.expect(spans)
        self._coming = self._coming or random.SystemRandom().sample(GARBAGE, len(GARBAGE))
        self._garbage = self._coming.pop()
        tail = self._spans[-1][0] if self._spans else 0
        places = sorted([*self._places, (tail, tail + max(output_bytes + SLACK_BYTES, self._ahead))])
        self._filled = []
        left = OVERWRITTEN_BYTES
        for low, high in self._spans:
            position = low + _HEAD_BYTES
            for start, end in [*places, (high, high)]:
                start, end = max(start, position), min(end, high)
                if start <= end:
                    left = self._fill_touched(position, start, left)
                    self._fill(start, end)
                    position = end
        self._filled.sort()

    def _fill_touched(self, position: int, end: int, left: int) -> int:
        """Fill what has been touched, as far as the budget `left` reaches, and clear the rest; returns what is left."""
        while left > 0 and (data := self._next_data(position, end)) is not None:
            position = min(os.lseek(self.fd, data, os.SEEK_HOLE), end, data + left)
            self._fill(data, position)
            left -= max(position - data, PIECE_BYTES)
        if self._next_data(position, end) is not None:
            _LIBC.fallocate(self.fd, _PUNCH_HOLE, position, end - position)
        return left

    def _fill(self, start: int, end: int) -> None:
        if start < end:
            ctypes.memset(self._bytes.data_ptr() + start, self._garbage, end - start)
            self._filled.append((start, end))

    def lay_unfilled(self, outputs: list[tuple[int, int]]) -> bool:
        """Whether an output of the last call lies where nothing had been filled: the call found zeros there.

        Where it lies is filled before the next calls; where each call takes further memory, so is some of that.

        Args:
            outputs: address and number of bytes of each.
        """
        places = [(pointer - self.address, pointer - self.address + num_bytes) for pointer, num_bytes in outputs]
        self._places.extend(place for place in places if place not in self._places)
        before, self._lay_unfilled = self._lay_unfilled, not all(self._was_filled(*place) for place in places)
        if before and self._lay_unfilled:
            growth = max(end for _, end in places) - self._spans[-1][0]
            self._ahead = max(self._ahead, min(2 * growth, OVERWRITTEN_BYTES))
        return self._lay_unfilled

    def _was_filled(self, low: int, high: int) -> bool:
        for start, end in self._filled:
            if start <= low:
                low = max(low, end)
        return low >= high

    def holds(self, pointer: int, num_bytes: int) -> bool:
        """Whether these bytes of the process lie where its last call could allocate them."""
        low = pointer - self.address
        return any(start + _HEAD_BYTES <= low and low + num_bytes <= end for start, end in self._spans)

    def at(self, pointer: int, num_bytes: int) -> torch.Tensor:
        """The memory itself at an address of the process that the region `holds` (uint8)."""
        offset = pointer - self.address
        return self._bytes[offset : offset + num_bytes]

    def _next_data(self, position: int, end: int) -> int | None:
        """The first byte at `position` or later, and before `end`, that has ever been touched."""
        if position >= end:
            return None
        try:
            data = os.lseek(self.fd, position, os.SEEK_DATA)
        except OSError as error:
            if error.errno != errno.ENXIO:
                raise
            return None
        return data if data < end else None


def sealed_memory(name: str, num_bytes: int) -> int:
    """Descriptor of shared memory of a size that nobody can change."""
    fd = os.memfd_create(name, os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    os.ftruncate(fd, num_bytes)
    fcntl.fcntl(fd, _F_ADD_SEALS, _SEALS)
    return fd


@contextmanager
def written_once(name: str) -> Iterator[tuple[BinaryIO, Callable[[], int]]]:
    """A file in memory, and what gives its descriptor once all is written: from then on nobody can write to it.

    A process that was given one to which it can write could map there what it has written, and execute it.
    """
    with open(os.memfd_create(name, os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING), "wb") as file:

        def seal() -> int:
            file.flush()
            fcntl.fcntl(file.fileno(), _F_ADD_SEALS, _SEALS | _SEAL_WRITE)
            return file.fileno()

        yield file, seal
