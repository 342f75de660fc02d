"""What a candidate's expressions may be, and what it uses of modules, objects and functions.

One walk over the file makes cells and edges (`flow.py`) and writes down every use: of a library's name, of an
attribute, of a call. Which uses are allowed is said in `rules.py`, once all kinds are known.

Not followed: the bodies of Triton kernels (`kernels.py`), and what is computed with numbers and tensors.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable

from kernelrl.dialects.language import vocabulary
from kernelrl.dialects.language.calls import Calls
from kernelrl.dialects.language.definitions import bound_in_class
from kernelrl.dialects.language.flow import Kind
from kernelrl.dialects.language.names import Names, run_outside


class Meaning(Calls):
    """The walk over a whole file. Its attributes are complete after construction, and kinds are in `flow`."""

    def __init__(self, tree: ast.Module, names: Names):
        super().__init__(tree, names)
        self._body(tree.body)
        self.flow.settle()
        self._find_contexts()

    @property
    def unreached(self) -> frozenset[tuple[int, int]]:
        """Where functions stand that nothing calls, but for kernels, which call each other."""
        functions = (node for node in self.routines if isinstance(node, ast.FunctionDef) and node not in self.kernels)
        return frozenset(
            (node.lineno, node.col_offset) for node in functions if self.routines[node].unit.context == "dead"
        )

    def names_in_use(self, tree: ast.Module) -> set[str]:
        """Names that stand outside of functions that nothing calls."""
        found: set[str] = set()
        waiting: list[ast.AST] = [tree]
        while waiting:
            node = waiting.pop()
            if isinstance(node, ast.Name):
                found.add(node.id)
            if isinstance(node, ast.FunctionDef) and self.routines[node].unit.context == "dead":
                waiting += run_outside(node)
            else:
                waiting += ast.iter_child_nodes(node)
        return found

    def _statement(self, node: ast.stmt) -> None:
        match node:
            case ast.FunctionDef():
                self._define_function(node)
            case ast.ClassDef():
                self._define_class(node)
            case ast.Return():
                if node.value is not None:
                    value = self._value(node.value)
                    if self._routine is not None:
                        self.flow.assign(value, self._routine.entry.returned)
            case ast.Assign():
                if not self._sets_environment(node):
                    self._assign(node.targets, node.value)
            case ast.AnnAssign():
                self._type(node.annotation, is_hint=not isinstance(self._scope.node, ast.ClassDef))
                if node.value is not None:
                    self._assign([node.target], node.value)
                elif not isinstance(node.target, ast.Name):
                    self._refuse("outside_language", node, "a type without a value of anything but a name")
            case ast.AugAssign():
                value = self._value(ast.BinOp(node.target, node.op, node.value, lineno=node.lineno, col_offset=0))
                self._bind(node.target, value)
            case ast.For():
                for target, value in self._loop(node.target, node.iter):
                    self._bind(target, value)
                self._body([*node.body, *node.orelse])
            case ast.While() | ast.If():
                self._value(node.test)
                self._body([*node.body, *node.orelse])
            case ast.With():
                for item in node.items:
                    value = self._value(item.context_expr)
                    self._check_with(item.context_expr)
                    if item.optional_vars is not None:
                        self._bind(item.optional_vars, value)
                self._body(node.body)
            case ast.Try():
                for handler in node.handlers:
                    if handler.name:
                        self.flow.assign(self.flow.data(), self._variable(self._scope, handler.name))
                    self._body(handler.body)
                self._body([*node.body, *node.orelse, *node.finalbody])
            case ast.Raise():
                for part in (node.exc, node.cause):
                    if part is not None:
                        self._value(part)
            case ast.Assert():
                self._value(node.test)
                if node.msg is not None:
                    self._value(node.msg)
            case ast.Expr():
                self._value(node.value)
            case ast.Delete():
                for target in node.targets:
                    if isinstance(target, ast.Subscript):
                        self._value(target.value)
                        self._value(target.slice)

    def _body(self, statements: Iterable[ast.stmt]) -> None:
        for statement in statements:
            self._statement(statement)

    def _check_with(self, node: ast.expr) -> None:
        name = self.names.library(node.func) if isinstance(node, ast.Call) else None
        if name not in ("torch.no_grad", "torch.inference_mode", "torch.cuda.device"):
            self._refuse("outside_language", node, f"with {ast.unparse(node)[:60]}: only torch.no_grad() and kin")

    def _sets_environment(self, node: ast.Assign) -> bool:
        """Whether a statement sets a variable that steers a compiler, which has no effect here."""
        match node:
            case ast.Assign(
                targets=[ast.Subscript(value=ast.Attribute() as place, slice=ast.Constant(value=key))],
                value=ast.Constant(value=str()),
            ):
                return self.names.library(place) == "os.environ" and key in vocabulary.ENVIRONMENT
        return False

    def _define_function(self, node: ast.FunctionDef) -> None:
        routine = self.routines[node]
        decorators = [
            self.names.library(each.func if isinstance(each, ast.Call) else each) for each in node.decorator_list
        ]
        for decorator in node.decorator_list:
            self._decorate(decorator)
        self._define_arguments(node)
        if "triton.jit" in decorators:
            if decorators[-1] != "triton.jit":
                self._refuse("outside_language", node, f"kernel {node.name}: triton.jit is the decorator next to it")
            if self._scope.parent is not None:
                self._refuse(
                    "outside_language", node, f"kernel {node.name} inside of something; write it at module level"
                )
            if self._scope.bound[node.name] > 1:
                self._refuse("outside_language", node, f"kernel {node.name} is bound more than once")
            self.kernels.append(node)
            self._functions.pop((self._scope, node.name), None)
            self.flow.assign(self.flow.value(Kind.KERNEL), self._variable(self._scope, node.name))
            return
        if routine.owner is None:
            self.flow.assign(self.flow.value(Kind.FUNCTION), self._variable(self._scope, node.name))
        with self._inside(self.names.scopes[node], routine):
            self._body(node.body)

    def _decorate(self, node: ast.expr) -> None:
        name = self.names.library(node.func if isinstance(node, ast.Call) else node)
        if name in ("torch.no_grad", "torch.inference_mode") or (
            name in ("triton.autotune", "triton.heuristics") and isinstance(node, ast.Call)
        ):
            self._value(node)
        elif name == "triton.jit":
            if isinstance(node, ast.Call):
                self._check_keywords(node, name)
                for keyword in node.keywords:
                    self._value(keyword.value)
        elif name in vocabulary.CACHES:
            if isinstance(node, ast.Call) and not all(map(_is_constant, _given(node))):
                self._refuse("outside_language", node, f"{name}: its own arguments are constants")
        elif not (isinstance(node, ast.Name) and node.id == "staticmethod" and self._scope.find("staticmethod") == []):
            evidence = f"decorator {ast.unparse(node)[:60]}; there are triton.jit, autotune, heuristics, staticmethod, "
            self._refuse("outside_language", node, evidence + "torch.no_grad() and functools.cache")

    def _define_class(self, node: ast.ClassDef) -> None:
        for base in node.bases:
            if not self._may_derive(node, base):
                name = self.names.library(base) or ast.unparse(base)[:60]
                evidence = f"class {node.name}({name}): {_BASES}"
                if name == "torch.autograd.Function":
                    evidence = f"class {node.name}({name}): nothing is trained here; make its forward a function"
                self._refuse("library_call" if name.startswith("torch.") else "outside_language", base, evidence)
        for decorator in node.decorator_list:
            if not self._is_dataclass(decorator):
                self._refuse("outside_language", decorator, f"decorator {ast.unparse(decorator)[:60]} of a class")
        if self._scope.bound[node.name] > 1:
            self._refuse("outside_language", node, f"class {node.name} is bound more than once")
        scope = self.names.scopes[node]
        with self._inside(scope):
            self._body(node.body)
        for statement in node.body:
            if isinstance(statement, ast.Assign | ast.AnnAssign):
                for name in bound_in_class(statement):
                    value = self._variable(scope, name)
                    self.flow.assign(value, self._field(name))
                    if node in self._records:
                        self.flow.assign(self.flow.value(), value)

    def _is_dataclass(self, decorator: ast.expr) -> bool:
        """Whether a decorator is `dataclass`, with constants for its arguments."""
        call = decorator if isinstance(decorator, ast.Call) else None
        if call is not None:
            self._check_keywords(call, "dataclasses.dataclass")
        constant = all(isinstance(keyword.value, ast.Constant) for keyword in (call.keywords if call else []))
        return constant and self.names.library(call.func if call else decorator) == "dataclasses.dataclass"

    def _may_derive(self, node: ast.ClassDef, base: ast.expr) -> bool:
        """`nn.Module`, a class of this file, a named tuple, or a layer of the library's with a `forward` of its own."""
        if self.names.library(base) == vocabulary.NAMED_TUPLE:
            return not node.decorator_list
        module, _, name = (self.names.library(base) or "").rpartition(".")
        if module != "torch.nn":
            return isinstance(base, ast.Name) and base.id in self.classes
        methods = {each.name for each in node.body if isinstance(each, ast.FunctionDef)}
        replaces = "forward" in methods and "reset_parameters" not in methods
        return name == "Module" or (replaces and name in vocabulary.DERIVABLE)


_BASES = (
    "a class has no base, or nn.Module, NamedTuple, one of this file, or a norm, a convolution or Linear with its own "
    "forward"
)


def _given(node: ast.Call) -> list[ast.expr]:
    return [*node.args, *(keyword.value for keyword in node.keywords)]


def _is_constant(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant)
