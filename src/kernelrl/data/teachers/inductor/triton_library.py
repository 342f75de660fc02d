"""What Inductor leaves to libraries, as functions of the candidate that launch its Triton kernels."""

from __future__ import annotations

import re

from kernelrl.data.teachers.inductor.capture import NotConvertible
from kernelrl.data.teachers.inductor.library import Call, Library, triple
from kernelrl.data.teachers.inductor.triton_kernels import FUNCTIONS

FLOATS = frozenset({"float16", "bfloat16", "float32"})


class TritonLibrary(Library):
    """The functions of a candidate that stand in for library kernels."""

    def __init__(self) -> None:
        self.reasons = REASONS
        self._wanted: dict[str, None] = {}

    @property
    def functions(self) -> dict[str, str]:
        used: dict[str, str] = {}
        for name, text in reversed(FUNCTIONS.items()):
            if name in self._wanted or any(re.search(rf"\b{name}\b", other) for other in used.values()):
                used[name] = text
        return dict(reversed(used.items()))

    def launch(self, call: Call) -> str:
        if call.operator not in REASONS or not {*call.dtypes.values()} <= FLOATS | {"int64"}:
            raise NotConvertible(f"extern kernel: {call.operator}")
        if call.operator in ("mm", "bmm", "addmm", "baddbmm"):
            function, arguments = "product", _product(call)
        elif call.operator == "convolution":
            function, arguments = "convolution", _convolution(call)
        else:
            function, arguments = _scan(call)
        self._wanted[function] = None
        return f"{function}({arguments})"


def _product(call: Call) -> str:
    if call.dtypes["out"] not in FLOATS:
        raise NotConvertible(f"extern kernel: {call.operator} of {call.dtypes['out']}")
    operands = f"{call.tensors['a']}, {call.tensors['b']}, {call.outputs['out']}"
    if "bias" not in call.tensors:
        return operands
    return f"{operands}, {call.tensors['bias']}, {float(call.number('alpha', 1))}, {float(call.number('beta', 1))}"


def _convolution(call: Call) -> str:
    options, groups = call.options, call.options["groups"]
    if options["transposed"] and groups > 1:
        raise NotConvertible("extern kernel: convolution, transposed in groups")
    axes = [triple(options["stride"], 1), triple(options["padding"], 0), triple(options["dilation"], 1)]
    bias = call.tensors.get("bias", "None")
    listed = ", ".join(map(str, axes))
    return (
        f"{call.tensors['x']}, {call.tensors['weight']}, {bias}, {call.outputs['out']}, {listed}, {groups}, "
        f"{options['transposed']}"
    )


def _scan(call: Call) -> tuple[str, str]:
    dim, x = call.number("dim", 0), call.tensors["x"]
    if call.operator in ("cummax", "cummin"):
        values, indices = call.outputs.get("values", "None"), call.outputs.get("indices", "None")
        return "running_extreme", f"{x}, {values}, {indices}, {dim}, {call.operator == 'cummax'}"
    if call.dtypes["out"] not in FLOATS:
        raise NotConvertible(f"extern kernel: {call.operator} of {call.dtypes['out']}")
    return call.operator, f"{x}, {call.outputs['out']}, {dim}"


_PRODUCT = (
    "every element is used many times, so a program keeps a 64 x 64 tile of sums and walks along the common axis with "
    "tl.dot, whose operands are tiles that are loaded once for all of it"
)
_SCAN = (
    "a line is one chain of dependent steps, so a program takes many lines side by side and goes along all of them "
    "step by step"
)
REASONS: dict[str, str] = {
    **dict.fromkeys(("mm", "bmm", "addmm", "baddbmm"), _PRODUCT),
    "convolution": (
        "places of the output are the rows of a product, filters its columns; for each place of the window and block "
        "of channels the inputs under it are gathered with a mask for the border"
    ),
    **dict.fromkeys(("logcumsumexp", "cummax", "cummin"), _SCAN),
}
