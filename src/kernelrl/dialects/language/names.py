"""What each name of a candidate stands for: an import, or what which statements bind, in which scope.

An imported name stands for one thing in the whole file: nothing else may bind it.
"""

from __future__ import annotations

import ast
import builtins
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

from kernelrl.dialects.language import vocabulary
from kernelrl.verdict import Violation

Comprehension = ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp


@dataclass(eq=False)
class Scope:
    """A file, class, function, lambda or comprehension."""

    node: ast.AST
    parent: Scope | None = None
    bound: Counter[str] = field(default_factory=Counter)
    """How often each name is bound."""
    of_file: set[str] = field(default_factory=set)
    """Names declared `global`."""
    of_function: set[str] = field(default_factory=set)
    """Names declared `nonlocal`."""

    def find(self, name: str) -> list[Scope]:
        """The scopes in one of which a name that is read here is bound; none for what this file does not bind.

        Two where a class body reads it: until the class has bound a name, the one outside counts.
        """
        found: list[Scope] = []
        scope: Scope | None = self
        while scope is not None:
            is_class = isinstance(scope.node, ast.ClassDef)
            declared = scope.of_file | scope.of_function
            if name in scope.bound and name not in declared and (scope is self or not is_class):
                found.append(scope)
                if not is_class:
                    break
            scope = scope.file() if name in scope.of_file else scope.parent
        return found

    def file(self) -> Scope:
        """The scope of the file."""
        scope = self
        while scope.parent is not None:
            scope = scope.parent
        return scope

    def may_be_builtin(self, name: str) -> bool:
        """Whether a name that is read here is a built-in function until a class body has bound it."""
        return name in _BUILTINS and all(isinstance(scope.node, ast.ClassDef) for scope in self.find(name))

    def binds(self, walrus: bool = False) -> Scope:
        """Where a name that is assigned here is bound."""
        scope = self
        while walrus and isinstance(scope.node, Comprehension) and scope.parent is not None:
            scope = scope.parent
        return scope


@dataclass
class Names:
    """The names of one file."""

    imports: dict[str, str]
    """Imported name -> full dotted name."""
    scopes: dict[ast.AST, Scope]
    """By file, class, function or lambda."""
    violations: list[Violation]
    left_over: dict[str, Violation] = field(default_factory=dict)
    """By imported name: what is said of an import that may stand where nothing uses it."""

    def library(self, node: ast.AST) -> str | None:
        """The full dotted name of an attribute chain that begins with an import, or None."""
        parts: list[str] = []
        while isinstance(node, ast.Attribute):
            parts.append(node.attr)
            node = node.value
        if not isinstance(node, ast.Name) or node.id not in self.imports:
            return None
        return ".".join([self.imports[node.id], *reversed(parts)])


MOST_CHARS = 300
"""Length of what is said of a violation."""


def violation(rule: str, node: ast.AST, evidence: str) -> Violation:
    return Violation(rule=rule, evidence=evidence[:MOST_CHARS], line=getattr(node, "lineno", None))


def resolve(tree: ast.Module) -> Names:
    """Find the imports and scopes of a file."""
    names = imports_of(tree)
    _bind(tree, names)
    for scope in names.scopes.values():
        if scope.parent is None:
            for name in sorted((scope.bound.keys() | names.imports.keys()) & _BUILTINS):
                evidence = f"{name} is a built-in function of Python; give the other thing a name of its own"
                names.violations.append(violation("forbidden_name", scope.node, evidence))
        for name in scope.bound.keys() & names.imports.keys():
            evidence = f"{name} is imported and bound again; give the other thing a name of its own"
            names.violations.append(violation("patched_library", scope.node, evidence))
        for name in scope.of_file | scope.of_function:
            if scope.parent is None or not scope.find(name):
                evidence = f"{name} is declared global or nonlocal, but bound nowhere outside"
                names.violations.append(violation("outside_language", scope.node, evidence))
    return names


def imports_of(tree: ast.Module) -> Names:
    """What a file imports, each of which is bound by nothing else in it (see `resolve`)."""
    names = Names({}, {}, [])
    for node in ast.walk(tree):
        if isinstance(node, ast.Import | ast.ImportFrom):
            names.violations += _read_import(node, names)
    return names


def _read_import(node: ast.Import | ast.ImportFrom, names: Names) -> Iterator[Violation]:
    imports = names.imports
    for alias in node.names:
        base = f"{node.module or ''}." if isinstance(node, ast.ImportFrom) else ""
        full = base + alias.name
        name = alias.asname or (alias.name.split(".")[0] if isinstance(node, ast.Import) else alias.name)
        stands_for = name if isinstance(node, ast.Import) and not alias.asname else full
        if name.startswith("__"):
            yield violation("forbidden_name", node, f"{name}: names do not begin with two underscores")
        elif isinstance(node, ast.ImportFrom) and node.level or alias.name == "*":
            yield violation("forbidden_import", node, f"import of {full}: name a module of the list, and what you need")
        elif imports.get(name, stands_for) != stands_for:
            yield violation("patched_library", node, f"{name} is imported as two different things")
        elif not may_import(full, isinstance(node, ast.ImportFrom)) and stands_for not in {"os", *vocabulary.PACKAGES}:
            hint = vocabulary.INSTEAD.get(full) or _HINTS.get(stands_for.split(".")[0], _NO_NEED)
            names.left_over[name] = violation("forbidden_import", node, f"import of {full}, which is used: {hint}")
        imports[name] = stands_for


