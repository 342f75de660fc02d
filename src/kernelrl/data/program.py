"""The normalised program of a task: a hash of what it computes, whatever its names and its layout.

Every expression of `Model` is hashed with the names in it replaced by what they stand for: an argument by its position,
a variable or an attribute by the expression that was assigned to it, an imported name by its full path. A statement
counts only where the returned value depends on it. So two programs that differ only in names, comments, annotations,
temporaries, the order of independent statements or dead code have the same hash (value numbering; the hash of an
expression is made of the hashes of its parts, as in Merkle, CRYPTO 1987).
"""

from __future__ import annotations

import ast
import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from kernelrl.data.rewriting import parse_expression, stored_names

Scope = dict[str, str]
"""Hash by name of what the name stands for; attributes of `self` by `self.NAME`."""
_COMMUTATIVE = (ast.Add, ast.Mult, ast.BitAnd, ast.BitOr, ast.BitXor)


@dataclass(frozen=True)
class NormalisedProgram:
    """Hashes (hex) of a program.

    Attributes:
        structure: without sizes: all numbers of the module are equal to each other, and so are those of `get_inputs`
            except 0 and 1, which say what is broadcast; `get_init_inputs` is left out.
        sizes: with all numbers.
    """

    structure: str
    sizes: str


def normalise(source: str) -> NormalisedProgram:
    """Hash a KernelBench-format program.

    Raises:
        SyntaxError, ValueError: it does not parse.
        RecursionError: it is nested too deeply.
    """
    tree = ast.parse(source)
    unsized = _Module(tree, "operators")
    return NormalisedProgram(
        structure=_hash(unsized.value("Model"), unsized.value("get_inputs")), sizes=_hash_with_sizes(tree)
    )


def hash_program(source: str) -> str:
    """`NormalisedProgram.sizes` alone, in half the time; of a program that cannot be read so, the hash of its text."""
    try:
        return _hash_with_sizes(ast.parse(source))
    except Exception:  # whatever an odd program breaks
        return _hash(source)


def _hash_with_sizes(tree: ast.Module) -> str:
    sized = _Module(tree, "all")
    return _hash(sized.value("Model"), sized.value("get_inputs"), sized.value("get_init_inputs"))


def hash_layers(source: str) -> str:
    """Hash (hex) of `Model` without any number and without its inputs: the same layers in other sizes have one hash.

    Of a program that cannot be read so, e.g. because it is nested too deeply, it is the hash of the text.
    """
    try:
        return _Module(ast.parse(source), "none").value("Model")
    except Exception:  # whatever an odd program breaks
        return _hash(source)


def imported_names(tree: ast.Module) -> dict[str, str]:
    """Full path by local name of what a module imports, e.g. `F` -> `torch.nn.functional`."""
    names = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                path = alias.name if alias.asname else alias.name.partition(".")[0]
                names[alias.asname or path] = path
        elif isinstance(node, ast.ImportFrom):
            package = "." * node.level + (node.module or "")
            names |= {alias.asname or alias.name: f"{package}.{alias.name}" for alias in node.names}
    return names


