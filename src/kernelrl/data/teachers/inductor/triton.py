"""Inductor's Triton kernels without its run-time library: plain `@triton.jit` functions, launched with fixed blocks."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Iterable
from functools import cache
from typing import Any

import torch._inductor.runtime.triton_helpers as triton_helpers
from torch._inductor.runtime.hints import TRITON_MAX_BLOCK

from kernelrl.data.rewriting import parse_expression
from kernelrl.data.teachers.inductor.capture import NotConvertible
from kernelrl.data.teachers.inductor.wrapper import Launch, short_names, without_unused
from kernelrl.data.teachers.template.triton_functions import FUNCTIONS

BLOCK_ELEMENTS = 16384
"""Elements that one program works on at a time: many, since the interpreter's time is by the program."""
GRIDS = {"Grid1D": "x", "Grid2D": "xy", "Grid2DWithYZOverflow": "xy", "Grid3D": "xyz"}
_OVERFLOW = "tl.program_id(1) + tl.program_id(2) * tl.num_programs(1)"
"""Blocks here are too large for a grid to run out of numbers."""
IMPORTS = "import torch\nimport triton\nimport triton.language as tl\nfrom torch import nn\n"


def launcher(kernels: dict[str, str]) -> Launch:
    """How a kernel is launched: over a grid that covers its elements."""
    functions = {name: _find(text) for name, text in kernels.items()}
    names = short_names(kernels, "triton_")

    def launch(name: str, arguments: list[ast.expr]) -> str:
        function, hints, grid_type = functions[name]
        if grid_type not in GRIDS:
            raise NotConvertible(f"kernel: {grid_type}")
        parameters = [argument.arg for argument in function.args.args]
        given = [name for name in parameters if not name.endswith("BLOCK")]
        values = dict(zip(given, map(ast.unparse, arguments), strict=True))
        blocks = _blocks(hints, parameters, _unmasked(function))
        grid = ", ".join(_extent(axis, values, blocks) for axis in GRIDS[grid_type])
        sizes = "".join(f", {block}={size}" for block, size in blocks.items())
        return f"{names[name]}[({grid},)]({', '.join(values.values())}{sizes})"

    return launch


def module_text(kernels: dict[str, str], library: dict[str, str]) -> str:
    """The part of the candidate above `ModelNew`.

    Args:
        kernels: Inductor's, by its names.
        library: text of the functions that stand in for library kernels, by name.

    Raises:
        NotConvertible: a kernel uses what neither Triton's language nor its interpreter has.
    """
    names = short_names(kernels, "triton_")
    functions = []
    for name, text in kernels.items():
        function, _, _ = _find(text)
        function.name = names[name]
        functions.append((function, _combinations(text)))
    return stand_alone(functions, library)


def stand_alone(kernels: Iterable[tuple[ast.FunctionDef, dict[str, str]]], library: dict[str, str]) -> str:
    """Imports, the helpers that the kernels use, and the kernels.

    Args:
        kernels: each with the functions beside it that scans combine by, as Triton's own.

    Raises:
        NotConvertible: a kernel uses what neither Triton's language nor its interpreter has.
    """
    functions, wanted = [], set[str]()
    for function, combinations in kernels:
        own = _Own(combinations)
        function = own.visit(function)
        function.decorator_list = [parse_expression("triton.jit")]
        function.body = without_unused(function.body)
        functions.append(f"\n\n{ast.unparse(function)}\n")
        wanted |= own.wanted
    own_texts = [f"\n\n{text.strip()}\n" for text in [*_helpers(wanted), *library.values()]]
    return IMPORTS + "".join(own_texts) + "".join(functions)


def _find(text: str) -> tuple[ast.FunctionDef, dict[str, int], str]:
    """The kernel's function, the sizes that its blocks are chosen for, and the type of its grid."""
    text = text.replace(_OVERFLOW, "tl.program_id(1)")
    *_, function = (node for node in ast.parse(text).body if isinstance(node, ast.FunctionDef))
    heuristics = function.decorator_list[0]
    if not isinstance(heuristics, ast.Call):
        raise NotConvertible("kernel: without heuristics")
    options = {option.arg: option.value for option in heuristics.keywords}
    meta: dict[str, Any] = ast.literal_eval(options["inductor_meta"])
    return function, ast.literal_eval(options["size_hints"]), str(meta.get("grid_type"))


