"""CUDA's library of device functions in Triton's interpreter, which has none of them.

Triton's own functions say which types each takes and gives, as on a GPU. What they would have a GPU call, NumPy
computes here, element by element, also for many programs at a time.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import wraps
from typing import Any

import numpy as np
from triton.language.extra import libdevice
from triton.language.extra.cuda import libdevice as of_cuda
from triton.runtime import interpreter
from triton.runtime.interpreter import InterpreterBuilder, TensorHandle

PREFIX = "__nv_"
TYPES = ("f", "d", "ll")
"""Letters of types at the end of a name."""


def install() -> None:
    """Have kernels that this process interprets call them."""
    InterpreterBuilder.create_extern_elementwise = _call
    for name, function in list(vars(of_cuda).items()):
        if callable(function) and not name.startswith("_"):
            for module in (of_cuda, libdevice):
                setattr(module, name, _interpreted(name, function))


def _interpreted(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    """One of Triton's functions, for kernels that run as Python."""

    @wraps(function)
    def run(*arguments: Any, **_: Any) -> Any:
        try:
            return function(*arguments, _semantic=interpreter.interpreter_semantic)
        except KeyError as error:
            given = ", ".join(map(str, error.args[0]))
            raise TypeError(f"libdevice.{name} takes no {given}: convert first, as in x.to(tl.float32)") from None

    return run


def _call(
    self: InterpreterBuilder, library: str, path: str, symbol: str, arguments: list[TensorHandle], kind: Any, pure: bool
) -> TensorHandle:
    """What a function of the library gives, which has one name per type, such as `__nv_tanhf` and `__nv_tanh`."""
    name = symbol.removeprefix(PREFIX)
    name = name[1:] if name.endswith("_rn") else name
    known = [each for each in (name, *map(name.removesuffix, TYPES)) if each in FUNCTIONS]
    if not known:
        raise NotImplementedError(f"{symbol} is not known in Triton's interpreter: write it with functions of tl")
    with np.errstate(all="ignore"):
        values = np.asarray(FUNCTIONS[known[0]](*(argument.data for argument in arguments)))
    return TensorHandle(values.astype(interpreter._get_np_dtype(kind), copy=False), kind.scalar)


def _each(function: Callable[[float], float], at_poles: float) -> Callable[[np.ndarray], Any]:
    """A function of Python's, element by element."""

    def of_one(value: float) -> float:
        try:
            return function(value)
        except OverflowError:
            return math.inf
        except ValueError:
            return at_poles if math.isfinite(value) else math.nan

    return np.vectorize(of_one, otypes=[np.float64])


def _round(x: np.ndarray) -> Any:
    whole = np.trunc(x)
    return whole + np.where(np.abs(x - whole) >= 0.5, np.sign(x), 0)  # halves away from zero


def _remainder(x: np.ndarray, y: np.ndarray) -> Any:
    wide = x.astype(np.float64)
    return wide - y * np.rint(wide / y)


def _of_pi(function: Callable[[np.ndarray], Any]) -> Callable[[np.ndarray], Any]:
    return lambda x: function(np.pi * np.fmod(x.astype(np.float64), 2.0))


def _leading_zeros(x: np.ndarray) -> Any:
    bits = x.view(f"u{x.itemsize}")
    return sum((bits >> np.array(place, bits.dtype)) == 0 for place in range(8 * x.itemsize))


_erfc = _each(math.erfc, math.nan)
FUNCTIONS: dict[str, Callable[..., Any]] = {
    **{name: getattr(np, name) for name in "exp exp2 expm1 log log2 log10 log1p sqrt cbrt sin cos tan".split()},
    **{name: getattr(np, name) for name in "sinh cosh tanh floor ceil trunc rint isnan isinf signbit".split()},
    **{name: getattr(np, name) for name in "copysign nextafter hypot fmod ldexp".split()},
    **{name: getattr(np, f"arc{name[1:]}") for name in "asin acos atan asinh acosh atanh atan2".split()},
    "abs": np.abs,
    "llabs": np.abs,
    "fabs": np.abs,
    "exp10": lambda x: np.power(10.0, x.astype(np.float64)),
    "rsqrt": lambda x: 1 / np.sqrt(x),
    "rcbrt": lambda x: 1 / np.cbrt(x),
    "rhypot": lambda x, y: 1 / np.hypot(x, y),
    "sinpi": _of_pi(np.sin),
    "cospi": _of_pi(np.cos),
    "pow": np.power,
    "powi": lambda x, n: np.power(x, n.astype(x.dtype)),
    "fma": lambda x, y, z: x.astype(np.float64) * y + z,
    "fdim": lambda x, y: np.where(x > y, x - y, x * 0 + y * 0),
    "remainder": _remainder,
    "round": _round,
    "nearbyint": np.rint,
    "llrint": np.rint,
    "erf": _each(math.erf, math.nan),
    "erfc": _erfc,
    "normcdf": lambda x: _erfc(-x.astype(np.float64) / math.sqrt(2.0)) / 2,
    "lgamma": _each(math.lgamma, math.inf),
    "tgamma": _each(math.gamma, math.nan),
    "add_rn": np.add,
    "sub_rn": np.subtract,
    "mul_rn": np.multiply,
    "div_rn": np.divide,
    "fast_fdivide": np.divide,
    "fast_exp": np.exp,
    "fast_log": np.log,
    "fast_pow": np.power,
    "popc": lambda x: np.bitwise_count(x.view(f"u{x.itemsize}")),
    "clz": _leading_zeros,
    "ffs": lambda x: np.where(x == 0, 0, np.log2((x & -x).view(f"u{x.itemsize}")) + 1),
}
"""By name without the letters of the type: `tanh` is `__nv_tanhf` of float32, and `add_rn` is `__nv_fadd_rn`."""