_BUILTINS = frozenset(dir(builtins))
"""Names that a file which only seems to bind them would still have."""
_NO_NEED = "a kernel does not need it"
_HINTS = {
    "numpy": "use math, or torch.tensor in __init__",
    "functools": "lru_cache and cache may decorate functions; elsewhere, write functions and loops",
    "itertools": "there are product, chain, and repeat with a number; elsewhere, write loops",
    "operator": "write the operator itself",
    "enum": "write constants of the file, or a dataclass",
    "string": "put a source together by an f-string, or text.replace(…)",
    "einops": "write view, permute and reshape",
    "os": "only constants of os.environ that steer a compiler may be set",
    "time": "the executor measures",
    "warnings": "raise an error, or say nothing",
}


def may_import(full: str, from_module: bool) -> bool:
    """Whether the language has what is imported; else the import is without effect, and nothing may use it.

    Args:
        full: dotted name.
        from_module: its last part is taken from a module.
    """
    if full == vocabulary.NAMED_TUPLE or full in vocabulary.MODULES or full in vocabulary.DEVICE_MODULES:
        return True
    if full in vocabulary.PACKAGES or full in vocabulary.CACHES:
        return True
    base, _, name = full.rpartition(".")
    tables = (vocabulary.FORWARD, vocabulary.INIT, vocabulary.DEVICE, vocabulary.operators())
    return from_module and any(name in table.get(base, ()) for table in tables)


def _bind(tree: ast.Module, names: Names) -> None:
    """Make the scopes, and count in each what is bound there."""
    names.scopes[tree] = Scope(tree)
    waiting: list[tuple[ast.AST, Scope]] = [(child, names.scopes[tree]) for child in tree.body]
    while waiting:
        node, scope = waiting.pop()
        match node:
            case ast.FunctionDef() | ast.Lambda():
                inner = names.scopes[node] = Scope(node, scope)
                inner.bound.update(argument.arg for argument in all_arguments(node.args))
                waiting += [(each, scope) for each in run_outside(node)]
                if isinstance(node, ast.FunctionDef):
                    scope.bound[node.name] += 1
                waiting += [(each, inner) for each in (node.body if isinstance(node.body, list) else [node.body])]
            case ast.ClassDef():
                scope.bound[node.name] += 1
                inner = names.scopes[node] = Scope(node, scope)
                waiting += [(each, scope) for each in (*node.decorator_list, *node.bases, *node.keywords)]
                waiting += [(each, inner) for each in node.body]
            case ast.ListComp() | ast.SetComp() | ast.DictComp() | ast.GeneratorExp():
                inner = names.scopes[node] = Scope(node, scope)
                first = node.generators[0].iter
                waiting.append((first, scope))
                waiting += [(each, inner) for each in _without(node, first)]
            case _:
                _count(node, scope)
                waiting += [(child, scope) for child in ast.iter_child_nodes(node)]
    for scope in names.scopes.values():
        for name in (scope.of_file | scope.of_function) & scope.bound.keys():
            if scope.parent is not None:
                for outer in scope.find(name) or [scope.file()]:
                    outer.bound[name] += 1


def bound_in(tree: ast.Module) -> set[str]:
    """All names that a file binds, wherever it does."""
    return {name for scope in resolve(tree).scopes.values() for name in scope.bound}


def _count(node: ast.AST, scope: Scope) -> None:
    match node:
        case ast.NamedExpr(target=ast.Name(id=name)):
            scope.binds(walrus=True).bound[name] += 1
        case ast.Name(id=name, ctx=ast.Store() | ast.Del()):
            scope.bound[name] += 1
        case ast.ExceptHandler(name=str(name)):
            scope.bound[name] += 1
        case ast.Global(names=declared):
            scope.of_file.update(declared)
        case ast.Nonlocal(names=declared):
            scope.of_function.update(declared)


def _without(node: Comprehension, first: ast.expr) -> Iterator[ast.AST]:
    """The parts of a comprehension, but for the one that runs outside of it."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.comprehension):
            yield from (each for each in ast.iter_child_nodes(child) if each is not first)
        else:
            yield child


def run_outside(node: ast.FunctionDef | ast.Lambda) -> list[ast.expr]:
    """The parts of a function that run where it is defined: defaults, decorators, annotations."""
    parts = [*node.args.defaults, *(default for default in node.args.kw_defaults if default)]
    if isinstance(node, ast.FunctionDef):
        parts += node.decorator_list
        parts += [each for each in (node.returns, *(arg.annotation for arg in all_arguments(node.args))) if each]
    return parts


def all_arguments(arguments: ast.arguments) -> list[ast.arg]:
    rest = [argument for argument in (arguments.vararg, arguments.kwarg) if argument]
    return [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs, *rest]


def is_parameter_of_layer(node: ast.Attribute) -> bool:
    """Whether an attribute is written like a parameter of a layer that `self` has, e.g. `self.head.weight`."""
    match node:
        case ast.Attribute(value=ast.Attribute(value=ast.Name(id="self")), attr="weight" | "bias"):
            return True
    return False
