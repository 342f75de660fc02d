"""Expressions, indices and stores as Triton writes them."""

from __future__ import annotations

from collections.abc import Sequence
from math import isfinite

from kernelrl.data.teachers.template.expr import ONE, Expr, walk
from kernelrl.data.teachers.template.loops import Buffer, Stage
from kernelrl.data.teachers.template.module import length_text
from kernelrl.data.teachers.template.schedule import Group
from kernelrl.data.teachers.template.tiles import real_loops
from kernelrl.data.teachers.template.triton_functions import FUNCTIONS
from kernelrl.data.teachers.template.writer import Writer, flat, unwrapped

OPERATORS = dict(add="+", sub="-", mul="*", div="/", floordiv="//", mod="%", lt="<", le="<=", gt=">", ge=">=", eq="==")
OPERATORS |= {"ne": "!=", "and": "&", "or": "|"}
IN_LANGUAGE = "exp exp2 log sqrt rsqrt sin cos erf floor abs sigmoid".split()


class TritonWriter(Writer):
    """The text of a kernel, for blocks whose axes have a position each (`x` down, `r` across, and so on)."""

    long_text = 40

    def __init__(self) -> None:
        super().__init__()
        self.needed: set[str] = set()
        """Helpers that the kernels call."""
        self.places: dict[Expr, str] = {}
        """Index of each loop, as the kernel writes it."""
        self.bounds: dict[str, str] = {}
        """What keeps each axis of the block inside, by its position."""
        self.kept: set[str] = set()
        """Buffers whose values this kernel has in registers."""
        self.group = Group([], 0)

    def _locate(self, loops: Sequence[tuple[Expr, Expr]], position: str, total: Expr | None, indent: int = 2) -> None:
        """The index of each loop from the position in all of them; `total` bounds it where positions are padded."""
        if total is not None:
            self.bounds[position] = f"{position} < {size_text(total)}"
        step = ONE
        for number, (variable, length) in reversed(list(enumerate(real_loops(loops)))):
            text = position if step == ONE else f"{position} // {length_text(step)}"
            if number:
                text = f"{text} % {length_text(length)}"
            if text == position:
                self.places[variable] = position
            else:
                self._line(indent, f"{position}{number} = {text}")
                self.places[variable] = f"{position}{number}"
            step = length * step

    def _mask(self, roots: Sequence[Expr]) -> str:
        """What keeps the axes that expressions vary along inside; empty where they are the same for a program."""
        names = {self.places[node] for root in roots for node in walk(root) if node.op == "index"}
        axes = [axis for axis in self.bounds if any(name.rstrip("0123456789") == axis for name in names)]
        bounds = [self.bounds[axis] for axis in axes]
        return bounds[0] if len(bounds) == 1 else " & ".join(f"({bound})" for bound in bounds)

    def _write(self, stage: Stage, value: str, indent: int) -> None:
        """Keep a value, store it, or both where a later stage of the kernel reads it."""
        name = stage.buffer.name
        read = {buffer.name for each in self.group.stages for buffer, _ in each.loads()}
        if name in read:
            self.kept.add(name)
            self._line(indent, f"{name} = {value}")
            value = name
        if name in self.group.local:
            return
        place = f"{name}_ptr + {self._print(flat(stage.buffer.shape, stage.at), indent)}"
        mask = self._mask(stage.at)
        if not mask:  # a single element, in a block of one
            place, mask = f"{name}_ptr + x", self.bounds["x"]
        if stage.kind == "scatter":
            own = self._mask([i for i, _ in (*stage.loops, *stage.inner)])
            self._line(indent, f"tl.atomic_add({place}, {value}, mask={own})")
        else:
            self._line(indent, f"tl.store({place}, {value}, mask={mask})")

    def _let(self, name: str, text: str) -> str:
        return f"{name} = {text}"

    def _node(self, node: Expr, parts: list[str], indent: int) -> str:
        match node.op:
            case "const":
                return _constant(node)
            case "size":
                return str(node.args[0])
            case "index":
                return self.places[node]
            case "load" | "masked_load":
                return self._load(node, parts, indent)
            case "where":
                return f"tl.where({', '.join(map(unwrapped, parts))})"
            case "max" | "min":
                return f"tl.{node.op}imum({', '.join(map(unwrapped, parts))})"
            case "neg":
                return f"(-{parts[0]})"
            case "not":
                return f"({parts[0]} == 0)"
            case "cast":
                return self._cast(node, parts[0])
            case function if function in IN_LANGUAGE:
                return f"tl.{function}({unwrapped(parts[0])})"
            case function if function in FUNCTIONS:
                self.needed.add(function)
                return f"{function}({unwrapped(parts[0])})"
            case operator:
                return f"({parts[0]} {OPERATORS[operator]} {parts[1]})"

    def _load(self, node: Expr, parts: list[str], indent: int) -> str:
        buffer = node.args[0]
        assert isinstance(buffer, Buffer)
        if buffer.name in self.kept:
            return buffer.name
        masked = node.op == "masked_load"
        at = node.operands[2 if masked else 0 :]
        position = self._print(flat(buffer.shape, at), indent)
        mask = self._mask(at)
        if masked:
            mask = f"({mask}) & ({parts[0]})" if mask else parts[0]
        other = parts[1] if masked else "0"
        inside = f", mask={mask}, other={other}" if mask else ""
        text = f"tl.load({buffer.name}_ptr + {position}{inside})"
        return f"{text}.to(tl.float32)" if buffer.dtype in ("float16", "bfloat16") else text

    def _cast(self, node: Expr, text: str) -> str:
        (source,) = node.operands
        match source.kind, node.kind:
            case "int", "float":
                return f"({text} * 1.0)"
            case "bool", "float":
                return f"tl.where({unwrapped(text)}, 1.0, 0.0)"
            case "bool", "int":
                return f"tl.where({unwrapped(text)}, 1, 0)"
            case _, "bool":
                return f"({text} != 0)"
        return f"{text}.to(tl.int32)"


def size_text(length: Expr) -> str:
    """A length, alone."""
    return unwrapped(length_text(length))


def _constant(node: Expr) -> str:
    value = node.args[0]
    if isinstance(value, float) and not isfinite(value):
        return f'float("{value}")'
    return str(value) if isinstance(value, bool) or float(str(value)) >= 0 else f"({value!r})"
