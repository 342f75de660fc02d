"""Loops as Triton kernels: one for each group of stages, each program of which takes a block of the shared loops.

Three shapes of kernel: rows (the shared loops down, what is left of each stage across, all in registers), a product
(blocks of a matrix, summed by `tl.dot`), and a walk (a running total, step by step).
"""

from __future__ import annotations

from dataclasses import dataclass

from kernelrl.data.teachers.template.expr import ONE, Expr
from kernelrl.data.teachers.template.loops import Buffer, Program, Stage, product
from kernelrl.data.teachers.template.module import length_text
from kernelrl.data.teachers.template.schedule import Accepts, Group, schedule, scratch_of
from kernelrl.data.teachers.template.tiles import dot_of, real_loops
from kernelrl.data.teachers.template.triton_functions import FUNCTIONS
from kernelrl.data.teachers.template.triton_fusion import ROW, fits_registers, row_of
from kernelrl.data.teachers.template.triton_text import TritonWriter, size_text

START = {"sum": "0.0", "prod": "1.0", "max": 'float("-inf")', "min": 'float("inf")', "logaddexp": 'float("-inf")'}
INTEGER_START = {"sum": "0", "prod": "1", "max": "-(2**62)", "min": "2**62"}


@dataclass(frozen=True)
class Blocks:
    """Sizes of blocks: elements of a program that works element by element, and the sides of a product's tile."""

    elements: int
    m: int
    n: int
    k: int


