"""Operators that combine elements along axes: reductions, softmax, normalisation, scans."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from kernelrl.data.teachers.template.expr import ONE, Expr, as_float, cast, unary
from kernelrl.data.teachers.template.loops import Index, Program, Shape, Tensor, product
from kernelrl.data.teachers.template.lowerings import Form, lowers
from kernelrl.data.teachers.template.lowerings.pointwise import pointwise


def reduced(program: Program, op: str, x: Tensor, dims: Sequence[int] | None, keep: bool = True) -> Tensor:
    """`x` combined over `dims` (none or None: all), which stay with length 1 where `keep`."""
    rank = len(x.shape)
    gone = sorted({dim % rank for dim in dims} if dims else range(rank))
    kept = [axis for axis in range(rank) if axis not in gone]

    def body(at: Index, inner: Index) -> Expr:
        position = dict(zip(kept, at, strict=True)) | dict(zip(gone, inner, strict=True))
        return x.read(tuple(position[axis] for axis in range(rank)))

    total = program.reduce(op, tuple(x.shape[axis] for axis in kept), tuple(x.shape[axis] for axis in gone), body)
    if not keep:
        return total
    one = tuple(ONE if axis in gone else x.shape[axis] for axis in range(rank))
    return Tensor(one, total.dtype, lambda at: total.read(tuple(at[axis] for axis in kept)))


def _count(x: Tensor, dims: Sequence[int] | None) -> Expr:
    lengths = x.shape if not dims else [x.shape[dim] for dim in dims]
    return as_float(product(lengths))


def _map(like: Tensor, function: Any, *operands: Any, shape: Shape | None = None) -> Tensor:
    return pointwise(Form(like.shape if shape is None else shape, "float32"), function, *operands)


@lowers("sum.dim_IntList")
def total(program: Program, form: Form, x: Tensor, dims: Any, keep: bool = False, **options: object) -> Tensor:
    if x.kind == "bool":
        x = pointwise(Form(x.shape, form.dtype), lambda v: cast(v, form.kind), x)
    return reduced(program, "sum", x, dims, keep)


@lowers("mean.dim", "mean.default")
def mean(program: Program, form: Form, x: Tensor, dims: Any = None, keep: bool = False, **options: object) -> Tensor:
    count = _count(x, dims)
    return _map(x, lambda s: s / count, reduced(program, "sum", x, dims, keep), shape=form.shape)


@lowers("amax.default", "amin.default")
def amax(program: Program, form: Form, x: Tensor, dims: Any = None, keep: bool = False) -> Tensor:
    return reduced(program, program.origin.removeprefix("a"), x, dims, keep)


@lowers("prod.dim_int", "prod.default")
def prod(program: Program, form: Form, x: Tensor, dim: Any = None, keep: bool = False, **options: object) -> Tensor:
    return reduced(program, "prod", x, None if dim is None else [dim], keep)


@lowers("any.dim", "any.default")
def any_(program: Program, form: Form, x: Tensor, dim: Any = None, keep: bool = False) -> Tensor:
    highest = reduced(program, "max", x, None if dim is None else [dim], keep)
    return pointwise(form, lambda v: cast(v, "bool"), highest)


@lowers("argmax.default", "argmin.default")
def argmax(program: Program, form: Form, x: Tensor, dim: int | None = None, keep: bool = False) -> Tensor:
    if dim is None:
        raise NotImplementedError("argmax over all axes")
    return reduced(program, program.origin, x, [dim], keep)


@lowers("max.dim", "min.dim")
def max_dim(program: Program, form: Form, x: Tensor, dim: int, keep: bool = False) -> tuple[Tensor, Tensor]:
    """The extremes and where they are; what of the two nobody reads is dropped."""
    return reduced(program, program.origin, x, [dim], keep), reduced(program, f"arg{program.origin}", x, [dim], keep)


@lowers("var.correction")
def var(
    program: Program, form: Form, x: Tensor, dims: Any = None, correction: float | None = None, keepdim: bool = False
) -> Tensor:
    _, squares = _moments(program, x, dims, keepdim)
    count = _count(x, dims)
    less = 1.0 if correction is None else float(correction)
    return _map(x, lambda q: q / (count - less if less else count), squares, shape=form.shape)


def _moments(program: Program, x: Tensor, dims: Any, keep: bool = True) -> tuple[Tensor, Tensor]:
    """The mean (with its axes kept), and the sum of squared differences from it."""
    count = _count(x, dims)
    summed = reduced(program, "sum", x, dims)
    centre = _map(summed, lambda s: s / count, summed)
    squares = _map(x, lambda v, m: (v - m) * (v - m), x, centre)
    return centre, reduced(program, "sum", squares, dims, keep)


@lowers("linalg_vector_norm.default")
def vector_norm(
    program: Program, form: Form, x: Tensor, order: float = 2, dims: Any = None, keep: bool = False, **options: object
) -> Tensor:
    absolute = _map(x, lambda v: Expr("abs", (v,), "float"), x)
    if order == 1:
        return reduced(program, "sum", absolute, dims, keep)
    if order == math.inf:
        return reduced(program, "max", absolute, dims, keep)
    if order != 2:
        raise NotImplementedError(f"norm of order {order}")
    squares = reduced(program, "sum", _map(x, lambda v: v * v, x), dims, keep)
    return _map(squares, lambda s: unary("sqrt", s), squares)


@lowers("_softmax.default")
def softmax(program: Program, form: Form, x: Tensor, dim: int, *options: object) -> Tensor:
    highest = reduced(program, "max", x, [dim])
    powers = program.realise(_map(x, lambda v, m: unary("exp", v - m), x, highest))
    total = reduced(program, "sum", powers, [dim])
    return _map(x, lambda e, s: e / s, powers, total)


@lowers("_log_softmax.default")
def log_softmax(program: Program, form: Form, x: Tensor, dim: int, *options: object) -> Tensor:
    highest = reduced(program, "max", x, [dim])
    total = reduced(program, "sum", _map(x, lambda v, m: unary("exp", v - m), x, highest), [dim])
    return _map(x, lambda v, m, s: v - m - unary("log", s), x, highest, total)


@lowers("native_layer_norm.default")
def layer_norm(
    program: Program, form: Form, x: Tensor, shape: Sequence[object], weight: Any, bias: Any, epsilon: float
) -> tuple[Tensor, ...]:
    dims = list(range(len(x.shape) - len(shape), len(x.shape)))
    centre, squares = _moments(program, x, dims)
    count = _count(x, dims)
    scale = _inverse_deviation(program, squares, count, epsilon)
    return _normalised(form, x, centre, scale, weight, bias), centre, scale


def _inverse_deviation(program: Program, squares: Tensor, count: Expr, epsilon: float) -> Tensor:
    return program.realise(_map(squares, lambda q: unary("rsqrt", q / count + epsilon), squares))


def _normalised(form: Form, x: Tensor, centre: Tensor, scale: Tensor, weight: Any, bias: Any) -> Tensor:
    """`(x - centre) * scale`, times the weight, plus the bias, where there are such."""

    def apply(v: Expr, m: Expr, s: Expr, *rest: Expr) -> Expr:
        result = (v - m) * s
        if weight is not None:
            result = result * rest[0]
        return result if bias is None else result + rest[-1]

    return pointwise(form, apply, x, centre, scale, *[each for each in (weight, bias) if each is not None])


def _per_channel(x: Tensor, vector: Tensor | None) -> Tensor | None:
    """A vector along axis 1, as a tensor of the shape of `x`."""
    return None if vector is None else Tensor(x.shape, vector.dtype, lambda at: vector.read((at[1],)))


@lowers("native_group_norm.default")
def group_norm(
    program: Program,
    form: Form,
    x: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    batch: object,
    channels: int,
    area: object,
    groups: int,
    epsilon: float,
) -> tuple[Tensor, ...]:
    per_group = channels // groups
    inner = (ONE * per_group, *x.shape[2:])
    shape = (x.shape[0], ONE * groups)
    count = as_float(product(inner))

    def element(at: Index, r: Index) -> Expr:
        return x.read((at[0], at[1] * per_group + r[0], *r[1:]))

    summed = program.reduce("sum", shape, inner, element)
    centre = program.realise(_map(summed, lambda s: s / count, summed))

    def squared(at: Index, r: Index) -> Expr:
        difference = element(at, r) - centre.read(at)
        return difference * difference

    squares = program.reduce("sum", shape, inner, squared)
    scale = _inverse_deviation(program, squares, count, epsilon)

    def widened(statistic: Tensor) -> Tensor:
        return Tensor(x.shape, "float32", lambda at: statistic.read((at[0], at[1] // per_group)))

    vectors = _per_channel(x, weight), _per_channel(x, bias)
    return _normalised(form, x, widened(centre), widened(scale), *vectors), centre, scale


@lowers(
    "native_batch_norm.default", "_native_batch_norm_legit.no_stats", "_native_batch_norm_legit_no_training.default"
)
def batch_norm(program: Program, form: Form, x: Tensor, weight: Any, bias: Any, *rest: Any) -> tuple[Tensor, ...]:
    mean, variance, training, _, epsilon = rest
    if training:  # running statistics that the program updates are no part of what it returns
        dims = [axis for axis in range(len(x.shape)) if axis != 1]
        centre, squares = _moments(program, x, dims)
        scale = _inverse_deviation(program, squares, _count(x, dims), epsilon)
    else:
        centre = _per_channel(x, mean) or x
        wide = _per_channel(x, variance) or x
        scale = _map(x, lambda v: unary("rsqrt", v + epsilon), wide)
    vectors = _per_channel(x, weight), _per_channel(x, bias)
    return _normalised(form, x, centre, scale, *vectors), centre, scale


@lowers("cumsum.default", "cumprod.default", "logcumsumexp.default")
def cumsum(program: Program, form: Form, x: Tensor, dim: int, **options: object) -> Tensor:
    op = "logaddexp" if program.origin == "logcumsumexp" else program.origin.removeprefix("cum")
    return program.scan(op, x, dim % len(x.shape))


@lowers("cummax.default", "cummin.default")
def cummax(program: Program, form: Form, x: Tensor, dim: int) -> tuple[Tensor, None]:
    """The values only; the indices are not computed."""
    return program.scan(program.origin.removeprefix("cum"), x, dim % len(x.shape)), None
