"""Memory that a batch of Triton programs reads and writes, so that it can be undone."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np


class Apart(Exception):
    """These programs cannot run as one batch."""


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
class BatchMemory:
    """What a batch reads and writes, so that it can be undone.

    One operation does its work for all programs before the next does any. That is what the programs would do one after
    the other if none touches what another one writes.
    """

    num_programs: int
    at_once: bool
    """They run so even where they touch what another one writes."""
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

    def take_back(self) -> list[tuple[np.ndarray, Any, np.ndarray]]:
        """Leave memory as it was, and give what was written."""
        written = [(memory, where, memory[where].copy()) for memory, where, _ in self.old]
        self.undo()
        return written

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
            raise Apart
        where >>= size.bit_length() - 1
        return _Access(pointers, mask, low, high, size), _memory(low, high, dtype), where

    def _note(self, access: _Access, among: list[_Access], against: list[_Access]) -> None:
        """Keep an access in mind that follows others.

        Raises:
            Apart: programs may touch what another one writes.
        """
        for earlier in () if self.at_once else against:
            if access.low < earlier.high and earlier.low < access.high and not self._each_its_own(access, earlier):
                raise Apart
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
