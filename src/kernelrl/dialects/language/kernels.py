"""The bodies of Triton kernels. Triton's interpreter runs them as Python: nothing in them may reach beyond `tl`."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Set

from kernelrl.dialects.language import vocabulary
from kernelrl.dialects.language.names import Names, all_arguments, violation
from kernelrl.verdict import Violation

_NODES = (
    ast.FunctionDef, ast.Return, ast.Assign, ast.AugAssign, ast.AnnAssign, ast.For, ast.While, ast.If, ast.Expr,
    ast.Pass, ast.Assert, ast.BoolOp, ast.BinOp, ast.UnaryOp, ast.IfExp, ast.Tuple, ast.List, ast.Compare, ast.Call,
    ast.keyword, ast.Constant, ast.Attribute, ast.Subscript, ast.Name, ast.Slice, ast.JoinedStr, ast.FormattedValue,
    ast.expr_context, ast.boolop, ast.operator, ast.unaryop, ast.cmpop,
)  # fmt: skip

_COMBINING = ("triton.language.reduce", "triton.language.associative_scan")


def find_in_kernels(kernels: list[ast.FunctionDef], tree: ast.Module, names: Names) -> Iterator[Violation]:
    """What Triton kernels may not hold.

    Args:
        kernels: the functions that Triton compiles.
        tree: the file.
        names: what its names stand for.
    """
    constants = _constants(tree, names)
    called = {function.name for function in kernels}
    for function in kernels:
        yield from _Kernel(function, called, constants, names).violations()


def _constants(tree: ast.Module, names: Names) -> set[str]:
    """Names that stand for a number, a text, a dtype of `tl` or a `tl.constexpr`, and for nothing else."""
    found: set[str] = set()
    for node in tree.body:
        targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
        for target in targets:
            if (
                isinstance(node, ast.Assign | ast.AnnAssign)
                and isinstance(target, ast.Name)
                and names.scopes[tree].bound[target.id] == 1
                and node.value is not None
                and _is_constant(node.value, found, names)
            ):
                found.add(target.id)
    return found


def _is_constant(node: ast.expr, known: set[str], names: Names) -> bool:
    library = names.library(node)
    if library is not None:
        base, _, last = library.rpartition(".")
        return last in vocabulary.CONSTANTS.get(base, ())
    match node:
        case ast.Constant():
            return True
        case ast.Name(id=name):
            return name in known
        case ast.UnaryOp():
            return _is_constant(node.operand, known, names)
        case ast.BinOp():
            return _is_constant(node.left, known, names) and _is_constant(node.right, known, names)
        case ast.Call(func=function, args=arguments, keywords=[]):
            called = names.library(function) or ""
            plain = isinstance(function, ast.Name) and function.id in ("float", "int") and function.id not in known
            return (plain or called.startswith("math.") or called == "triton.language.constexpr") and all(
                _is_constant(argument, known, names) for argument in arguments
            )
    return False


class _Kernel:
    """One kernel's body."""

    def __init__(self, function: ast.FunctionDef, kernels: Set[str], constants: set[str], names: Names):
        self.function = function
        self.kernels = kernels
        self.constants = constants
        self.names = names
        self.local = {argument.arg for argument in all_arguments(function.args)}
        self.local |= {
            node.id
            for statement in function.body
            for node in ast.walk(statement)
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
        }

    def violations(self) -> Iterator[Violation]:
        if self.function.args.vararg or self.function.args.kwarg:
            yield violation("outside_language", self.function, "a kernel with * or ** arguments")
        for default in [*self.function.args.defaults, *self.function.args.kw_defaults]:
            if default is not None and not _is_constant(default, self.constants, self.names):
                yield violation("outside_language", default, "a default of a kernel's that is no constant of the file")
        waiting: list[tuple[ast.AST, ast.AST]] = [(statement, self.function) for statement in self.function.body]
        while waiting:
            node, parent = waiting.pop()
            if isinstance(node, ast.AnnAssign):  # its annotation is not run inside a function
                waiting += [(part, node) for part in (node.target, node.value) if part is not None]
                continue
            yield from self._check(node, parent)
            is_chain = isinstance(node, ast.Attribute) and self.names.library(node) is not None
            waiting += [(child, node) for child in ast.iter_child_nodes(node) if not is_chain]

    def _check(self, node: ast.AST, parent: ast.AST) -> Iterator[Violation]:
        library = self.names.library(node) if isinstance(node, ast.Name | ast.Attribute) else None
        if not isinstance(node, _NODES) or isinstance(node, ast.FunctionDef):
            yield violation("outside_language", node, f"{type(node).__name__} in a kernel")
        elif isinstance(node, ast.Subscript) and not isinstance(node.ctx, ast.Load):
            yield violation("outside_language", node, "assignment to a part of something in a kernel: write tl.store")
        elif isinstance(node, ast.BinOp | ast.AugAssign) and isinstance(node.op, ast.MatMult):
            yield violation("library_call", node, "@ in a kernel: write tl.dot")
        elif library is not None:
            yield from self._check_library(node, library)
        elif isinstance(node, ast.Name):
            yield from self._check_name(node, parent)
        elif isinstance(node, ast.Attribute):
            yield from self._check_attribute(node)
        elif isinstance(node, ast.Call):
            yield from self._check_call(node)
        elif isinstance(node, ast.For) and not self._is_range(node.iter):
            yield violation("outside_language", node, "a loop in a kernel goes over range, tl.range or tl.static_range")
        elif isinstance(node, ast.Constant) and isinstance(node.value, bytes):
            yield violation("outside_language", node, "bytes in a kernel")

    def _check_library(self, node: ast.AST, library: str) -> Iterator[Violation]:
        base, _, last = library.rpartition(".")
        if last not in vocabulary.DEVICE.get(base, ()) and library != "triton.language.constexpr":
            rule = "private_attribute" if last.startswith("_") else "library_call"
            instead = vocabulary.INSTEAD_IN_KERNELS.get(last)
            hint = f"write {instead}" if instead else "kernels use tl and libdevice"
            yield violation(rule, node, f"{library} in a kernel: {hint}")

    def _check_name(self, node: ast.Name, parent: ast.AST) -> Iterator[Violation]:
        name = node.id
        called = isinstance(parent, ast.Call) and parent.func is node
        if name in self.local:
            if called:
                yield violation(
                    "outside_language", node, f"{name}(…) in a kernel: what is called is a kernel, or of tl"
                )
        elif name in self.constants:
            if called:
                yield violation(
                    "outside_language", node, f"{name}(…) in a kernel: a constant of the file is no function"
                )
        elif name in self.kernels:
            return
        elif not (called and name in vocabulary.DEVICE_BUILTINS and not self._is_bound(name)):
            evidence = f"{name} in a kernel: neither an argument, nor a kernel, nor a constant of the file"
            yield violation("forbidden_name", node, f"{evidence} (tl.constexpr, a number)")

    def _is_bound(self, name: str) -> bool:
        return bool(self.names.scopes[self.function].find(name))

    def _check_attribute(self, node: ast.Attribute) -> Iterator[Violation]:
        if not isinstance(node.ctx, ast.Load):
            yield violation("patched_library", node, f"assignment to .{node.attr} in a kernel")
        elif node.attr.startswith("_"):
            yield violation("private_attribute", node, f"….{node.attr} in a kernel")
        elif node.attr not in vocabulary.DEVICE_ATTRIBUTES:
            evidence = f"….{node.attr} in a kernel: write a function of tl, as in tl.sum(x, axis=0)"
            yield violation("outside_language", node, evidence)

    def _check_call(self, node: ast.Call) -> Iterator[Violation]:
        if not isinstance(node.func, ast.Name | ast.Attribute):
            yield violation("outside_language", node, "a kernel calls functions by their names")
        for keyword in node.keywords:
            if keyword.arg is None:
                yield violation("outside_language", node, "** in a kernel")
        if self.names.library(node.func) in _COMBINING:
            given = [*node.args[2:3], *(keyword.value for keyword in node.keywords if keyword.arg == "combine_fn")]
            for each in given:
                if not (isinstance(each, ast.Name) and each.id in self.kernels - self.local):
                    yield violation(
                        "outside_language", node, "what combines elements is a kernel of this file, by name"
                    )

    def _is_range(self, node: ast.expr) -> bool:
        if not isinstance(node, ast.Call):
            return False
        library = self.names.library(node.func)
        is_plain = isinstance(node.func, ast.Name) and node.func.id == "range" and "range" not in self.local
        return is_plain or library in ("triton.language.range", "triton.language.static_range")
