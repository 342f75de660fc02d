"""Elementwise operators: an element of the result depends on one element of each operand."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import Any

from kernelrl.data.teachers.template import expr
from kernelrl.data.teachers.template.expr import Expr, as_float, cast, compare, unary, where, wrap
from kernelrl.data.teachers.template.loops import Program, Tensor
from kernelrl.data.teachers.template.lowerings import Form, lowers

Scalar = Expr | float | int | bool


def pointwise(form: Form, function: Callable[..., Expr], *operands: Tensor | Scalar) -> Tensor:
    """A tensor of that form, an element of which is `function` of the operands' elements."""

    def read(at: tuple[Expr, ...]) -> Expr:
        elements = [each.at(at) if isinstance(each, Tensor) else wrap(each) for each in operands]
        return cast(function(*elements), form.kind)

    return Tensor(form.shape, form.dtype, read)


UNARY = "exp exp2 expm1 log log1p sqrt rsqrt sin cos atan erf tanh sigmoid floor".split()
COMPARISONS = "lt le gt ge eq ne".split()


def _power(x: Expr, exponent: float) -> Expr:
    if exponent == 0.5:
        return unary("sqrt", x)
    if exponent == int(exponent) and 1 <= exponent <= 4:
        result = as_float(x) if isinstance(exponent, float) else x
        for _ in range(int(exponent) - 1):
            result = result * x
        return result
    if exponent in (-1, -0.5):
        return 1.0 / x if exponent == -1 else unary("rsqrt", x)
    raise NotImplementedError(f"power {exponent}")


def _gelu(x: Expr, approximate: str) -> Expr:
    if approximate == "tanh":
        return 0.5 * x * (1.0 + unary("tanh", math.sqrt(2 / math.pi) * (x + 0.044715 * x * x * x)))
    return 0.5 * x * (1.0 + unary("erf", x * math.sqrt(0.5)))


for name in UNARY:
    lowers(f"{name}.default")(lambda program, form, x, op=name: pointwise(form, lambda v: unary(op, v), x))
for name in COMPARISONS:
    lowers(f"{name}.Tensor", f"{name}.Scalar")(
        lambda program, form, x, y, op=name: pointwise(form, lambda a, b: compare(op, a, b), x, y)
    )
for name, apply in {
    "abs": lambda v: Expr("abs", (v,), v.kind),
    "neg": lambda v: -v,
    "relu": lambda v: expr.maximum(v, 0.0),
    "sign": lambda v: where(v > 0.0, 1.0, where(v < 0.0, -1.0, 0.0)),
    "reciprocal": lambda v: 1.0 / v,
    "isnan": lambda v: Expr("ne", (v, v), "bool"),
    "isinf": lambda v: compare("eq", Expr("abs", (v,), "float"), math.inf),
    "logical_not": lambda v: Expr("not", (cast(v, "bool"),), "bool"),
    "bitwise_not": lambda v: Expr("not", (v,), "bool"),
}.items():
    lowers(f"{name}.default")(lambda program, form, x, apply=apply: pointwise(form, apply, x))
for names, binary in {
    ("maximum.default",): expr.maximum,
    ("minimum.default",): expr.minimum,
    ("logical_and.default",): lambda a, b: expr.both(cast(a, "bool"), cast(b, "bool")),
    ("logical_or.default",): lambda a, b: expr.either(cast(a, "bool"), cast(b, "bool")),
    ("bitwise_and.Tensor",): expr.both,
    ("bitwise_or.Tensor",): expr.either,
    ("mul.Tensor", "mul.Scalar"): operator.mul,
    ("div.Tensor", "div.Scalar"): operator.truediv,
}.items():
    lowers(*names)(lambda program, form, x, y, binary=binary: pointwise(form, binary, x, y))


@lowers("add.Tensor", "add.Scalar", "sub.Tensor", "sub.Scalar")
def add(program: Program, form: Form, x: Tensor, y: Tensor | Scalar, alpha: float = 1) -> Tensor:
    combine = {"add": operator.add, "sub": operator.sub}[program.origin]
    return pointwise(form, lambda a, b: combine(a, b if alpha == 1 else b * alpha), x, y)


@lowers("fmod.Scalar", "remainder.Scalar")
def fmod(program: Program, form: Form, x: Tensor, y: int) -> Tensor:
    """Of integers that are not negative, as indices are."""
    if x.kind != "int":
        raise NotImplementedError("fmod of floats")
    return pointwise(form, lambda a, b: a % b, x, y)


@lowers("pow.Tensor_Scalar")
def power(program: Program, form: Form, x: Tensor, exponent: float) -> Tensor:
    return pointwise(form, lambda v: _power(v, exponent), x)


@lowers("gelu.default")
def gelu(program: Program, form: Form, x: Tensor, approximate: str = "none") -> Tensor:
    return pointwise(form, lambda v: _gelu(v, approximate), x)


@lowers("leaky_relu.default")
def leaky_relu(program: Program, form: Form, x: Tensor, slope: float = 0.01) -> Tensor:
    return pointwise(form, lambda v: where(v > 0.0, v, v * slope), x)


@lowers("elu.default")
def elu(
    program: Program, form: Form, x: Tensor, alpha: float = 1.0, scale: float = 1.0, input_scale: float = 1.0
) -> Tensor:
    def apply(v: Expr) -> Expr:
        below = alpha * scale * unary("expm1", expr.minimum(v * float(input_scale), 0.0))
        return where(v > 0.0, v * float(scale), below)

    return pointwise(form, apply, x)


@lowers("hardtanh.default", "clamp.default", "clamp.Tensor")
def clamp(program: Program, form: Form, x: Tensor, low: Any = None, high: Any = None) -> Tensor:
    def apply(v: Expr, *bounds: Expr) -> Expr:
        rest = list(bounds)
        if low is not None:
            v = expr.maximum(v, rest.pop(0))
        return v if high is None else expr.minimum(v, rest.pop(0))

    return pointwise(form, apply, x, *[bound for bound in (low, high) if bound is not None])


@lowers("where.self")
def select(program: Program, form: Form, condition: Tensor, x: Tensor, y: Tensor) -> Tensor:
    return pointwise(form, where, condition, x, y)


@lowers("_to_copy.default", "clone.default", "alias.default", "lift_fresh_copy.default")
def convert(program: Program, form: Form, x: Tensor, **options: object) -> Tensor:
    return x if form.dtype == x.dtype else pointwise(form, lambda v: v, x)


@lowers("copy.default")
def copy(program: Program, form: Form, x: Tensor, y: Tensor, *options: object) -> Tensor:
    """`y`, in the shape and dtype of `x`."""
    return pointwise(form, lambda v: v, y)


@lowers("full.default", "scalar_tensor.default", "full_like.default")
def full(program: Program, form: Form, *args: Any, **options: object) -> Tensor:
    return pointwise(form, lambda value: value, args[-1])


@lowers("arange.start_step")
def arange(program: Program, form: Form, start: int, end: Any, step: int = 1, **options: object) -> Tensor:
    return Tensor(form.shape, form.dtype, lambda at: cast(at[0] * step + start, form.kind))