class Triton(TritonWriter):
    """Writes a program as Triton kernels and the calls that launch them.

    Args:
        program: the loops.
        fuse: let stages share a kernel.
        blocks: sizes of blocks.
    """

    def __init__(self, program: Program, fuse: bool, blocks: Blocks) -> None:
        super().__init__()
        self.program, self.blocks = program, blocks
        self.accepts: Accepts = fits_registers
        self.groups = schedule(program, fuse, lambda stage: len(stage.loops), self.accepts)
        self.scratch = scratch_of(program, self.groups)
        self.text = {buffer.name: buffer.text for buffer in program.inputs}
        self.launches: list[str] = []
        self.chosen: list[dict[str, object]] = []
        """Sizes of the blocks, kernel by kernel."""

    def source(self) -> str:
        """The kernels' text; afterwards `launches` holds the calls, in order."""
        kernels = []
        for number, group in enumerate(self.groups):
            self.lines, self.known, self.kept, self.group = [], {}, set(), group
            self.places, self.bounds = {}, {}
            kernels.append(self._kernel(group, f"kernel{number + 1}" if len(self.groups) > 1 else "kernel"))
        helpers = [FUNCTIONS[name] for name in FUNCTIONS if name in self.needed]
        return "\n\n".join([*helpers, *kernels])

    def _kernel(self, group: Group, name: str) -> str:
        first = group.stages[0]
        if first.kind == "scan":
            constants, grid = self._walk(first)
        elif dot_of(first):
            constants, grid = self._product(group)
        else:
            constants, grid = self._rows(group)
        self.chosen.append(constants)
        passed = self._buffers(group)
        sizes = [size for size in sorted(self.program.sizes) if any(size in line for line in self.lines)]
        arguments = [f"{buffer.name}_ptr" for buffer in passed] + sizes
        head = f"def {name}({', '.join([*arguments, *(f'{key}: tl.constexpr' for key in constants)])}):"
        texts = [self.text.get(buffer.name) or buffer.name for buffer in passed] + sizes
        given = [*texts, *(f"{key}={value}" for key, value in constants.items())]
        self.launches.append(f"{name}[({grid},)]({', '.join(given)})")
        comment = f"    # {group.title}"
        return "\n".join(["@triton.jit", head, comment, *self.lines, ""])

    def _buffers(self, group: Group) -> list[Buffer]:
        """What a kernel reads and writes in memory, each once."""
        found: dict[str, Buffer] = {}
        for stage in group.stages:
            for buffer, _ in [*stage.loads(), (stage.buffer, stage.at)]:
                if buffer.name not in group.local:
                    found.setdefault(buffer.name, buffer)
        return list(found.values())

    def _rows(self, group: Group) -> tuple[dict[str, object], str]:
        """Stages over a block of the shared loops, with what is left of each stage across."""
        depth = group.depth
        rows = [row for row in (real_loops(row_of(stage, depth)) for stage in group.stages) if row]
        if group.stages[0].kind in ("map", "scatter") and len(group.stages) == 1:
            depth, rows = len(group.stages[0].loops), []
        shared = group.stages[0].loops[:depth]
        if group.stages[0].kind == "scatter":
            shared = (*group.stages[0].loops, *group.stages[0].inner)
        total = product([n for _, n in shared])
        width = product([n for _, n in rows[0]]) if rows else ONE
        self._line(2, f"x = tl.program_id(0) * X + tl.arange(0, X){'[:, None]' if rows else ''}")
        self._locate(shared, "x", total)
        if width.value is None or width.value > ROW:
            return self._long_reduction(group, total, width)
        padded = 1
        if rows:
            padded = _power_of_two(width.value)
            self._line(2, "r = tl.arange(0, R)[None, :]")
        outer = dict(self.places)
        for stage in group.stages:
            row = real_loops(row_of(stage, group.depth)) if rows else ()
            self.places = dict(outer)
            self._locate(row, "r", width)
            self.known = {}
            value = self._print(stage.body, 2)
            if stage.kind == "reduce" and row:
                value = self._combined(stage, value, self.bounds["r"])
            self._write(stage, value, 2)
        height = max(1, self.blocks.elements // padded)
        if total.value is not None:
            height = min(height, _power_of_two(total.value))
        constants: dict[str, object] = {"X": height}
        if rows:
            constants["R"] = padded
        return constants, f"triton.cdiv({length_text(total)}, {height})"

    def _long_reduction(self, group: Group, total: Expr, width: Expr) -> tuple[dict[str, object], str]:
        """A reduction over more than a program can hold, chunk by chunk; then maps of its result."""
        stage = group.stages[0]
        if stage.op.startswith("arg") or stage.kind != "reduce":
            raise NotImplementedError("an index over a row that is longer than a block")
        start, kind = _start(stage)
        self._line(2, f"total = tl.full((X, R), {start}, {kind})")
        self._line(2, f"for start in range(0, {size_text(width)}, R):")
        self._line(4, "r = start + tl.arange(0, R)[None, :]")
        self._locate(real_loops(stage.inner), "r", width, 4)
        value = self._print(stage.body, 4)
        value = value if stage.body.kind == "float" else f"({value}).to(tl.int64)"
        steps = {"sum": "total + {0}", "prod": "total * {0}"}
        step = steps.get(stage.op, f"tl.{stage.op}imum(total, {{0}})")
        mask = f"({self.bounds['x']}) & ({self.bounds['r']})"
        self._line(4, f"total = {step.format(f'tl.where({mask}, {value}, {start})')}")
        self._write_all(group, self._combined(stage, "total", ""))
        height = 1 if total.value is None or total.value < 16 else 16
        length = max(64, self.blocks.elements // height)
        return {"X": height, "R": length}, f"triton.cdiv({length_text(total)}, {height})"

    def _write_all(self, group: Group, total: str) -> None:
        """The result of the group's first stage, then the maps of it."""
        first, *others = group.stages
        self.known = {}
        self._write(first, total, 2)
        for each in others:
            self.known = {}
            self._write(each, self._print(each.body, 2), 2)

    def _combined(self, stage: Stage, value: str, mask: str) -> str:
        """A reduction along the row, as a column."""
        start, _ = _start(stage)
        value = value if stage.body.kind == "float" else f"({value}).to(tl.int64)"
        inner = f"tl.where({mask}, {value}, {start})" if mask else value
        if stage.op == "prod":
            self.needed.add("multiply")
            return f"tl.reduce({inner}, 1, multiply)[:, None]"
        function = stage.op if stage.op.startswith("arg") or stage.op in ("sum", "max", "min") else None
        if function is None:
            raise NotImplementedError(f"reduction {stage.op}")
        return f"tl.{function}({inner}, axis=1)[:, None]"

    def _walk(self, stage: Stage) -> tuple[dict[str, object], str]:
        """A running total: step by step along one axis, a block of rows side by side."""
        total = product([n for _, n in stage.loops])
        self._line(2, "x = tl.program_id(0) * X + tl.arange(0, X)")
        self._locate(stage.loops, "x", total)
        exact = stage.op == "sum" and stage.body.kind == "float"
        start, kind = _start(stage)
        self._line(2, f"total = tl.full((X,), {start}, {'tl.float64' if exact else kind})")
        ((variable, length),) = stage.inner
        self._line(2, f"for step in range({size_text(length)}):")
        self.places[variable] = "step"
        value = self._print(stage.body, 4)
        match stage.op:
            case "sum" | "prod":
                self._line(4, f"total = total {'+' if stage.op == 'sum' else '*'} ({value})")
            case "logaddexp":
                self.needed.add("log1p")
                self._line(4, f"value = {value}")
                self._line(4, "high = tl.maximum(total, value)")
                self._line(4, "total = high + log1p(tl.exp(tl.minimum(total, value) - high))")
            case _:
                self._line(4, f"total = tl.{stage.op}imum(total, {value})")
        self._write(stage, "total.to(tl.float32)" if exact else "total", 4)
        height = min(self.blocks.elements, 1024)
        if total.value is not None:
            height = min(height, _power_of_two(total.value))
        return {"X": height}, f"triton.cdiv({length_text(total)}, {height})"

    def _product(self, group: Group) -> tuple[dict[str, object], str]:
        """A matrix product, as tiles of its result."""
        stage = group.stages[0]
        dot = dot_of(stage)
        assert dot is not None
        lengths = {name: product([n for _, n in loops]) for name, loops in vars(dot).items() if name not in "ab"}
        m, n, k, batch = (lengths[name] for name in ("m", "n", "k", "batch"))
        self._line(2, f"tiles = tl.cdiv({size_text(n)}, N)" if n != ONE else "tiles = 1")
        self._line(2, "column = tl.program_id(0) % tiles")
        self._line(2, f"row = tl.program_id(0) // tiles % tl.cdiv({size_text(m)}, M)")
        self._line(2, f"b = tl.program_id(0) // tiles // tl.cdiv({size_text(m)}, M)")
        self._line(2, "m = row * M + tl.arange(0, M)[:, None]")
        self._line(2, "n = column * N + tl.arange(0, N)[None, :]")
        self._locate(dot.batch, "b", None)
        self._locate(dot.m, "m", m)
        self._locate(dot.n, "n", n)
        self._line(2, "total = tl.zeros((M, N), tl.float32)")
        self._line(2, f"for start in range(0, {size_text(k)}, K):")
        outer = dict(self.places)
        tiles = []
        for name, (side, operand) in {"[None, :]": ("m", dot.a), "[:, None]": ("n", dot.b)}.items():
            short = f"k{side}"
            self._line(4, f"{short} = start + tl.arange(0, K){name}")
            self.places = dict(outer)
            self._locate(dot.k, short, k, 4)
            self.known = {}
            tiles.append(self._print(operand, 4))
        self._line(4, f'total = tl.dot({tiles[0]}, {tiles[1]}, total, input_precision="ieee")')
        self.places = outer
        self._write_all(group, "total")
        sides = [_side(length, most) for length, most in ((m, self.blocks.m), (n, self.blocks.n), (k, self.blocks.k))]
        grid = [f"triton.cdiv({length_text(m)}, {sides[0]})", f"triton.cdiv({length_text(n)}, {sides[1]})"]
        if batch != ONE:
            grid.append(length_text(batch))
        return dict(zip("MNK", sides, strict=True)), " * ".join(grid)


def _start(stage: Stage) -> tuple[str, str]:
    """What a reduction or scan begins with, and its type."""
    op = stage.op.removeprefix("arg")
    return (START[op], "tl.float32") if stage.body.kind == "float" else (INTEGER_START[op], "tl.int64")


def _power_of_two(value: int) -> int:
    return 1 << max(0, value - 1).bit_length()


def _side(length: Expr, most: int) -> int:
    """The side of a tile: a power of two, at least the 16 that `tl.dot` asks for."""
    return most if length.value is None else max(16, min(most, _power_of_two(length.value)))
