"""Products, and operators with windows: matrix products, convolution, pooling, resizing."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from kernelrl.data.teachers.template.expr import ZERO, Expr, as_float, both, cast, const, minimum, where
from kernelrl.data.teachers.template.loops import Index, Program, Tensor
from kernelrl.data.teachers.template.lowerings import Form, lowers
from kernelrl.data.teachers.template.lowerings.pointwise import pointwise
from kernelrl.data.teachers.template.lowerings.shapes import padded


@lowers("mm.default", "bmm.default")
def matmul(program: Program, form: Form, x: Tensor, y: Tensor) -> Tensor:
    x, y = _ready(program, x), program.realise(y) if program.pack else _ready(program, y)
    batch = len(x.shape) - 2

    def body(at: Index, r: Index) -> Expr:
        return x.read((*at[:batch], at[batch], r[0])) * y.read((*at[:batch], r[0], at[batch + 1]))

    return program.reduce("sum", form.shape, x.shape[-1:], body)


@lowers("addmm.default")
def addmm(
    program: Program, form: Form, bias: Tensor, x: Tensor, y: Tensor, beta: float = 1, alpha: float = 1
) -> Tensor:
    dot = matmul(program, form, x, y)
    return pointwise(
        form, lambda b, d: d * float(alpha) + b * float(beta) if (alpha, beta) != (1, 1) else d + b, bias, dot
    )


def _ready(program: Program, x: Tensor) -> Tensor:
    """An operand is read many times: it is computed once, and read where it is if it is a view of memory."""
    element = x.read(tuple(const(0) for _ in x.shape))
    return x if element.op == "load" else program.realise(x)


@lowers("convolution.default")
def convolution(
    program: Program,
    form: Form,
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    transposed: bool,
    output_padding: Sequence[int],
    groups: int,
) -> Tensor:
    dims = len(form.shape) - 2
    stride, padding, dilation = (list(each) * (dims if len(each) == 1 else 1) for each in (stride, padding, dilation))
    if transposed:
        if groups != 1:
            raise NotImplementedError("transposed convolution with groups")
        result = _transposed(program, form, x, weight, stride, padding, dilation)
    else:
        x = _ready(program, padded(program, x, padding, padding, 0.0))
        per_group = weight.shape[1]
        out_per_group = form.shape[1] // groups

        def body(at: Index, r: Index) -> Expr:
            window = [i * s + k * d for i, s, k, d in zip(at[2:], stride, r[1:], dilation, strict=True)]
            first = ZERO if groups == 1 else at[1] // out_per_group * per_group
            return x.read((at[0], first + r[0], *window)) * weight.read((at[1], *r))

        result = program.reduce("sum", form.shape, weight.shape[1:], body)
    if bias is None:
        return result
    wide = Tensor(form.shape, bias.dtype, lambda at: bias.read((at[1],)))
    return pointwise(form, lambda v, b: v + b, result, wide)


def _transposed(
    program: Program,
    form: Form,
    x: Tensor,
    weight: Tensor,
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
) -> Tensor:
    """Each output gathers the inputs whose windows cover it."""
    buffer = program.realise(x).buffer
    assert buffer is not None

    def body(at: Index, r: Index) -> Expr:
        window, mask = [], None
        for i, s, p, k, d, n in zip(at[2:], stride, padding, r[1:], dilation, x.shape[2:], strict=True):
            shifted = i + p - k * d
            fits = both(shifted >= 0, shifted < n * s)
            if s > 1:
                fits = both(fits, Expr("eq", (shifted % s, ZERO), "bool"))
            window.append(shifted // s)
            mask = fits if mask is None else both(mask, fits)
        assert mask is not None
        return buffer.masked_load((at[0], r[0], *window), mask, 0.0) * weight.read((r[0], at[1], *r[1:]))

    return program.reduce("sum", form.shape, (weight.shape[0], *weight.shape[2:]), body)


def _windows(
    program: Program, form: Form, op: str, x: Tensor, kernel: Sequence[int], stride: Any, padding: Any, border: float
) -> Tensor:
    """`op` over windows of the last axes."""
    dims = len(kernel)
    steps = list(stride) * (dims if len(stride) == 1 else 1) if stride else list(kernel)
    widths = list(padding) * (dims if len(padding) == 1 else 1)
    x = _ready(program, padded(program, x, widths, widths, border))
    kept = len(form.shape) - dims

    def body(at: Index, r: Index) -> Expr:
        return x.read((*at[:kept], *(i * s + k for i, s, k in zip(at[kept:], steps, r, strict=True))))

    return program.reduce(op, form.shape, tuple(const(k) for k in kernel), body)


@lowers("max_pool2d_with_indices.default", "max_pool3d_with_indices.default")
def max_pool(
    program: Program,
    form: Form,
    x: Tensor,
    kernel: Sequence[int],
    stride: Any = (),
    padding: Any = (0,),
    dilation: Any = (1,),
    ceil: bool = False,
) -> tuple[Tensor, None]:
    """The values only."""
    if ceil or set(dilation) != {1}:
        raise NotImplementedError("pooling with dilation or ceil_mode")
    return _windows(program, form, "max", x, kernel, stride, padding, -math.inf), None


@lowers("avg_pool2d.default", "avg_pool3d.default")
def avg_pool(
    program: Program,
    form: Form,
    x: Tensor,
    kernel: Sequence[int],
    stride: Any = (),
    padding: Any = (0,),
    ceil: bool = False,
    count_include_pad: bool = True,
    divisor: int | None = None,
) -> Tensor:
    if ceil or (not count_include_pad and any(padding)):
        raise NotImplementedError("pooling with ceil_mode, or without its padding")
    total = _windows(program, form, "sum", x, kernel, stride, padding, 0.0)
    count = float(divisor or math.prod(kernel))
    return pointwise(form, lambda s: s * (1.0 / count), total)


@lowers("_adaptive_avg_pool2d.default", "_adaptive_avg_pool3d.default")
def adaptive_avg_pool(program: Program, form: Form, x: Tensor, sizes: Sequence[int]) -> Tensor:
    kernel = []
    for length, wanted in zip(x.shape[-len(sizes) :], sizes, strict=True):
        if length.value is None or length.value % wanted:
            raise NotImplementedError("adaptive pooling into windows of several lengths")
        kernel.append(length.value // wanted)
    total: Tensor = avg_pool(program, form, x, kernel)
    return total


@lowers("upsample_bilinear2d.default", "upsample_bilinear2d.vec")
def upsample_bilinear(
    program: Program, form: Form, x: Tensor, sizes: Any, align_corners: bool, *options: object
) -> Tensor:
    program.realise(x)
    old, new = x.shape[2:], form.shape[2:]

    def taps(i: Expr, length: Expr, wanted: Expr) -> tuple[Expr, Expr, Expr]:
        if align_corners:
            place = as_float(i) * (as_float(length - 1) / as_float(wanted - 1))
        else:
            place = (as_float(i) + 0.5) * (as_float(length) / as_float(wanted)) - 0.5
            place = where(place > 0.0, place, 0.0)
        low = minimum(cast(place, "int"), length - 1)
        return low, minimum(low + 1, length - 1), place - as_float(low)

    def read(at: Index) -> Expr:
        top, bottom, down = taps(at[2], old[0], new[0])
        left, right, across = taps(at[3], old[1], new[1])
        rows = []
        for row in (top, bottom):
            a, b = x.read((*at[:2], row, left)), x.read((*at[:2], row, right))
            rows.append(a + (b - a) * across)
        return rows[0] + (rows[1] - rows[0]) * down

    return Tensor(form.shape, form.dtype, read)