class _Module:
    """Names of a module, hashed when they are first asked for.

    Args:
        numbers: which of them count: all; those that choose what an operator does, not sizes; or none.
    """

    def __init__(self, tree: ast.Module, numbers: Literal["all", "operators", "none"]):
        self._sizes = numbers == "all"
        self.ignores_numbers = numbers == "none"
        self._imported = imported_names(tree)
        self._definitions: dict[str, ast.stmt] = {}
        for node in tree.body:
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                self._definitions[node.name] = node
            elif isinstance(node, ast.Assign | ast.AnnAssign | ast.AugAssign):
                targets = node.targets if isinstance(node, ast.Assign) else [node.target]
                names = [name for target in targets for name in _assigned(target)]
                self._definitions |= dict.fromkeys(names, node)
        self._known: dict[str, str] = {}

    def value(self, name: str) -> str:
        """What a name of the module stands for; one that it does not define is a builtin, or imported."""
        if name not in self._known:
            self._known[name] = _hash("recursion")
            self._known[name] = self._define(name)
        return self._known[name]

    def imported_path(self, name: str) -> str | None:
        """Full path of an imported name."""
        return None if name in self._definitions else self._imported.get(name)

    def _define(self, name: str) -> str:
        node = self._definitions.get(name)
        if node is None:
            return _hash("name", self._imported.get(name, name))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            are_sizes = name == "get_inputs" and not self._sizes
            return _Function(self, {}, are_sizes).call(node, is_method=False)
        if isinstance(node, ast.ClassDef):
            return self._define_class(node)
        assert isinstance(node, ast.Assign | ast.AnnAssign | ast.AugAssign)
        if node.value is None or (not self._sizes and _is_number(node.value)):
            return _hash("size")
        targets = node.targets if isinstance(node, ast.Assign) else [node.target]
        target = next(it for it in targets if name in _assigned(it))  # of `height = width = 256`, the one asked for
        position = _assigned(target).index(name)
        is_tuple = isinstance(target, ast.Tuple | ast.List)
        if isinstance(node.value, ast.Tuple | ast.List) and is_tuple:
            part = node.value.elts[position] if position < len(node.value.elts) else node.value
            return _hash("size") if not self._sizes and _is_number(part) else _Function(self, {}).expression(part)
        return _hash("module", _Function(self, {}).expression(node.value), str(position))

    def _define_class(self, node: ast.ClassDef) -> str:
        """A class is what its `forward` returns, or its methods where it has none; `__init__` sets the attributes."""
        methods = {it.name: it for it in node.body if isinstance(it, ast.FunctionDef)}
        attributes: Scope = {}
        for statement in node.body:
            if isinstance(statement, ast.Assign):
                value = _Function(self, {}).expression(statement.value)
                attributes |= {f"self.{ast.unparse(target)}": value for target in statement.targets}
        if "__init__" in methods:
            start = _Function(self, attributes)
            start.call(methods["__init__"], is_method=True)
            attributes = {name: value for name, value in start.scope.items() if name.startswith("self.")}
        others = {name: it for name, it in methods.items() if name not in ("__init__", "forward")}
        for name, method in others.items():
            attributes[f"self.{name}"] = _hash("recursion")
            attributes[f"self.{name}"] = _Function(self, attributes).call(method, is_method=True)
        if "forward" in methods:
            return _hash("class", _Function(self, attributes).call(methods["forward"], is_method=True))
        bases = [_Function(self, {}).expression(base) for base in node.bases]
        return _hash("class", *bases, *(f"{name}={value}" for name, value in sorted(attributes.items())))


def _assigned(target: ast.expr) -> list[str]:
    """The names in the target of an assignment, in order."""
    return [it.id for it in ast.walk(target) if isinstance(it, ast.Name)]


def _is_number(node: ast.expr) -> bool:
    """Whether a module-level value is made of numbers alone, e.g. `64 * 1024` or `(3, 5)`."""
    parts = (ast.BinOp, ast.UnaryOp, ast.Tuple, ast.List, ast.Constant, ast.operator, ast.unaryop, ast.expr_context)
    constants = [it.value for it in ast.walk(node) if isinstance(it, ast.Constant)]
    names = (ast.Name, *parts)
    return all(isinstance(it, names) for it in ast.walk(node)) and all(
        isinstance(value, int | float) and not isinstance(value, bool) for value in constants
    )


