"""Triton without a GPU: each kernel that the interpreter ran is also compiled for a named GPU, down to cubin.

The interpreter accepts more than the compiler does, so this finds build errors, and the registers, shared memory and
spills that the kernel would have. Launches are recorded in the contestant's process; they are compiled by this file as
a program of its own, because a process that has imported Triton's interpreter cannot compile. It is confined like a
compiler and gets the text of the kernels alone: nothing else of the candidate's module runs there.
"""

from __future__ import annotations

import ast
import contextlib
import importlib.util
import inspect
import io
import json
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
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


def kernels_only(source: str) -> str:
    """The text without anything that runs on import, but Triton's kernels and the constants that they may use."""
    kept: list[ast.stmt] = [*ast.parse("import triton\nimport triton.language as tl\nimport math").body]
    for node in ast.parse(source).body:
        if isinstance(node, ast.FunctionDef) and any("triton.jit" in ast.unparse(it) for it in node.decorator_list):
            node.decorator_list = [ast.parse("triton.jit", mode="eval").body]
            node.args.defaults = [_literal(default) for default in node.args.defaults]
            node.args.kw_defaults = [default and _literal(default) for default in node.args.kw_defaults]
            kept.append(node)
        elif isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant):
            kept.append(node)
    return ast.unparse(ast.Module(body=kept, type_ignores=[]))


def _literal(node: ast.expr) -> ast.expr:
    return node if isinstance(node, ast.Constant) else ast.Constant(None)


def main(folder: Path) -> None:
    """Compile what `request.json` says (`source`, `launches`, `arch`) and write `result.json`: one entry per launch."""
    import triton

    triton.knobs.nvidia.dump_ptxas_log = True
    triton.knobs.cache.dir = str(folder / "cache")
    request = json.loads((folder / "request.json").read_text())
    path = folder / "kernels.py"
    path.write_text(kernels_only(request["source"]))
    spec = importlib.util.spec_from_file_location("kernels", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["kernels"] = module
    spec.loader.exec_module(module)
    results = [_compile(module, launch, request["arch"]) for launch in request["launches"]]
    (folder / "result.json").write_text(json.dumps(results))


def _compile(module: Any, launch: dict[str, Any], arch: str) -> dict[str, Any]:
    import triton
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    result: dict[str, Any] = {"kernel": launch["kernel"], "arch": arch, "ok": False, "log": ""}
    try:
        function = getattr(module, launch["kernel"])
        source = ASTSource(function, signature=launch["types"], constexprs=launch["constants"])
        target = GPUTarget("cuda", int(arch.removeprefix("sm_")), 32)
        with contextlib.redirect_stdout(io.StringIO()) as log:
            built = triton.compile(source, target=target, options=launch["options"])
        result |= {"ok": True, "shared_bytes": built.metadata.shared} | _resources(log.getvalue())
    except Exception as error:
        result["log"] = f"{type(error).__name__}: {error}"[-2000:]
    return result


def _resources(log: str) -> dict[str, int]:
    """Registers of a thread and bytes that it spills, as the assembler counts them."""
    registers = re.search(r"Used (\d+) registers", log)
    spilled = re.search(r"(\d+) bytes spill stores", log)
    assert registers is not None, log
    return {"registers": int(registers[1]), "spill_bytes": int(spilled[1]) if spilled else 0}


if __name__ == "__main__":
    main(Path(sys.argv[1]))