def _combinations(text: str) -> dict[str, str]:
    """By name of a function beside the kernel, which scans have: Triton's own scan that does the same."""
    functions = [node for node in ast.parse(text).body if isinstance(node, ast.FunctionDef)][:-1]
    return {node.name: SCANS.get("\n".join(map(ast.unparse, node.body)), "") for node in functions}


def _unmasked(function: ast.FunctionDef) -> set[str]:
    """Axes whose length is a multiple of Inductor's own largest block, so that it leaves their masks out."""
    return {axis for axis in TRITON_MAX_BLOCK if f"\n    {axis.lower()}mask = tl.full(" in ast.unparse(function)}


def _blocks(hints: dict[str, int], parameters: list[str], unmasked: set[str]) -> dict[str, int]:
    """A power of two for each block: along a reduction as much as fits, the rest shared by the other axes."""
    left, blocks = BLOCK_ELEMENTS, {}
    axes = [name.removesuffix("BLOCK") for name in parameters if name.endswith("BLOCK")]
    fixed = [axis for axis in hints if axis.startswith("r") and f"{axis.upper()}BLOCK" not in parameters]
    for axis in fixed:
        left //= hints[axis]
    for axis in sorted(axes):  # R0_ before X, Y and Z
        others = 2 if len(axes) > 1 and not axis.startswith("R") and "R0_" not in axes else 1
        size = max(1, min(hints[axis.lower()], left if others == 1 else int(BLOCK_ELEMENTS**0.5)))
        if axis in unmasked:
            size = min(size, TRITON_MAX_BLOCK[axis])
        blocks[f"{axis}BLOCK"] = size
        left //= size
    return {name: blocks[name] for name in parameters if name in blocks}


def _extent(axis: str, values: dict[str, str], blocks: dict[str, int]) -> str:
    count, block = values[f"{axis}numel"], f"{axis.upper()}BLOCK"
    return f"triton.cdiv({count}, {blocks[block]})" if block in blocks else count


class _Own(ast.NodeTransformer):
    """Inductor's helpers and CUDA's libdevice as functions of the candidate's own or of Triton's language."""

    def __init__(self, combinations: dict[str, str] | None = None) -> None:
        self.wanted: set[str] = set()
        self._combinations = combinations or {}

    def visit_Attribute(self, node: ast.Attribute) -> ast.expr:
        module, name = ast.unparse(node.value), node.attr
        if module in ("libdevice", "tl_math", "math"):
            if name in IN_LANGUAGE:
                return parse_expression(f"tl.{name}")
            if name not in HELPERS:
                raise NotConvertible(f"kernel: {module}.{name}")
            self.wanted.add(name)
            return ast.Name(name, ast.Load())
        if module == "triton_helpers":
            if name not in _library() and name not in HELPERS:
                raise NotConvertible(f"kernel: {module}.{name}")
            self.wanted.add(name)
            return ast.Name(name, ast.Load())
        return ast.Attribute(self.visit(node.value), name, node.ctx)

    def visit_Assign(self, node: ast.Assign) -> ast.stmt:
        value = node.value
        if isinstance(value, ast.Call) and ast.unparse(value.func) == "tl.associative_scan":
            (scanned, axis, function), target = value.args, node.targets[0]
            name = self._combinations[ast.unparse(function)]
            if not name or not isinstance(scanned, ast.Tuple) or not isinstance(target, ast.Tuple):
                raise NotConvertible("kernel: a scan with a function of its own")
            scan = f"{name}({ast.unparse(scanned.elts[0])}, {ast.unparse(axis)})"
            node = ast.Assign([target.elts[0]], parse_expression(scan))
            ast.fix_missing_locations(node)
        self.generic_visit(node)
        return node

    def visit_Call(self, node: ast.Call) -> ast.expr:
        self.generic_visit(node)
        node.keywords = [keyword for keyword in node.keywords if keyword.arg != "eviction_policy"]
        return node

    def visit_Expr(self, node: ast.Expr) -> ast.stmt | None:
        text = ast.unparse(node)
        return None if "device_assert" in text else ast.Expr(self.visit(node.value))


