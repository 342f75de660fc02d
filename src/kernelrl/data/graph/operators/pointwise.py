"""Elementwise, activation and broadcast operators: they keep the shape."""

from __future__ import annotations

from kernelrl.data.graph.graph import Dim, Graph, Value
from kernelrl.data.graph.operators import Apply, Category, operator

ELEMENTWISE = {
    "abs": "torch.abs({x})",
    "neg": "torch.neg({x})",
    "square": "torch.square({x})",
    "sqrt": "torch.sqrt(torch.abs({x}) + 0.01)",
    "rsqrt": "torch.rsqrt(torch.abs({x}) + 1.0)",
    "reciprocal": "torch.reciprocal(torch.abs({x}) + 1.0)",
    "exp": "torch.exp(-torch.abs({x}))",
    "exp2": "torch.exp2(-torch.abs({x}))",
    "expm1": "torch.expm1(-torch.abs({x}))",
    "log": "torch.log(torch.abs({x}) + 1.0)",
    "log1p": "torch.log1p(torch.abs({x}))",
    "sin": "torch.sin({x})",
    "cos": "torch.cos({x})",
    "atan": "torch.atan({x})",
    "erf": "torch.erf({x})",
    "floor": "torch.floor({x})",
    "frac": "{x} - torch.floor({x})",
    "sign": "torch.sign({x})",
    "clamp": "torch.clamp({x}, -1.0, 1.0)",
    "clamp_min": "torch.clamp({x}, min=-0.5)",
    "scale_shift": "{x} * 0.5 + 1.0",
    "cube": "torch.pow({x}, 3)",
    "threshold": "torch.where({x} > 0.5, {x}, torch.zeros_like({x}))",
    "square_root_of_square": "torch.sqrt({x} * {x} + 1.0)",
}
ACTIVATION = {
    "relu": "torch.relu({x})",
    "relu6": "F.relu6({x})",
    "leaky_relu": "F.leaky_relu({x}, negative_slope=0.1)",
    "elu": "F.elu({x})",
    "selu": "F.selu({x})",
    "celu": "F.celu({x}, alpha=1.5)",
    "sigmoid": "torch.sigmoid({x})",
    "tanh": "torch.tanh({x})",
    "silu": "F.silu({x})",
    "gelu": "F.gelu({x})",
    "gelu_tanh": 'F.gelu({x}, approximate="tanh")',
    "softplus": "F.softplus({x})",
    "softsign": "F.softsign({x})",
    "mish": "F.mish({x})",
    "hardswish": "F.hardswish({x})",
    "hardsigmoid": "F.hardsigmoid({x})",
    "hardtanh": "F.hardtanh({x}, -2.0, 2.0)",
    "hardshrink": "F.hardshrink({x}, lambd=0.5)",
    "softshrink": "F.softshrink({x}, lambd=0.5)",
    "tanhshrink": "F.tanhshrink({x})",
    "logsigmoid": "F.logsigmoid({x})",
    "quick_gelu": "{x} * torch.sigmoid(1.702 * {x})",
    "squared_relu": "torch.square(torch.relu({x}))",
}
BINARY = {
    "add_residual": "{x} + {y}",
    "sub": "{x} - {y}",
    "mul": "{x} * {y}",
    "div": "{x} / (torch.abs({y}) + 1.0)",
    "maximum": "torch.maximum({x}, {y})",
    "minimum": "torch.minimum({x}, {y})",
    "add_scaled": "{x} + 0.1 * {y}",
    "lerp": "torch.lerp({x}, {y}, 0.3)",
    "hypot": "torch.sqrt({x} * {x} + {y} * {y} + 0.01)",
    "gate": "{x} * torch.sigmoid({y})",
    "gate_gelu": "{x} * F.gelu({y})",
    "select": "torch.where({y} > 0, {x}, 0.5 * {x})",
}


def _same_shape(template: str) -> Apply:
    return lambda graph, x: graph.let(template.format(x=x), x.shape)


def _two_operands(template: str) -> Apply:
    return lambda graph, x: graph.let(template.format(x=x, y=graph.other(x)), x.shape)


def _with_vector(template: str, name: str, axis: int) -> Apply:
    """A second operand that varies along one axis only: along the last one, or along channels."""

    def apply(graph: Graph, x: Value) -> Value:
        length = x.shape[axis]
        graph.require(x.rank > 1 and length > 1 and not isinstance(length, Dim))
        trailing = x.rank - 1 - axis if axis >= 0 else 0
        y = graph.weight(name, (length, *[1] * trailing))
        return graph.let(template.format(x=x, y=y), x.shape)

    return apply


def _per_row(graph: Graph, x: Value) -> Value:
    y = graph.input("s", (*x.shape[:-1], 1))
    return graph.let(f"{x} * {y}", x.shape)


_TABLES: tuple[tuple[Category, dict[str, str]], ...] = (("elementwise", ELEMENTWISE), ("activation", ACTIVATION))
for category, table in _TABLES:
    for name, template in table.items():
        operator(name, category, (1, 2, 3, 4, 5))(_same_shape(template))
for name, template in BINARY.items():
    operator(name, "broadcast", (1, 2, 3, 4, 5))(_two_operands(template))
operator("add_bias", "broadcast", (2, 3, 4))(_with_vector("{x} + {y}", "bias", -1))
operator("mul_gain", "broadcast", (2, 3, 4))(_with_vector("{x} * {y}", "gain", -1))
operator("add_channel_bias", "broadcast", (3, 4))(_with_vector("{x} + {y}", "bias", 1))
operator("mul_channel_gain", "broadcast", (3, 4))(_with_vector("{x} * {y}", "gain", 1))
operator("clamp_by_vector", "broadcast", (2, 3))(_with_vector("torch.maximum({x}, {y})", "low", -1))
operator("scale_rows", "broadcast", (2, 3))(_per_row)