class _Function:
    """Values of the names in a function's body, statement by statement."""

    def __init__(self, module: _Module, scope: Mapping[str, str], numbers_are_sizes: bool = False):
        self.module = module
        self._numbers_are_sizes = numbers_are_sizes
        self.scope: Scope = dict(scope)
        self._self: str | None = None
        self._returned: list[str] = []

    def call(self, node: ast.FunctionDef | ast.AsyncFunctionDef, is_method: bool) -> str:
        """What the function returns."""
        arguments = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
        if is_method and arguments:
            self._self = arguments.pop(0).arg
        for position, argument in enumerate(arguments):
            self.scope[argument.arg] = _hash("argument", str(position))
        for variadic in (node.args.vararg, node.args.kwarg):
            if variadic is not None:
                self.scope[variadic.arg] = _hash("variadic")
        self._block(node.body)
        return _hash("function", *self._returned)

    def _inner(self) -> _Function:
        """A scope inside this one."""
        inner = _Function(self.module, self.scope, self._numbers_are_sizes)
        inner._self = self._self
        return inner

    def _block(self, body: Sequence[ast.stmt]) -> None:
        for statement in body:
            self._statement(statement)
            if isinstance(statement, ast.Return | ast.Raise | ast.Break | ast.Continue):
                return  # what follows is never reached

    def _statement(self, node: ast.stmt) -> None:
        match node:
            case ast.Return():
                self._returned.append(self.expression(node.value))
            case ast.Assign():
                for target in node.targets:
                    self._assign(target, node.value)
            case ast.AnnAssign() if node.value is not None:
                self._assign(node.target, node.value)
            case ast.AugAssign():
                self._assign(node.target, ast.BinOp(_as_load(node.target), node.op, node.value))
            case ast.Expr(value=ast.Call() as call):
                self._effect(call)
            case ast.If(test=ast.Constant(value=value)):
                self._block(node.body if value else node.orelse)
            case ast.If() | ast.For() | ast.While() | ast.With() | ast.Try():
                self._compound(node)
            case ast.FunctionDef():
                self.scope[node.name] = self._inner().call(node, is_method=False)

    def _assign(self, target: ast.expr, value: ast.expr) -> None:
        if isinstance(target, ast.Tuple | ast.List):
            values = value.elts if isinstance(value, ast.Tuple | ast.List) else []
            if len(values) == len(target.elts):
                hashes = [self.expression(it) for it in values]
            else:
                whole = self.expression(value)
                hashes = [_hash("item", whole, str(position)) for position in range(len(target.elts))]
            for part, each in zip(target.elts, hashes, strict=True):
                self._set(part, each)
        else:
            self._set(target, self.expression(value))

    def _set(self, target: ast.expr, value: str) -> None:
        match target:
            case ast.Name(id=name):
                self.scope[name] = value
            case ast.Attribute(value=ast.Name(id=name), attr=attribute) if name == self._self:
                self.scope[f"self.{attribute}"] = value
            case ast.Subscript(value=inner, slice=index):
                self._set(inner, _hash("store", self.expression(_as_load(inner)), self.expression(index), value))
            case ast.Attribute(value=inner, attr=attribute):
                self._set(inner, _hash("set", self.expression(_as_load(inner)), attribute, value))
            case ast.Starred(value=inner):
                self._set(inner, value)

    def _effect(self, call: ast.Call) -> None:
        """A call whose result is not used changes what it is called on (`x.add_(y)`, `self.add_module(…)`), or nothing.

        Functions change their first argument where their name says so (`nn.init.zeros_(w)`).
        """
        value = self.expression(call)
        match call.func:
            case ast.Attribute(value=ast.Name(id=name)) if name == self._self:
                match call.args:
                    case [ast.Constant(value=str() as attribute), content]:  # register_buffer, add_module, …
                        self.scope[f"self.{attribute}"] = self.expression(content)
            case ast.Attribute(value=owner, attr=name) if self._path(call.func) is None:
                if name.endswith("_") or name in ("append", "extend", "update", "insert"):
                    self._set(_as_load(owner), value)
            case ast.Attribute(attr=name) if name.endswith("_") and call.args:
                self._set(_as_load(call.args[0]), value)

    def _compound(self, node: ast.stmt) -> None:
        """A branch or loop gives every name that is assigned in it a value made of the whole statement."""
        inner = self._inner()
        for number, name in enumerate(dict.fromkeys(stored_names(node))):
            inner.scope[name] = self.scope.get(name) or _hash("new", str(number))
        parts = [type(node).__name__]
        for field, value in ast.iter_fields(node):
            if isinstance(value, ast.expr) and not (isinstance(node, ast.For) and field == "target"):
                parts.append(inner.expression(value))
            elif isinstance(value, list):
                for item in value:
                    if isinstance(item, ast.withitem):
                        parts.append(inner.expression(item.context_expr))
                    elif isinstance(item, ast.ExceptHandler):
                        inner._block(item.body)
                    elif isinstance(item, ast.stmt):
                        inner._block([item])
        changed = [name for name in inner.scope if inner.scope[name] != self.scope.get(name)]
        whole = _hash(*parts, *inner._returned, *sorted(inner.scope[name] for name in changed))
        for name in changed:
            self.scope[name] = _hash("after", whole, inner.scope[name])
        self._returned += [whole] if inner._returned else []

    def expression(self, node: ast.AST | None) -> str:
        """Hash of an expression."""
        match node:
            case None:
                return _hash("none")
            case ast.Name(id=name) if name in self.scope:
                return self.scope[name]
            case ast.Name(id=name):
                return self.module.value(name)
            case ast.Attribute(value=ast.Name(id=name), attr=attribute) if name == self._self:
                return self.scope.get(f"self.{attribute}") or _hash("attribute", "self", attribute)
            case ast.Attribute() if (path := self._path(node)) is not None:
                return _hash("name", path)
            case ast.BinOp(left=left, op=op, right=right) if isinstance(op, _COMMUTATIVE):
                return _hash("BinOp", type(op).__name__, *sorted((self.expression(left), self.expression(right))))
            case ast.Constant(value=int(value)) if self._numbers_are_sizes and value not in (0, 1):
                return _hash("size")
            case ast.Constant(value=bool(value)):
                return _hash("constant", repr(value))
            case ast.Constant(value=int() | float()) if self.module.ignores_numbers:
                return _hash("size")
            case ast.Constant(value=value):
                return _hash("constant", repr(value))
            case ast.Lambda() | ast.ListComp() | ast.GeneratorExp() | ast.SetComp() | ast.DictComp():
                return self._with_own_names(node)
            case ast.Call(keywords=[_, _, *_] as keywords):
                ordered = sorted(keywords, key=lambda it: it.arg or "")
                return self._plain(ast.Call(node.func, node.args, ordered))
            case _:
                return self._plain(node)

    def _plain(self, node: ast.AST) -> str:
        parts = [type(node).__name__]
        for _, value in ast.iter_fields(node):
            if isinstance(value, ast.expr_context):
                continue
            items = value if isinstance(value, list) else [value]
            parts += [self.expression(it) if isinstance(it, ast.AST) else repr(it) for it in items]
        return _hash(*parts)

    def _with_own_names(self, node: ast.AST) -> str:
        inner = self._inner()
        bound = [it.arg for it in ast.walk(node) if isinstance(it, ast.arg)] + stored_names(node)
        inner.scope |= {name: _hash("bound", str(number)) for number, name in enumerate(bound)}
        children = ast.iter_child_nodes(node)
        parts = [_hash("arg") if isinstance(it, ast.arguments) else inner.expression(it) for it in children]
        return _hash(type(node).__name__, *parts)

    def _path(self, node: ast.expr) -> str | None:
        """Full path of a name below an imported module, e.g. `F.relu` -> `torch.nn.functional.relu`."""
        if isinstance(node, ast.Attribute):
            owner = self._path(node.value)
            return None if owner is None else f"{owner}.{node.attr}"
        if isinstance(node, ast.Name) and node.id not in self.scope:
            return self.module.imported_path(node.id)
        return None


def _as_load(node: ast.expr) -> ast.expr:
    """The same place, read instead of written."""
    return parse_expression(ast.unparse(node))


def _hash(*parts: str) -> str:
    return hashlib.blake2b("\0".join(parts).encode(), digest_size=16).hexdigest()
