"""What Inductor leaves to libraries, as functions of the candidate's C++ module."""

from __future__ import annotations

import ast
from collections.abc import Callable

from kernelrl.data.teachers.inductor.capture import NotConvertible
from kernelrl.data.teachers.inductor.library import Call, Library, Number, triple

TYPES = {
    "float64": "double",
    "float32": "float",
    "float16": "half",
    "bfloat16": "bfloat16",
    "int64": "int64_t",
    "int32": "int32_t",
    "int16": "int16_t",
    "int8": "int8_t",
    "uint8": "uint8_t",
    "bool": "bool",
}


class CppLibrary(Library):
    """The functions of the candidate's module that stand in for library kernels."""

    def __init__(self) -> None:
        self.reasons = REASONS
        self._names: dict[tuple[str, str], str] = {}

    @property
    def functions(self) -> dict[str, str]:
        return {
            name: f"\nvoid {name}({parameters}) {{\n  {body};\n}}\n" for (parameters, body), name in self._names.items()
        }

    def launch(self, call: Call) -> str:
        types = {*call.dtypes.values()}
        if call.operator not in BODIES or not types <= TYPES.keys():
            raise NotConvertible(f"extern kernel: {call.operator}")
        names = [*call.tensors, *call.outputs]
        parameters = ", ".join(f"TensorView {name}" for name in names)
        body = BODIES[call.operator](call)
        key = (parameters, body)
        if key not in self._names:
            number = sum(name.startswith(call.operator) for name in self._names.values())
            self._names[key] = f"{call.operator}_{number}" if number else call.operator
        arguments = ", ".join([*call.tensors.values(), *call.outputs.values()])
        return f"module.{self._names[key]}({arguments})"


def _product(call: Call) -> str:
    kind = TYPES[call.dtypes["out"]]
    if "bias" not in call.tensors:
        return f"multiply<{kind}>(a, b, out)"
    alpha, beta = call.number("alpha", 1), call.number("beta", 1)
    return f"multiply<{kind}>(a, b, out, &bias, {alpha}, {beta})"


def _convolution(call: Call) -> str:
    kind, groups = TYPES[call.dtypes["out"]], call.options["groups"]
    size = ast.literal_eval(call.sizes["weight"])
    filters = size[1] if call.options["transposed"] else size[0] // groups
    channels = 4 if filters >= 4 else 1
    axes = [triple(call.options["stride"], 1), triple(call.options["padding"], 0), triple(call.options["dilation"], 1)]
    listed = ", ".join("{" + ", ".join(map(str, axis)) + "}" for axis in axes)
    bias = "&bias" if "bias" in call.tensors else "nullptr"
    transposed = str(call.options["transposed"]).lower()
    return f"convolve<{kind}, {channels}>(x, weight, {bias}, out, {listed}, {groups}, {transposed})"


def _running(operation: str) -> Callable[[Call], str]:
    def body(call: Call) -> str:
        given, made = TYPES[call.dtypes["x"]], TYPES[call.dtypes["out"]]
        return f"scan<{given}, {made}>(x, out, {call.number('dim', 0)}, {operation}<{made}>)"

    return body


def _extreme(better: str) -> Callable[[Call], str]:
    def body(call: Call) -> str:
        dim: Number = call.number("dim", 0)
        found = "&indices" if "indices" in call.outputs else "nullptr"
        values = "&values" if "values" in call.outputs else "nullptr"
        return f"extreme<{TYPES[call.dtypes['x']]}, {better}>(x, {values}, {found}, {dim})"

    return body


BODIES: dict[str, Callable[[Call], str]] = {
    "mm": _product,
    "bmm": _product,
    "addmm": _product,
    "baddbmm": _product,
    "convolution": _convolution,
    "cumsum": _running("add"),
    "cumprod": _running("times"),
    "logcumsumexp": _running("add_exponentials"),
    "cummax": _extreme("true"),
    "cummin": _extreme("false"),
}
"""By operator: the body of its function."""

_PRODUCT = (
    "every element is used many times, so the second operand is packed into panels of 16 columns and blocks of 4 x 16 "
    "sums stay in registers while a panel streams past"
)
_RUNNING = (
    "each line is one chain of dependent steps, so lines run in parallel and a line does not; it adds up in double"
)
_EXTREME = "each line is one chain of comparisons, so lines run in parallel and a line does not; a NaN stays"
REASONS: dict[str, str] = {
    **dict.fromkeys(("mm", "bmm", "addmm", "baddbmm"), _PRODUCT),
    "convolution": (
        "the input is padded and packed first, so that the inner loops test no border; blocks of channels x 16 "
        "columns of sums stay in registers while the window moves over all input channels"
    ),
    **dict.fromkeys(("cumsum", "cumprod", "logcumsumexp"), _RUNNING),
    **dict.fromkeys(("cummax", "cummin"), _EXTREME),
}
