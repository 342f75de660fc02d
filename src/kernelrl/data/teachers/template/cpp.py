"""Loops as C++ with OpenMP."""

from __future__ import annotations

from kernelrl.data.teachers.template.cpp_text import TANH, CppWriter, type_of
from kernelrl.data.teachers.template.expr import ONE
from kernelrl.data.teachers.template.loops import Buffer, Program, Stage, product
from kernelrl.data.teachers.template.schedule import Accepts, Group, schedule, scratch_of, sums_in_double
from kernelrl.data.teachers.template.tiles import block_of, stride_of

ON_STACK = 16_384
"""Elements of a row that is kept on the stack."""
START = {"sum": "0", "prod": "1", "max": "-INFINITY", "min": "INFINITY", "logaddexp": "-INFINITY"}
INTEGER_START = {"sum": "0", "prod": "1", "max": "INT64_MIN", "min": "INT64_MAX"}
BFLOAT16 = """\
static inline float widen(uint16_t bits) {
  const uint32_t wide = static_cast<uint32_t>(bits) << 16;
  float value;
  std::memcpy(&value, &wide, sizeof value);
  return value;
}
static inline uint16_t narrow(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, sizeof bits);
  if (value != value) return 0x7fc0;
  return static_cast<uint16_t>((bits + 0x7fff + ((bits >> 16) & 1)) >> 16);
}
"""


