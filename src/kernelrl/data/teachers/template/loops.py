"""The loops that a kernel is made of: lazy tensors, buffers, and stages that fill buffers.

A tensor is a function from an index to a scalar expression, so that elementwise work and views cost nothing until they
are read. A stage is one loop nest that writes one buffer: a map, a reduction, a scan or a scatter.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from kernelrl.data.teachers.template.expr import HEAVY, ONE, ZERO, Expr, Kind, cast, const, index, walk

Shape = tuple[Expr, ...]
Index = tuple[Expr, ...]
KINDS: dict[str, Kind] = {
    "float32": "float",
    "float16": "float",
    "bfloat16": "float",
    "int64": "int",
    "int32": "int",
    "bool": "bool",
}
"""The dtypes that kernels are written for, and what they are computed in."""


@dataclass(frozen=True)
class Buffer:
    """Memory of a tensor, contiguous. The same name with another shape is the same memory.

    Attributes:
        text: how Python names it in `forward`, for inputs and parameters; empty for what the kernel allocates.
    """

    name: str
    shape: Shape
    dtype: str
    text: str = ""

    def load(self, at: Index) -> Expr:
        return Expr("load", (self, *at), KINDS[self.dtype])

    def masked_load(self, at: Index, mask: Expr, other: float) -> Expr:
        """An element, or `other` where the mask is false and the index may be outside."""
        return Expr("masked_load", (self, mask, cast(const(other), KINDS[self.dtype]), *at), KINDS[self.dtype])

    @property
    def strides(self) -> Shape:
        steps = [ONE]
        for length in reversed(self.shape[1:]):
            steps.append(length * steps[-1])
        return tuple(reversed(steps[: len(self.shape)]))


@dataclass
class Tensor:
    """A value of the program, not computed before it is read."""

    shape: Shape
    dtype: str
    read: Callable[[Index], Expr]
    buffer: Buffer | None = None
    """Where it is as it is; None: nowhere yet, or not in this order."""

    @property
    def kind(self) -> Kind:
        return KINDS[self.dtype]

    def at(self, where: Index) -> Expr:
        """The element at an index of a shape that this one broadcasts to."""
        own = where[len(where) - len(self.shape) :]
        return self.read(tuple(ZERO if n == ONE else i for n, i in zip(self.shape, own, strict=True)))


@dataclass(frozen=True)
class Stage:
    """One loop nest.

    Attributes:
        kind: `map`: write `body` at every index of `loops`. `reduce`: combine `body` over `inner`. `scan`: write what
            has been combined so far at every index. `scatter`: combine `body` into what is there.
        op: `sum`, `prod`, `max`, `min`, `argmax`, `argmin` or `logaddexp`; empty for a map.
        loops: index and length of each parallel loop, outermost first. Of a scatter all but the last may collide.
        inner: the same for the loops of a reduction or scan.
        at: where in the buffer it is written.
        origin: the operator of the graph that it comes from.
        names: the operators whose work it does, those included that nobody had written down yet; for reasoning.
    """

    kind: Literal["map", "reduce", "scan", "scatter"]
    buffer: Buffer
    loops: tuple[tuple[Expr, Expr], ...]
    body: Expr
    at: Index
    inner: tuple[tuple[Expr, Expr], ...] = ()
    op: str = ""
    origin: str = ""
    names: tuple[str, ...] = ()

    @property
    def lengths(self) -> Shape:
        return tuple(length for _, length in self.loops)

    def loads(self) -> list[tuple[Buffer, Index]]:
        """Every read of a buffer, with its index."""
        found = []
        for root in (self.body, *self.at):
            for node in walk(root):
                if node.op in ("load", "masked_load"):
                    buffer = node.args[0]
                    assert isinstance(buffer, Buffer)
                    found.append((buffer, node.operands[2 if node.op == "masked_load" else 0 :]))
        return found


@dataclass
class Program:
    """Stages in the order in which they run, and the buffers around them."""

    inputs: list[Buffer] = field(default_factory=list)
    outputs: list[Buffer] = field(default_factory=list)
    stages: list[Stage] = field(default_factory=list)
    sizes: dict[str, str] = field(default_factory=dict)
    """Lengths that are known when the kernel runs only: name -> Python expression."""
    shown: dict[str, int] = field(default_factory=dict)
    """What they are in the task as it stands."""
    pack: bool = False
    """Copy the second operand of a product to where its rows are contiguous."""
    origin: str = ""
    """The operator that is being lowered."""
    names: tuple[str, ...] = ()
    """It, and the operators before it whose work is done where it reads them."""
    _number: int = 0

    def allocate(self, shape: Shape, dtype: str) -> Buffer:
        self._number += 1
        return Buffer(f"t{self._number}", shape, "float32" if KINDS[dtype] == "float" else dtype)

    def realise(self, tensor: Tensor) -> Tensor:
        """The same tensor in memory."""
        if tensor.buffer is None:
            buffer = self.allocate(tensor.shape, tensor.dtype)
            self.write(buffer, tensor)
            tensor.buffer = buffer
            tensor.read = buffer.load
        return tensor

    def write(self, buffer: Buffer, tensor: Tensor, offset: Index | None = None) -> None:
        """Compute a tensor into a buffer, shifted by an offset."""
        loops = make_loops(tensor.shape)
        own = tuple(i for i, _ in loops)
        at = own if offset is None else tuple(i + o for i, o in zip(own, offset, strict=True))
        self.add(Stage("map", buffer, loops, cast(tensor.read(own), KINDS[buffer.dtype]), at))

    def reduce(self, op: str, shape: Shape, inner: Shape, body: Callable[[Index, Index], Expr]) -> Tensor:
        """A tensor of `shape` whose elements combine `body(index, inner index)` over all inner indices."""
        loops, inner_loops = make_loops(shape), make_loops(inner, "r")
        own = tuple(i for i, _ in loops)
        expression = body(own, tuple(i for i, _ in inner_loops))
        dtype = "int64" if op.startswith("arg") or expression.kind != "float" else "float32"
        if expression.kind == "bool":
            expression = cast(expression, "int")
        buffer = self.allocate(shape, dtype)
        self.add(Stage("reduce", buffer, loops, expression, own, inner_loops, op))
        return stored(buffer)

    def scan(self, op: str, tensor: Tensor, dim: int) -> Tensor:
        """Combine along a dimension, keeping every step."""
        buffer = self.allocate(tensor.shape, tensor.dtype)
        outer = make_loops((*tensor.shape[:dim], *tensor.shape[dim + 1 :]))
        inner = make_loops(tensor.shape[dim : dim + 1], "r")
        before = [i for i, _ in outer]
        at = (*before[:dim], inner[0][0], *before[dim:])
        self.add(Stage("scan", buffer, outer, tensor.read(at), at, inner, op))
        return stored(buffer)

    def add(self, stage: Stage) -> None:
        self.stages.append(replace(stage, origin=self.origin, names=self.names))

    def retype(self, name: str, dtype: str) -> None:
        """Change the dtype of a buffer that no stage reads."""
        self.stages = [
            replace(stage, buffer=replace(stage.buffer, dtype=dtype)) if stage.buffer.name == name else stage
            for stage in self.stages
        ]


def stored(buffer: Buffer) -> Tensor:
    return Tensor(buffer.shape, buffer.dtype, buffer.load, buffer)


def make_loops(shape: Sequence[Expr], prefix: str = "i") -> tuple[tuple[Expr, Expr], ...]:
    return tuple((ZERO if n == ONE else index(f"{prefix}{axis}"), n) for axis, n in enumerate(shape))


def is_heavy(expression: Expr) -> bool:
    """Whether an element costs more to compute again than to keep."""
    return any(node.op in HEAVY for node in walk(expression))


def product(lengths: Sequence[Expr]) -> Expr:
    total = ONE
    for length in lengths:
        total = length * total
    return total