@cache
def _library() -> dict[str, ast.FunctionDef]:
    """Inductor's helpers by name, undecorated."""
    nodes = ast.parse(inspect.getsource(triton_helpers)).body
    return {node.name: node for node in nodes if isinstance(node, ast.FunctionDef) and node.decorator_list}


def _helpers(wanted: set[str]) -> list[str]:
    """Text of the helpers and of all that they use, each after what it uses."""
    texts: dict[str, str] = {}

    def add(name: str) -> None:
        if name in texts:
            return
        node = ast.parse(HELPERS[name]).body[0] if name in HELPERS else ast.parse(ast.unparse(_library()[name])).body[0]
        assert isinstance(node, ast.FunctionDef)
        own = _Own()
        node = own.visit(node)
        node.decorator_list = [parse_expression("triton.jit")]
        called = {part.id for part in ast.walk(node) if isinstance(part, ast.Name)}
        for other in sorted((called & (_library().keys() | HELPERS.keys()) | own.wanted) - {name}):
            add(other)
        if ast.get_docstring(node):
            del node.body[0]
        texts[name] = ast.unparse(node)

    for name in sorted(wanted):
        add(name)
    return list(texts.values())


SCANS = {
    "tmp0 = arg0_0 + arg1_0\nreturn tmp0": "tl.cumsum",
    "tmp0 = arg0_0 * arg1_0\nreturn tmp0": "tl.cumprod",
}
IN_LANGUAGE = frozenset("exp exp2 log log2 cos sin sqrt rsqrt erf floor ceil abs sigmoid fma".split())
HELPERS = FUNCTIONS | {
    "maximum": "def maximum(a, b):\n    return tl.maximum(a, b, tl.PropagateNan.ALL)",
    "minimum": "def minimum(a, b):\n    return tl.minimum(a, b, tl.PropagateNan.ALL)",
    "max2": "def max2(a, dim):\n    return tl.max(a, dim)",
    "min2": "def min2(a, dim):\n    return tl.min(a, dim)",
    "any": "def any(a, dim):\n    return tl.max(a.to(tl.int32), dim) > 0",
    "max_with_index": """\
def max_with_index(value, index, dim):
    top = tl.max(value, dim, keep_dims=True)
    return tl.max(value, dim), tl.min(tl.where(value == top, index, 2147483647), dim)
""",
    "min_with_index": """\
def min_with_index(value, index, dim):
    low = tl.min(value, dim, keep_dims=True)
    return tl.min(value, dim), tl.min(tl.where(value == low, index, 2147483647), dim)
""",
    "welford": """\
def welford(mean, m2, weight, dim):
    total = tl.sum(weight, dim, keep_dims=True)
    centre = tl.sum(mean * weight, dim, keep_dims=True) / total
    rest = m2 + weight * (mean - centre) * (mean - centre)
    return tl.sum(mean * weight / total, dim), tl.sum(rest, dim), tl.sum(weight, dim)
""",
    "isnan": "def isnan(x):\n    return x != x",
    "isinf": 'def isinf(x):\n    return tl.abs(x) == float("inf")',
    "trunc": "def trunc(x):\n    return tl.where(x < 0.0, tl.ceil(x), tl.floor(x))",
    "nearbyint": """\
def nearbyint(x):
    low = tl.floor(x)
    odd = low - 2.0 * tl.floor(low * 0.5)
    rest = x - low
    return tl.where((rest > 0.5) | ((rest == 0.5) & (odd == 1.0)), low + 1.0, low)
""",
    "fmod": "def fmod(x, y):\n    return x - y * trunc(x / y)",
    "pow": """\
def pow(x, y):
    size = tl.exp2(y * tl.log2(tl.abs(x)))
    odd = y - 2.0 * tl.floor(y * 0.5) == 1.0
    real = tl.where(tl.floor(y) == y, tl.where(odd, -size, size), float("nan"))
    return tl.where(y == 0.0, 1.0, tl.where(x < 0.0, real, size))
""",
    "signbit": "def signbit(x):\n    return x < 0.0",
}
"""What Triton's language lacks; reductions that are quick interpreted."""