class Cpp(CppWriter):
    """Writes a program as one C++ function, `kernel`.

    Args:
        program: the loops.
        fuse: share outer loops between stages.
        tile: keep blocks of sums in registers and vectorise along contiguous axes.
    """

    def __init__(self, program: Program, fuse: bool, tile: bool) -> None:
        super().__init__(vector_math=tile)
        self.program, self.tile = program, tile
        self.accepts: Accepts = lambda group, stage, depth: True
        self.groups = schedule(program, fuse, self._first_depth, self.accepts)
        self.scratch = scratch_of(program, self.groups)
        self.sizes = sorted(program.sizes)

    def source(self) -> str:
        """The C++ text."""
        buffers = [*self.program.inputs, *self.scratch, *self.program.outputs]
        written = {stage.buffer.name for stage in self.program.stages}
        for group in self.groups:
            self._group(group)
        arguments = [f"tvm::ffi::TensorView {buffer.name}_" for buffer in buffers]
        arguments += [f"int64_t {name}" for name in self.sizes]
        pointers = []
        for buffer in buffers:
            kind = ("" if buffer.name in written else "const ") + type_of(buffer)
            pointers.append(f"  {kind}* {buffer.name} = static_cast<{kind}*>({buffer.name}_.data_ptr());")
        helpers = BFLOAT16 if any(buffer.dtype == "bfloat16" for buffer in buffers) else ""
        helpers += TANH if "tanh" in self.needed else ""
        includes = "".join(f"#include <{name}>\n" for name in ("algorithm", "cmath", "cstring", "memory"))
        head = f"void kernel({', '.join(arguments)}) {{"
        return "\n".join([includes + helpers + head, *pointers, *self.lines, "}", ""])

    def _first_depth(self, stage: Stage) -> int:
        return len(stage.loops) - 1 if self._is_tiled(stage) else len(stage.loops)

    def _is_tiled(self, stage: Stage) -> bool:
        """Whether a reduction's innermost parallel loop runs along contiguous memory in every operand."""
        if not self.tile or stage.kind != "reduce" or len(stage.loops) < 2 or stage.op.startswith("arg"):
            return False
        variable, length = stage.loops[-1]
        return length.value != 1 and all(stride_of(at, buffer, variable) in (0, 1) for buffer, at in stage.loads())

    def _group(self, group: Group) -> None:
        self.local = {stage.buffer.name: group.depth for stage in group.stages if stage.buffer.name in group.local}
        self._line(1, f"// {group.title}")
        if not group.depth:
            self._declare_local(group, 1)
            for stage in group.stages:
                self._stage(stage, 0, 1, parallel=True)
            return
        flat = all(stage.kind == "map" and len(stage.loops) == group.depth for stage in group.stages)
        simd = self.tile and flat
        indent = self._open(group.loops, 1, _collapse(group, simd), simd)
        self._declare_local(group, indent)
        for stage in group.stages:
            self._stage(stage, group.depth, indent)
        self._close(1, indent)

    def _declare_local(self, group: Group, indent: int) -> None:
        buffers = {stage.buffer.name: stage.buffer for stage in group.stages}
        for name in self.local:
            self._declare(buffers[name], group.depth, indent)

    def _declare(self, buffer: Buffer, depth: int, indent: int) -> None:
        count = product(buffer.shape[depth:])
        kind, name = type_of(buffer), buffer.name
        if count == ONE:
            self._line(indent, f"{kind} {name};")
        elif count.value is not None and count.value <= ON_STACK:
            self._line(indent, f"{kind} {name}[{count.value}];")
        else:
            number = self._print(count, indent)
            self._line(indent, f"std::unique_ptr<{kind}[]> {name}(new {kind}[{number}]);")

    def _stage(self, stage: Stage, depth: int, indent: int, parallel: bool = False) -> None:
        """The loops of a stage below those that its group shares."""
        if self._is_tiled(stage) and depth < len(stage.loops):
            return self._tiled(stage, depth, indent)
        rest = stage.loops[depth:]
        inner = self._open(rest, indent, simd=self.tile and stage.kind == "map")
        self.known = {}
        if stage.kind == "map":
            self._store(stage, self._print(stage.body, inner), inner)
        elif stage.kind == "scatter":
            below = self._open(stage.inner, inner)
            value = self._print(stage.body, below)
            self._line(below, f"{self._place(stage.buffer, stage.at, below)} += {value};")
            self._close(inner, below)
        else:
            self._accumulate(stage, inner, parallel)
        self._close(indent, inner)

    def _accumulate(self, stage: Stage, indent: int, parallel: bool) -> None:
        """A reduction or scan over the inner loops."""
        name = f"a_{stage.buffer.name}"
        kind = self._accumulator(stage)
        arg = stage.op.startswith("arg")
        op = stage.op.removeprefix("arg")
        self._line(indent, f"{kind} {name} = {(INTEGER_START if kind == 'int64_t' else START)[op]};")
        if arg:
            self._line(indent, f"int64_t {name}_at = 0;")
        clauses = {"sum": "+", "prod": "*", "max": "max", "min": "min"}
        pragma = ""
        if stage.kind == "reduce" and not arg and op in clauses:
            if parallel:
                count = sum(length != ONE for _, length in stage.inner)
                collapse = f" collapse({count})" if count > 1 else ""
                pragma = f"#pragma omp parallel for{collapse} reduction({clauses[op]} : {name})"
            elif self.tile and len([1 for _, length in stage.inner if length != ONE]) == 1:
                pragma = f"#pragma omp simd reduction({clauses[op]} : {name})"
        if pragma:
            self._line(indent, pragma)
        below = self._open(stage.inner, indent)
        value = self._print(stage.body, below)
        if arg:
            sign = ">" if op == "max" else "<"
            place = self._print(stage.inner[0][0], below)
            step = f"if ({value} {sign} {name}) {{ {name} = {value}; {name}_at = {place}; }}"
        else:
            step = combine(op, name, value, kind)
        self._line(below, step)
        if stage.kind == "scan":
            self._store(stage, name, below)
        self._close(indent, below)
        if stage.kind == "reduce":
            self._store(stage, f"{name}_at" if arg else name, indent)

    def _tiled(self, stage: Stage, depth: int, indent: int) -> None:
        """A block of neighbouring sums at once, each vector lane one of them."""
        at = self._open(stage.loops[depth:-1], indent)
        variable, length = stage.loops[-1]
        name, column = f"a_{stage.buffer.name}", str(variable.args[0])
        block = block_of(length)
        total = self._print(length, at)
        whole = length.value is not None and length.value % block == 0
        self._line(at, f"for (int64_t {column}0 = 0; {column}0 < {total}; {column}0 += {block}) {{")
        bound = str(block)
        if not whole:
            bound = "n"
            self._line(at + 1, f"const int64_t n = std::min<int64_t>({block}, {total} - {column}0);")
        kind = self._accumulator(stage)
        self._line(at + 1, f"{kind} {name}[{block}];")
        start = (INTEGER_START if kind == "int64_t" else START)[stage.op]
        self._line(at + 1, f"for (int64_t l = 0; l < {block}; ++l) {name}[l] = {start};")
        below = self._open(stage.inner, at + 1)
        lanes = f"for (int64_t l = 0; l < {bound}; ++l) {{"
        self._line(below, "#pragma omp simd")
        self._line(below, lanes)
        self._line(below + 1, f"const int64_t {column} = {column}0 + l;")
        self.known = {}
        self._line(below + 1, combine(stage.op, f"{name}[l]", self._print(stage.body, below + 1), kind))
        self._line(below, "}")
        self._close(at + 1, below)
        self._line(at + 1, lanes)
        self._line(at + 2, f"const int64_t {column} = {column}0 + l;")
        self.known = {}
        self._store(stage, f"{name}[l]", at + 2)
        self._line(at + 1, "}")
        self._line(at, "}")
        self._close(indent, at)

    def _accumulator(self, stage: Stage) -> str:
        if stage.body.kind != "float":
            return "int64_t"
        return "double" if sums_in_double(stage) else "float"

    def _store(self, stage: Stage, value: str, indent: int) -> None:
        if stage.buffer.dtype == "bfloat16":
            value = f"narrow({value})"
        self._line(indent, f"{self._place(stage.buffer, stage.at, indent)} = {value};")


def combine(op: str, total: str, value: str, kind: str) -> str:
    """The statement that takes a value into a total."""
    match op:
        case "sum":
            return f"{total} += {value};"
        case "prod":
            return f"{total} *= {value};"
        case "logaddexp":
            return (
                f"{total} = std::isinf({total}) ? {value} : std::max({total}, {value}) + "
                f"std::log1p(std::exp(-std::abs({total} - ({value}))));"
            )
        case _:
            return f"{total} = std::{op}<{kind}>({total}, {value});"


def _collapse(group: Group, simd: bool) -> int:
    """How many loops run in parallel: as few as give every core something to do, the vectorised one left out."""
    lengths = [length for _, length in group.loops if length != ONE]
    most = len(lengths) - 1 if simd and len(lengths) > 1 else len(lengths)
    total = ONE
    for number in range(1, most + 1):
        total = lengths[number - 1] * total
        if total.value is None or total.value >= 64:
            return number
    return most
