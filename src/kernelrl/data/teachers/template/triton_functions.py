"""Functions that Triton lacks, as device functions that both teachers use."""

from __future__ import annotations

FUNCTIONS = {
    "tanh": """\
@triton.jit
def tanh(x):
    s = x * x
    near = x * (1.0 - s * (1.0 / 3.0 - s * (2.0 / 15.0 - s * (17.0 / 315.0 - s * (62.0 / 2835.0)))))
    return tl.where(tl.abs(x) < 0.3, near, 1.0 - 2.0 / (tl.exp(2.0 * x) + 1.0))
""",
    "expm1": """\
@triton.jit
def expm1(x):
    near = x * (1.0 + x / 2.0 * (1.0 + x / 3.0 * (1.0 + x / 4.0 * (1.0 + x / 5.0 * (1.0 + x / 6.0 * (1.0 + x / 7.0))))))
    return tl.where(tl.abs(x) < 0.35, near, tl.exp(x) - 1.0)
""",
    "log1p": """\
@triton.jit
def log1p(x):
    u = 1.0 + x
    d = u - 1.0
    return tl.where(d == 0.0, x, tl.where(u == float("inf"), x, tl.log(u) * (x / tl.where(d == 0.0, 1.0, d))))
""",
    "multiply": """\
@triton.jit
def multiply(a, b):
    return a * b
""",
    "atan": """\
@triton.jit
def atan(x):
    a = tl.abs(x)
    b = tl.where(a > 2.414213562, -1.0 / tl.maximum(a, 1.0), tl.where(a > 0.4142135624, (a - 1.0) / (a + 1.0), a))
    base = tl.where(a > 2.414213562, 1.570796327, tl.where(a > 0.4142135624, 0.7853981634, 0.0))
    z = b * b
    tail = ((0.0805374449538 * z - 0.138776856032) * z + 0.199777106478) * z - 0.333329491539
    y = base + (tail * z * b + b)
    return tl.where(x < 0.0, -y, y)
""",
}
"""What Triton has no function for, accurate near zero too (`log1p` is Kahan's, `atan` Cephes's)."""
