"""Inductor's wrapper, the Python function that allocates buffers and launches kernels, made `ModelNew.forward`."""

from __future__ import annotations

import ast
from collections.abc import Callable
from dataclasses import dataclass, field

from kernelrl.data.rewriting import loaded_names, parse_expression
from kernelrl.data.teachers.inductor.capture import Captured, NotConvertible, operator_of
from kernelrl.data.teachers.inductor.library import Library, called, read_call

IGNORED_CALLS = frozenset({"assert_size_stride", "assert_alignment", "args.clear", "get_raw_stream"})
MAKERS = ("async_compile.cpp_pybinding", "async_compile.triton")

Launch = Callable[[str, list[ast.expr]], str]
"""Name of a kernel and its arguments -> the statement that launches it."""


@dataclass
class Wrapper:
    """The parts of a candidate.

    Attributes:
        kernels: native text of each kernel, by its name in the wrapper.
        statements: body of `forward`, without the return statement.
        returned: what it returns.
    """

    kernels: dict[str, str] = field(default_factory=dict)
    statements: list[str] = field(default_factory=list)
    returned: str = "None"


def translate(captured: Captured, launch: Callable[[dict[str, str]], Launch], library: Library, device: str) -> Wrapper:
    """Rewrite the wrapper with nothing but allocation, views and launches of kernels.

    Args:
        launch: given all kernels by name, says how one is launched.
        library: kernels for what Inductor leaves to libraries.
        device: keyword argument for allocations, e.g. `, device=x.device`, or nothing.

    Raises:
        NotConvertible: it calls a library kernel that has no counterpart, or does what a candidate may not do.
    """
    tree = ast.parse(captured.code)
    wrapper = Wrapper()
    for node in tree.body:
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Call) and _called(node.value) in MAKERS:
            text = next(arg.value for arg in reversed(node.value.args) if isinstance(arg, ast.Constant))
            wrapper.kernels[ast.unparse(node.targets[0])] = str(text)
    call = next(node for node in tree.body if isinstance(node, ast.FunctionDef) and node.name == "call")
    own = _Own(captured, device)
    launcher = launch(wrapper.kernels)
    statements: list[ast.stmt] = []
    done: set[str] = set()
    for node in call.body:
        if _is_ignored(node) or (isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) in done):
            continue
        if isinstance(node, ast.Return):
            elements = node.value.elts if isinstance(node.value, ast.Tuple) else []
            wrapper.returned = captured.returned.format(*(ast.unparse(own.visit(element)) for element in elements))
        elif isinstance(node, ast.Expr) and (name := _kernel_of(node.value, wrapper.kernels)):
            assert isinstance(node.value, ast.Call)
            statements += ast.parse(launcher(name, [own.visit(argument) for argument in node.value.args])).body
        elif called(node):
            outputs, parts = _library_call(node, call.body, captured, own, library)
            statements += parts
            done |= outputs
        elif isinstance(node, ast.Assign) and isinstance(node.value, ast.Name):  # the buffer is used once more
            own.rename(ast.unparse(node.targets[0]), node.value.id)
        elif isinstance(node, ast.Assign):
            statements.append(own.visit(node))
        else:
            raise NotConvertible(f"wrapper: {type(node).__name__}")
    for part in (part for statement in statements for part in ast.walk(statement) if isinstance(part, ast.Call)):
        if operator := operator_of(ast.unparse(part.func)):
            raise NotConvertible(f"extern kernel: {operator}, in an expression")
    wrapper.statements = [ast.unparse(node) for node in without_unused(statements, parse_expression(wrapper.returned))]
    return wrapper


def short_names(kernels: dict[str, str], prefix: str, limit: int = 60) -> dict[str, str]:
    """Inductor's names of kernels without their prefix, cut where a long chain of operators is listed."""
    parts = {name: name.removeprefix(prefix).rpartition("_") for name in kernels}
    return {name: f"{head[:limit].rstrip('_')}_{number}" for name, (head, _, number) in parts.items()}


