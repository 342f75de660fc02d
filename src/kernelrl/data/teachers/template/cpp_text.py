"""Expressions, places and loops as C++ writes them."""

from __future__ import annotations

from collections.abc import Sequence
from math import isinf, isnan

from kernelrl.data.teachers.template.expr import ONE, Expr
from kernelrl.data.teachers.template.loops import Buffer, product
from kernelrl.data.teachers.template.writer import Writer, flat, unwrapped

TYPES = {"float32": "float", "float16": "_Float16", "bfloat16": "uint16_t", "int64": "int64_t", "int32": "int32_t"}
OPERATORS = dict(add="+", sub="-", mul="*", div="/", floordiv="/", mod="%", lt="<", le="<=", gt=">", ge=">=", eq="==")
OPERATORS |= {"ne": "!=", "and": "&&", "or": "||"}
FUNCTIONS = "exp exp2 expm1 log log1p sqrt sin cos atan erf tanh floor abs".split()
TANH = """\
static inline float tanh_near_zero_too(float x) {
  const float s = x * x;
  const float near = x * (1.0f - s * (0.33333333f - s * (0.13333333f - s * (0.05396825f - s * 0.02186949f))));
  return s < 0.09f ? near : std::tanh(x);
}
"""


class CppWriter(Writer):
    """The text of a function."""

    def __init__(self, vector_math: bool) -> None:
        super().__init__()
        self.vector_math = vector_math
        """glibc's vectorised functions are used, which err by a few units in the last place."""
        self.needed: set[str] = set()
        """Helpers that the function calls."""
        self.local: dict[str, int] = {}
        """Buffers that live within an iteration of the loop nest being written, and the number of loops around them."""

    def _place(self, buffer: Buffer, at: Sequence[Expr], indent: int) -> str:
        if buffer.name in self.local:
            depth = self.local[buffer.name]
            if product(buffer.shape[depth:]) == ONE:
                return buffer.name
            return f"{buffer.name}[{self._print(flat(buffer.shape[depth:], at[depth:]), indent)}]"
        return f"{buffer.name}[{self._print(flat(buffer.shape, at), indent)}]"

    def _let(self, name: str, text: str) -> str:
        return f"const float {name} = {text};"

    def _node(self, node: Expr, parts: list[str], indent: int) -> str:
        match node.op:
            case "const":
                return _constant(node)
            case "size" | "index":
                return str(node.args[0])
            case "load" | "masked_load":
                buffer = node.args[0]
                assert isinstance(buffer, Buffer)
                masked = node.op == "masked_load"
                place = self._place(buffer, node.operands[2 if masked else 0 :], indent)
                if buffer.dtype == "bfloat16":
                    place = f"widen({place})"
                elif buffer.dtype == "float16":
                    place = f"static_cast<float>({place})"
                return f"({parts[0]} ? {place} : {parts[1]})" if masked else place
            case "where":
                return f"({parts[0]} ? {parts[1]} : {parts[2]})"
            case "max" | "min":
                kind = "" if node.kind == "float" else "<int64_t>"
                return f"std::{node.op}{kind}({', '.join(map(unwrapped, parts))})"
            case "neg":
                return f"(-{parts[0]})"
            case "not":
                return f"(!{parts[0]})"
            case "cast":
                types = {"float": "float", "int": "int64_t", "bool": "bool"}
                return f"static_cast<{types[node.kind]}>({unwrapped(parts[0])})"
            case "sigmoid":
                return f"(1.0f / (1.0f + std::exp(-{parts[0]})))"
            case "rsqrt":
                return f"(1.0f / std::sqrt({unwrapped(parts[0])}))"
            case "tanh" if self.vector_math:
                self.needed.add("tanh")
                return f"tanh_near_zero_too({unwrapped(parts[0])})"
            case function if function in FUNCTIONS:
                return f"std::{function}({unwrapped(parts[0])})"
            case operator:
                return f"({parts[0]} {OPERATORS[operator]} {parts[1]})"

    def _open(self, loops: Sequence[tuple[Expr, Expr]], indent: int, collapse: int = 0, simd: bool = False) -> int:
        """Writes the heads of loops; returns the indent of what stands in them."""
        real = [(str(i.args[0]), length) for i, length in loops if length != ONE]
        if collapse and real:
            self._line(indent, "#pragma omp parallel for" + (f" collapse({collapse})" if collapse > 1 else ""))
        for number, (name, length) in enumerate(real):
            if simd and number == len(real) - 1 and not (collapse and number == 0):
                self._line(indent + number, "#pragma omp simd")
            self.known = {}
            bound = self._print(length, indent + number)
            self._line(indent + number, f"for (int64_t {name} = 0; {name} < {bound}; ++{name}) {{")
        return indent + len(real)

    def _close(self, outer: int, inner: int) -> None:
        for indent in range(inner - 1, outer - 1, -1):
            self._line(indent, "}")


def type_of(buffer: Buffer) -> str:
    """The C++ type of a buffer's elements."""
    return TYPES.get(buffer.dtype, buffer.dtype)


def _constant(node: Expr) -> str:
    value = node.args[0]
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int):
        return str(value)
    assert isinstance(value, float)
    if isnan(value):
        return "NAN"
    if isinf(value):
        return "INFINITY" if value > 0 else "(-INFINITY)"
    return f"{value!r}f" if value >= 0 else f"({value!r}f)"
