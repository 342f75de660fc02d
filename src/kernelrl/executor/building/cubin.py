"""Triton without a GPU: each kernel that the interpreter ran is also compiled for a named GPU, down to cubin.

The interpreter accepts more than the compiler does, so this finds build errors, and the registers, shared memory and
spills that the kernel would have. Launches are recorded in the contestant's process (`contest/launches.py`). This file
compiles them as a program of its own, because a process that has imported Triton's interpreter cannot compile. It is
confined like a compiler and gets the text of the kernels alone: nothing else of the candidate's module runs there.
"""

from __future__ import annotations

import ast
import contextlib
import importlib.util
import io
import json
import re
import sys
from pathlib import Path
from typing import Any

_IMPORTS = ast.parse("import triton\nimport triton.language as tl\nimport math").body


def kernels_only(program: ast.Module) -> str:
    """Text of a program without what runs on import: Triton's kernels and the constants that they may use."""
    kept = list(_IMPORTS)
    for node in program.body:
        if isinstance(node, ast.FunctionDef) and any("triton.jit" in ast.unparse(it) for it in node.decorator_list):
            node.decorator_list = [ast.Attribute(ast.Name("triton"), "jit")]
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
    path.write_text(kernels_only(ast.parse(request["source"])))
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
        target = GPUTarget("cuda", int(arch.strip("sm_a")), 32)  # Triton asks for all that this one has by itself
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
