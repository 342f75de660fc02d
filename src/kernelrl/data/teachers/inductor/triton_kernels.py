"""Triton text of the kernels that stand in for a library's, each with the Python function that launches it.

Blocks are large, since the interpreter's time is by the program; operands of `tl.dot` are converted to float32, since
the interpreter multiplies the bits of bfloat16.
"""

from __future__ import annotations

_HEAD = """\
    x, weight, bias, out, N, C, D, H, W, F, CG, KD, KH, KW, OD, OH, OW, xn, xc, xd, xh, xw, wf, wc, wd, wh, ww,
    on, of, od, oh, ow, SD, SH, SW, PD, PH, PW, DD, DH, DW,
    BIAS: tl.constexpr, TRANSPOSED: tl.constexpr, BLOCK_P: tl.constexpr, BLOCK_F: tl.constexpr, BLOCK_C: tl.constexpr,
):
    p = tl.program_id(0) * BLOCK_P + tl.arange(0, BLOCK_P)[:, None]
    n, d, h, w = p // (OD * OH * OW), p // (OH * OW) % OD, p // OW % OH, p % OW
    f = tl.program_id(1) * BLOCK_F + tl.arange(0, BLOCK_F)[None, :]
"""
_TAPS = """\
    sums = tl.zeros([BLOCK_P, BLOCK_F], tl.float32)
    for tap in range(KD * KH * KW):
        kd, kh, kw = tap // (KH * KW), tap // KW % KH, tap % KW
        z, z_inside = place(d, kd, SD, PD, DD, D, TRANSPOSED)
        y, y_inside = place(h, kh, SH, PH, DH, H, TRANSPOSED)
        v, v_inside = place(w, kw, SW, PW, DW, W, TRANSPOSED)
"""
_END = """\
    if BIAS:
        sums += tl.load(bias + f, f < F, 0.0).to(tl.float32)
    tl.store(out + n * on + f * of + d * od + h * oh + w * ow, sums, (n < N) & (f < F))
"""
FUNCTIONS = {
    "product_kernel": """
@triton.jit
def product_kernel(
    a, b, bias, out, M, N, K, a0, a1, a2, b0, b1, b2, c0, c1, c2, o0, o1, o2, alpha, beta,
    BIAS: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
):
    batch = tl.program_id(2)
    rows = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)[:, None]
    columns = tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)[None, :]
    sums = tl.zeros([BLOCK_M, BLOCK_N], tl.float32)
    for start in range(0, K, BLOCK_K):
        across, down = start + tl.arange(0, BLOCK_K)[None, :], start + tl.arange(0, BLOCK_K)[:, None]
        left = tl.load(a + batch * a0 + rows * a1 + across * a2, (rows < M) & (across < K), 0.0)
        right = tl.load(b + batch * b0 + down * b1 + columns * b2, (down < K) & (columns < N), 0.0)
        sums += tl.dot(left.to(tl.float32), right.to(tl.float32), input_precision="ieee")
    inside = (rows < M) & (columns < N)
    if BIAS:
        sums = alpha * sums
        if beta != 0:
            sums += beta * tl.load(bias + batch * c0 + rows * c1 + columns * c2, inside, 0.0).to(tl.float32)
    tl.store(out + batch * o0 + rows * o1 + columns * o2, sums, inside)
""",
    "product": """
def product(a, b, out, bias=None, alpha=1.0, beta=1.0):
    if out.dim() == 2:
        a, b, out = a.unsqueeze(0), b.unsqueeze(0), out.unsqueeze(0)
    batch, m, n = out.shape
    added = out if bias is None else bias.expand(out.shape)
    strides = (*a.stride(), *b.stride(), *added.stride(), *out.stride())
    grid = (triton.cdiv(m, 64), triton.cdiv(n, 64), batch)
    has_bias = bias is not None
    product_kernel[grid](a, b, added, out, m, n, a.size(2), *strides, alpha, beta, has_bias, 64, 64, 64)
""",
    "place": """
@triton.jit
def place(at, tap, stride, padding, dilation, size, TRANSPOSED: tl.constexpr):
    if TRANSPOSED:
        spread = at + padding - tap * dilation
        found = spread // stride
        inside = (spread >= 0) & (spread % stride == 0) & (found < size)
    else:
        found = at * stride + tap * dilation - padding
        inside = (found >= 0) & (found < size)
    return found, inside
""",
    "dense_kernel": f"""
@triton.jit
def dense_kernel(
{_HEAD}{_TAPS}        inside = (n < N) & z_inside & y_inside & v_inside
        under = x + n * xn + z * xd + y * xh + v * xw
        factors = weight + f * wf + kd * wd + kh * wh + kw * ww
        for start in range(0, C, BLOCK_C):
            across, down = start + tl.arange(0, BLOCK_C)[None, :], start + tl.arange(0, BLOCK_C)[:, None]
            left = tl.load(under + across * xc, inside & (across < C), 0.0)
            right = tl.load(factors + down * wc, (down < C) & (f < F), 0.0)
            sums += tl.dot(left.to(tl.float32), right.to(tl.float32), input_precision="ieee")
{_END}""",
    "grouped_kernel": f"""
@triton.jit
def grouped_kernel(
{_HEAD}    first = f // (F // (C // CG)) * CG
{_TAPS}        inside = (n < N) & z_inside & y_inside & v_inside & (f < F)
        under = x + n * xn + first * xc + z * xd + y * xh + v * xw
        factors = weight + f * wf + kd * wd + kh * wh + kw * ww
        for c in range(CG):
            values = tl.load(under + c * xc, inside, 0.0).to(tl.float32)
            sums += values * tl.load(factors + c * wc, f < F, 0.0).to(tl.float32)
{_END}""",
    "convolution": """
def convolution(x, weight, bias, out, stride, padding, dilation, groups, transposed):
    while x.dim() < 5:
        x, weight, out = x.unsqueeze(2), weight.unsqueeze(2), out.unsqueeze(2)
    if transposed:
        weight = weight.transpose(0, 1)
    sizes = (*x.shape, *weight.shape, out.size(2), out.size(3), out.size(4))
    strides = (*x.stride(), *weight.stride(), *out.stride())
    places, filters = out.size(0) * out.size(2) * out.size(3) * out.size(4), out.size(1)
    block_f = min(64, max(16, triton.next_power_of_2(filters)))
    block_p = 4096 // block_f
    grid = (triton.cdiv(places, block_p), triton.cdiv(filters, block_f))
    has_bias, added = bias is not None, out if bias is None else bias
    kernel = dense_kernel if groups == 1 else grouped_kernel
    settings = (*stride, *padding, *dilation, has_bias, transposed, block_p, block_f, 32)
    kernel[grid](x, weight, added, out, *sizes, *strides, *settings)
""",
    "lines_of": '''
def lines_of(x, dim):
    """Sizes and strides of three axes beside `dim`, then those of `dim`."""
    others = [axis for axis in range(x.dim()) if axis != dim % x.dim()]
    sizes = [1] * (3 - len(others)) + [x.size(axis) for axis in others]
    strides = [0] * (3 - len(others)) + [x.stride(axis) for axis in others]
    return *sizes, x.size(dim), *strides, x.stride(dim)
''',
    "logcumsumexp_kernel": """
@triton.jit
def logcumsumexp_kernel(
    x, out, A, B, C, LENGTH, x0, x1, x2, x3, A_, B_, C_, LENGTH_, o0, o1, o2, o3, BLOCK: tl.constexpr
):
    line = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = line < A * B * C
    i, j, k = line // (B * C), line // C % B, line % C
    start, end = x + i * x0 + j * x1 + k * x2, out + i * o0 + j * o1 + k * o2
    total = tl.full([BLOCK], float("-inf"), tl.float64)
    for step in range(LENGTH):
        value = tl.load(start + step * x3, inside, 0.0).to(tl.float64)
        high = tl.maximum(total, value, tl.PropagateNan.ALL)
        rest = tl.where(tl.abs(high) == float("inf"), 0.0, high)
        sums = tl.exp(total - rest) + tl.exp(value - rest)
        total = tl.where(high == float("-inf"), high, rest + tl.log(sums))
        tl.store(end + step * o3, total.to(tl.float32), inside)
""",
    "logcumsumexp": """
def logcumsumexp(x, out, dim):
    of_x, of_out = lines_of(x, dim), lines_of(out, dim)
    lines = of_x[0] * of_x[1] * of_x[2]
    logcumsumexp_kernel[(triton.cdiv(lines, 4096),)](x, out, *of_x, *of_out, 4096)
""",
    "running_extreme_kernel": """
@triton.jit
def running_extreme_kernel(
    x, values, indices, A, B, C, LENGTH, x0, x1, x2, x3, A_, B_, C_, LENGTH_, o0, o1, o2, o3,
    VALUES: tl.constexpr, INDICES: tl.constexpr, LARGEST: tl.constexpr, BLOCK: tl.constexpr,
):
    line = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = line < A * B * C
    i, j, k = line // (B * C), line // C % B, line % C
    start, end = x + i * x0 + j * x1 + k * x2, i * o0 + j * o1 + k * o2
    best = tl.load(start, inside, 0)
    found = tl.zeros([BLOCK], tl.int64)
    for step in range(LENGTH):
        value = tl.load(start + step * x3, inside, 0)
        if LARGEST:
            further = value >= best
        else:
            further = value <= best
        better = (best == best) & (further | (value != value))
        best = tl.where(better, value, best)
        found = tl.where(better, step, found)
        if VALUES:
            tl.store(values + end + step * o3, best, inside)
        if INDICES:
            tl.store(indices + end + step * o3, found, inside)
""",
    "running_extreme": """
def running_extreme(x, values, indices, dim, largest):
    has_values, has_indices = values is not None, indices is not None
    values, indices = values if has_values else indices, indices if has_indices else values
    of_x, of_out = lines_of(x, dim), lines_of(values, dim)
    grid = (triton.cdiv(of_x[0] * of_x[1] * of_x[2], 4096),)
    running_extreme_kernel[grid](x, values, indices, *of_x, *of_out, has_values, has_indices, largest, 4096)
""",
}
"""By name: the text, after what it uses."""
