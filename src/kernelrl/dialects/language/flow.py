"""What a value may be: kinds, and how they flow through a program, in time linear in its length.

A value is two cells: the kinds that it may have itself, and the kinds of whatever it holds (at any depth, for lists in
lists). Assignments are edges between cells. What a value holds flows both ways, so that a list that is filled by one of
its names is full by the other.
"""

from __future__ import annotations

from collections import defaultdict
from enum import IntFlag
from typing import NamedTuple


class Kind(IntFlag):
    DATA = 1
    """A tensor, a number, text, a container, a dtype: nothing that runs code when it is called."""
    MAPPING = 2
    """A dictionary: going through it gives its keys."""
    LAYER = 4
    """An `nn.Module` of the library's: to call it is to let the library compute."""
    SEQUENCE = 8
    """An `nn.Sequential`: to call it is to call what it holds."""
    NATIVE = 16
    """A module compiled by `load_inline`, or a function of it."""
    KERNEL = 32
    """A Triton kernel."""
    OBJECT = 64
    """An instance of a class of this file."""
    CLASS = 128
    """A class of this file."""
    FUNCTION = 256
    """A function or method of this file, a lambda, a built-in function."""


NOTHING = Kind(0)
EVERYTHING = Kind(511)
CALLABLE = Kind.NATIVE | Kind.KERNEL | Kind.OBJECT | Kind.CLASS | Kind.FUNCTION | Kind.SEQUENCE


_Edge = tuple[int, Kind, Kind | None]
"""Target, the kinds that it carries, what it turns them into (None: they stay what they are)."""


class Value(NamedTuple):
    """The cells of a value: its own kinds, and those of what it holds."""

    own: int
    held: int


class Flow:
    """Cells that hold kinds, and edges that carry them. `kinds` of a cell is final after `settle`."""

    def __init__(self) -> None:
        self._kinds: list[Kind] = []
        self._edges: list[list[_Edge]] = []
        self._gates: defaultdict[int, list[tuple[Kind, Value, Value]]] = defaultdict(list)

    def value(self, own: Kind = NOTHING, held: Kind = NOTHING) -> Value:
        """A new value."""
        return Value(self._cell(own), self._cell(held))

    def data(self) -> Value:
        """A new value that is data and holds data."""
        return self.value(Kind.DATA, Kind.DATA)

    def _cell(self, kinds: Kind) -> int:
        self._kinds.append(kinds)
        self._edges.append([])
        return len(self._kinds) - 1

    def edge(self, source: int, target: int, only: Kind = EVERYTHING, as_: Kind | None = None) -> None:
        """Let those kinds of a cell that are in `only` flow to another, as they are or as `as_`."""
        self._edges[source].append((target, only, as_))

    def share(self, first: Value, second: Value) -> None:
        """Two values hold the same things."""
        if first.held != second.held:
            self.edge(first.held, second.held)
            self.edge(second.held, first.held)

    def assign(self, source: Value, target: Value, only: Kind = EVERYTHING) -> None:
        """`target` may be `source`."""
        self.edge(source.own, target.own, only)
        self.share(source, target)

    def assign_if(self, gate: Value, has: Kind, source: Value, target: Value) -> None:
        """`target` may be `source` if `gate` turns out to be of one of these kinds."""
        self._gates[gate.own].append((has, source, target))

    def put(self, source: Value, container: Value) -> None:
        """`container` may hold `source`."""
        self.edge(source.own, container.held)
        self.share(source, container)

    def element(self, container: Value) -> Value:
        """One of the things that a value holds."""
        value = Value(self._cell(NOTHING), container.held)
        self.edge(container.held, value.own)
        return value

    def iterated(self, container: Value) -> Value:
        """One of the things that a loop over a value meets: a key where that is a mapping."""
        value = self.element(container)
        self.edge(container.own, value.own, Kind.MAPPING, Kind.DATA)
        return value

    def settle(self) -> None:
        """Carry kinds along the edges until nothing changes: each edge at most once for each kind."""
        waiting = [cell for cell, kinds in enumerate(self._kinds) if kinds]
        while waiting:
            cell = waiting.pop()
            for source, edge in [*((cell, edge) for edge in self._edges[cell]), *self._opened(cell)]:
                target, only, as_ = edge
                carried = self._kinds[source] & only
                if carried and as_ is not None:
                    carried = as_
                if carried & ~self._kinds[target]:
                    self._kinds[target] |= carried
                    waiting.append(target)

    def _opened(self, cell: int) -> list[tuple[int, _Edge]]:
        """Make the edges whose condition now holds."""
        opened: list[tuple[int, _Edge]] = []
        for gate in self._gates.pop(cell, []):
            has, source, target = gate
            if not self._kinds[cell] & has:
                self._gates[cell].append(gate)
                continue
            for start, end in ((source.own, target.own), (source.held, target.held), (target.held, source.held)):
                edge = (end, EVERYTHING, None)
                self._edges[start].append(edge)
                opened.append((start, edge))
        return opened

    def kinds(self, cell: int) -> Kind:
        return self._kinds[cell]