class _Own(ast.NodeTransformer):
    """Inductor's own names for allocation and views, as torch's."""

    def __init__(self, captured: Captured, device: str):
        self._names = captured.arguments
        self._arguments = frozenset(captured.arguments.values())
        self._device = device

    def rename(self, name: str, value: str) -> None:
        self._names[name] = self._names.get(value, value)

    def visit_Name(self, node: ast.Name) -> ast.expr:
        return parse_expression(self._names.get(node.id, node.id))

    def visit_Call(self, node: ast.Call) -> ast.expr:
        name = _called(node)
        arguments = [self.visit(argument) for argument in node.args]
        if name == "empty_strided_cpu":
            size, stride, dtype = map(ast.unparse, arguments)
            named = "" if dtype == "torch.float32" else f", dtype={dtype}"
            if _is_contiguous(size, stride):
                return parse_expression(f"torch.empty({size}{named}{self._device})")
            return parse_expression(f"torch.empty_strided({size}, {stride}{named}{self._device})")
        if name == "reinterpret_tensor":
            tensor, size, stride, offset = map(ast.unparse, arguments)
            if tensor in self._arguments:  # it may lie anywhere in its storage
                offset = f"{tensor}.storage_offset() + {offset}"
            return parse_expression(f"{tensor}.as_strided({size}, {stride}, {offset})")
        node.args = arguments
        return node


def _library_call(
    node: ast.stmt, body: list[ast.stmt], captured: Captured, own: _Own, library: Library
) -> tuple[set[str], list[ast.stmt]]:
    """What the call makes anew, and the statements: allocation of that, and the launch."""
    call = read_call(node, body, captured, lambda expression: ast.unparse(own.visit(expression)))
    made = set(call.outputs.values()) if isinstance(node, ast.Assign) else set()
    lines = []
    for name in sorted(made):
        buffer = captured.buffers[name]
        allocation = f"empty_strided_cpu({buffer.size}, {buffer.stride}, torch.{buffer.dtype})"
        lines.append(f"{name} = {ast.unparse(own.visit(parse_expression(allocation)))}")
    return made, ast.parse("\n".join([*lines, library.launch(call)])).body


def _is_ignored(node: ast.stmt) -> bool:
    if isinstance(node, ast.Delete | ast.Pass):
        return True
    if isinstance(node, ast.Assign) and isinstance(node.value, ast.Name) and node.value.id == "args":
        return True
    value = node.value if isinstance(node, ast.Expr | ast.Assign) else None
    return isinstance(value, ast.Call) and _called(value) in IGNORED_CALLS


def _kernel_of(node: ast.expr, kernels: dict[str, str]) -> str | None:
    name = (_called(node) or "").removesuffix(".run") if isinstance(node, ast.Call) else ""
    return name if name in kernels else None


def _called(node: ast.Call) -> str | None:
    return ast.unparse(node.func) if isinstance(node.func, ast.Name | ast.Attribute) else None


def _is_contiguous(size: str, stride: str) -> bool:
    try:
        sizes, strides = ast.literal_eval(size), ast.literal_eval(stride)
    except ValueError:  # symbols
        return False
    expected = 1
    for extent, step in zip(reversed(sizes), reversed(strides), strict=True):
        if extent != 1 and step != expected:
            return False
        expected *= extent
    return True


def without_unused(body: list[ast.stmt], *also: ast.expr) -> list[ast.stmt]:
    """Statements without assignments to names that neither they nor `also` read, inside loops too."""
    while True:
        loaded = loaded_names(*body, *also)
        before = sum(1 for item in body for _ in ast.walk(item))
        for item in body:
            if isinstance(item, ast.For):
                item.body = [part for part in item.body if not _is_unused(part, loaded)]
        body = [item for item in body if not _is_unused(item, loaded)]
        if sum(1 for item in body for _ in ast.walk(item)) == before:
            return body


def _is_unused(node: ast.stmt, loaded: set[str]) -> bool:
    targets = node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AnnAssign) else []
    return bool(targets) and all(isinstance(target, ast.Name) and target.id not in loaded for target in targets)
