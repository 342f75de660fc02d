"""The launches of kernels in Triton's interpreter, recorded so that `building/cubin.py` can compile them for a GPU."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

MAX_LAUNCHES = 8
_OPTIONS = ("num_warps", "num_stages", "num_ctas", "maxnreg")
_TYPES = {
    "torch.float64": "fp64",
    "torch.float32": "fp32",
    "torch.float16": "fp16",
    "torch.bfloat16": "bf16",
    "torch.int64": "i64",
    "torch.int32": "i32",
    "torch.int16": "i16",
    "torch.int8": "i8",
    "torch.uint8": "u8",
    "torch.bool": "i1",
}


@contextmanager
def recorded_launches() -> Iterator[list[dict[str, Any]]]:
    """The kernels that are launched in Triton's interpreter meanwhile, each signature once."""
    from triton.runtime.interpreter import InterpretedFunction

    launches: list[dict[str, Any]] = []
    run = InterpretedFunction.run

    def recording(self: Any, *args: Any, grid: Any, warmup: bool, **kwargs: Any) -> Any:
        launch = _describe(self, args, kwargs)
        if launch not in launches and len(launches) < MAX_LAUNCHES:
            launches.append(launch)
        return run(self, *args, grid=grid, warmup=warmup, **kwargs)

    InterpretedFunction.run = recording
    try:
        yield launches
    finally:
        InterpretedFunction.run = run


def _describe(function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
    """What decides a compilation: the argument types, the values of compile-time constants, the options."""
    parameters = inspect.signature(function.fn).parameters
    bound = inspect.signature(function.fn).bind_partial(
        *args, **{name: value for name, value in kwargs.items() if name in parameters}
    )
    bound.apply_defaults()
    types, constants = {}, {}
    for name, value in bound.arguments.items():
        if "constexpr" in str(parameters[name].annotation) or value is None:
            types[name], constants[name] = "constexpr", value if isinstance(value, int | float | str) else None
        else:
            types[name] = _type_of(value)
    options = {name: value for name, value in kwargs.items() if name in _OPTIONS and isinstance(value, int)}
    return {"kernel": function.fn.__name__, "types": types, "constants": constants, "options": options}


def _type_of(value: Any) -> str:
    if isinstance(value, bool):
        return "i1"
    if isinstance(value, int):
        return "i32" if -(2**31) <= value < 2**31 else "i64"
    if isinstance(value, float):
        return "fp32"
    return "*" + _TYPES.get(str(getattr(value, "dtype", "")), "fp32")
