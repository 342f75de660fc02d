"""The forms of the candidate's Python: which statements and expressions there are, and how they may look."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator

from kernelrl.candidate import MAX_SOURCE_CHARS
from kernelrl.dialects.language import vocabulary
from kernelrl.dialects.language.names import all_arguments, is_parameter_of_layer, violation
from kernelrl.verdict import Violation

MAX_DEPTH = 90
"""Deepest nesting of expressions and statements: the rules walk them by recursion, a few frames for each."""

NODES = (
    # statements
    ast.Module, ast.FunctionDef, ast.ClassDef, ast.Return, ast.Delete, ast.Assign, ast.AugAssign, ast.AnnAssign,
    ast.For, ast.While, ast.If, ast.With, ast.withitem, ast.Raise, ast.Try, ast.ExceptHandler, ast.Assert, ast.Import,
    ast.ImportFrom, ast.alias, ast.Global, ast.Nonlocal, ast.Expr, ast.Pass, ast.Break, ast.Continue,
    # expressions
    ast.BoolOp, ast.NamedExpr, ast.BinOp, ast.UnaryOp, ast.Lambda, ast.IfExp, ast.Dict, ast.Set, ast.List, ast.Tuple,
    ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp, ast.comprehension, ast.Compare, ast.Call, ast.keyword,
    ast.JoinedStr, ast.FormattedValue, ast.Constant, ast.Attribute, ast.Subscript, ast.Starred, ast.Name, ast.Slice,
    ast.arguments, ast.arg, ast.expr_context, ast.boolop, ast.operator, ast.unaryop, ast.cmpop,
)  # fmt: skip
_DEFERRED = (ast.AsyncFunctionDef, ast.AsyncFor, ast.AsyncWith, ast.Await, ast.Yield, ast.YieldFrom)
_SIMPLE_FIELDS = re.compile(r"[^{}]*(?:(?:\{\{|\}\}|\{\w*(?:![rsa])?(?::[^{}]*)?\})[^{}]*)*")
_TYPE_AS_TEXT = re.compile(r"[\w.\[\], |]*")
_IN_CLASS = (ast.FunctionDef, ast.Assign, ast.AnnAssign, ast.Pass)


def find_size(source: str) -> list[Violation]:
    """What is wrong with the length of a source."""
    if len(source) <= MAX_SOURCE_CHARS:
        return []
    evidence = f"{len(source)} characters; at most {MAX_SOURCE_CHARS} are read"
    return [Violation(rule="source_too_long", evidence=evidence)]


def find_depth(tree: ast.AST) -> list[Violation]:
    """The first place that is nested too deeply to be looked at."""
    waiting: list[tuple[ast.AST, int]] = [(tree, 0)]
    while waiting:
        node, depth = waiting.pop()
        if depth > MAX_DEPTH:
            evidence = f"nested more than {MAX_DEPTH} levels deep; give parts names of their own"
            return [violation("outside_language", node, evidence)]
        waiting += [(child, depth + 1) for child in ast.iter_child_nodes(node)]
    return []


def find_forms(tree: ast.Module) -> Iterator[Violation]:
    """Statements and expressions that the language does not have, and odd uses of those that it has."""
    waiting: list[tuple[ast.AST, ast.AST]] = [(node, tree) for node in tree.body]
    while waiting:
        node, parent = waiting.pop()
        yield from _check_node(node, parent)
        waiting += [(child, node) for child in ast.iter_child_nodes(node)]


def _check_node(node: ast.AST, parent: ast.AST) -> Iterator[Violation]:
    if isinstance(node, _DEFERRED):
        yield violation("deferred_work", node, f"{type(node).__name__}: compute when forward is called, and return")
    elif isinstance(node, ast.match_case | ast.pattern):
        return  # the whole statement is refused
    elif not isinstance(node, NODES):
        yield violation("outside_language", node, f"{type(node).__name__} {_HINTS.get(type(node).__name__, _PLAIN)}")
    else:
        check = _CHECKS.get(type(node))
        if check is not None:
            yield from check(node, parent)


_PLAIN = "is not part of the language"
_HINTS = {
    "Match": "is not part of the language; write if and elif",
    "TryStar": "is not part of the language; write except",
}


def _check_class(node: ast.ClassDef, parent: ast.AST) -> Iterator[Violation]:
    if not isinstance(parent, ast.Module):
        yield violation("outside_language", node, f"class {node.name} inside of something; write it at module level")
    if node.keywords:
        yield violation("outside_language", node, f"class {node.name} with keyword arguments (a metaclass?)")
    if len(node.bases) > 1:
        evidence = f"class {node.name}: classes have one base, nn.Module, or none"
        yield violation("outside_language", node, evidence)
    for statement in node.body:
        is_docstring = isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)
        if not isinstance(statement, _IN_CLASS) and not is_docstring:
            yield violation("outside_language", statement, f"{type(statement).__name__} in a class body")
        targets = statement.targets if isinstance(statement, ast.Assign) else [getattr(statement, "target", None)]
        if not _is_record(node) and isinstance(statement, ast.Assign) and _are_constants(statement):
            targets = [each for target in targets if isinstance(target, ast.Tuple) for each in target.elts]
        for target in targets:
            if isinstance(target, ast.Name) and target.id in vocabulary.RESERVED:
                yield violation("patched_library", statement, f"{target.id} of nn.Module; give it another name")
            elif isinstance(statement, ast.Assign | ast.AnnAssign) and not isinstance(target, ast.Name):
                yield violation("outside_language", statement, "a class body assigns to names alone")
    yield from _check_definition(node.name, node)


def _are_constants(node: ast.Assign) -> bool:
    """Whether it is `A, B = 16, 32`."""
    match node:
        case ast.Assign(targets=[ast.Tuple(elts=names)], value=ast.Tuple(elts=values)):
            return len(names) == len(values) and all(isinstance(value, ast.Constant) for value in values)
    return False


def _is_record(node: ast.ClassDef) -> bool:
    return len(node.decorator_list) == 1 and not node.bases


def _check_function(node: ast.FunctionDef, parent: ast.AST) -> Iterator[Violation]:
    first = 0
    if isinstance(parent, ast.ClassDef):
        names = [argument.arg for argument in (*node.args.posonlyargs, *node.args.args)]
        first = int(names[:1] == ["self"])
        static = any(isinstance(each, ast.Name) and each.id == "staticmethod" for each in node.decorator_list)
        if (names[:1] == ["self"]) == static:
            evidence = f"method {node.name}: its first argument is self, unless it is a staticmethod"
            yield violation("outside_language", node, evidence)
        if node.name in vocabulary.RESERVED - vocabulary.OVERRIDABLE or (static and node.name in vocabulary.RESERVED):
            whose = "Python calls by itself" if node.name.startswith("__") else "nn.Module has"
            yield violation("patched_library", node, f"{node.name}, which {whose}: give your method another name")
    if not (node.name == "__init__" and isinstance(parent, ast.ClassDef)):
        yield from _check_definition(node.name, node)
    yield from _check_arguments(node, first)


def _check_lambda(node: ast.Lambda, parent: ast.AST) -> Iterator[Violation]:
    yield from _check_arguments(node, 0)


def _check_arguments(node: ast.FunctionDef | ast.Lambda, first: int) -> Iterator[Violation]:
    names = [argument.arg for argument in all_arguments(node.args)]
    for name in names:
        yield from _check_name(name, node)
    if "self" in names[first:]:
        yield violation("outside_language", node, "self is the first argument of a method, and nothing else")


def _check_definition(name: str, node: ast.AST) -> Iterator[Violation]:
    yield from _check_name(name, node)
    if name == "self":
        yield violation("outside_language", node, "self is bound again")


def _check_name(name: str, node: ast.AST) -> Iterator[Violation]:
    if name.startswith("__"):
        yield violation("forbidden_name", node, f"{name}: names do not begin with two underscores")


def _check_use_of_name(node: ast.Name, parent: ast.AST) -> Iterator[Violation]:
    yield from _check_name(node.id, node)
    if node.id == "self" and not isinstance(node.ctx, ast.Load):
        yield violation("outside_language", node, "self is bound again")


def _check_attribute(node: ast.Attribute, parent: ast.AST) -> Iterator[Violation]:
    if isinstance(node.ctx, ast.Load) or (is_parameter_of_layer(node) and isinstance(parent, ast.Assign)):
        return
    if not (isinstance(node.value, ast.Name) and node.value.id == "self"):
        instead = _INSTEAD.get(node.attr, "only attributes of self are assigned")
        evidence = f"assignment to …{ast.unparse(node)[-60:]}: {instead}"
        yield violation("patched_library", node, evidence)
    elif node.attr in vocabulary.RESERVED:
        yield violation(
            "patched_library",
            node,
            f"assignment to self.{node.attr}: nn.Module has that name, so give yours another one",
        )
    elif not isinstance(parent, ast.Assign | ast.AugAssign | ast.AnnAssign | ast.Tuple | ast.List | ast.Delete):
        yield violation("outside_language", node, f"self.{node.attr} is bound by a {type(parent).__name__}; assign it")


_INSTEAD = {
    "data": "fill a tensor by .data.copy_(…)",
    "requires_grad": "call .requires_grad_(False)",
    "num_batches_tracked": "give the counter to your kernel, which adds to it",
}


def is_type_of(node: ast.AST) -> bool:
    """Whether it is `type(x)`."""
    match node:
        case ast.Call(func=ast.Name(id="type"), args=[each], keywords=[]) if not isinstance(each, ast.Starred):
            return True
    return False


def may_hold_type(parent: ast.AST) -> bool:
    """Whether `type(x)` may stand there: where it is compared or told. The class itself makes objects."""
    is_name = isinstance(parent, ast.Attribute) and parent.attr == "__name__" and isinstance(parent.ctx, ast.Load)
    return is_name or isinstance(parent, ast.Compare | ast.FormattedValue)


def _check_call(node: ast.Call, parent: ast.AST) -> Iterator[Violation]:
    if isinstance(node.func, ast.Name) and node.func.id == "type" and not (is_type_of(node) and may_hold_type(parent)):
        yield violation("forbidden_name", node, "type(x) stands in a comparison or an f-string, or before .__name__")


def _check_generator(node: ast.GeneratorExp, parent: ast.AST) -> Iterator[Violation]:
    unpacked = isinstance(parent, ast.Assign) and all(isinstance(each, ast.Tuple | ast.List) for each in parent.targets)
    if unpacked or isinstance(parent, ast.Starred):
        return
    name = None
    if isinstance(parent, ast.Call) and parent.func is not node:
        name = parent.func.attr if isinstance(parent.func, ast.Attribute) else getattr(parent.func, "id", None)
    if name not in vocabulary.CONSUMERS:
        yield violation("deferred_work", node, "a generator expression that is kept; write a list")


def _check_handler(node: ast.ExceptHandler, parent: ast.AST) -> Iterator[Violation]:
    types = node.type.elts if isinstance(node.type, ast.Tuple) else [node.type]
    for each in types:
        if each is not None and not (isinstance(each, ast.Name) and each.id in vocabulary.EXCEPTIONS):
            yield violation("outside_language", node, f"except {ast.unparse(each)[:60]}: write except Exception")
    if node.name:
        yield from _check_definition(node.name, node)


def _check_delete(node: ast.Delete, parent: ast.AST) -> Iterator[Violation]:
    for target in node.targets:
        if not isinstance(target, ast.Name | ast.Subscript | ast.Attribute):
            yield violation("outside_language", node, "del of more than a name")


def _check_with(node: ast.withitem, parent: ast.AST) -> Iterator[Violation]:
    if node.optional_vars is not None and not isinstance(node.optional_vars, ast.Name):
        yield violation("outside_language", parent, "with … as anything but a name")


def _check_arg(node: ast.arg, parent: ast.AST) -> Iterator[Violation]:
    yield from _check_annotation(node.annotation)


def _check_annotation(node: ast.expr | None) -> Iterator[Violation]:
    for part in ast.walk(node) if node is not None else []:
        if isinstance(part, ast.Constant) and isinstance(part.value, str) and not _TYPE_AS_TEXT.fullmatch(part.value):
            yield violation("outside_language", part, f"annotation {part.value[:60]!r}: write the name of a type")


def _check_global(node: ast.Global | ast.Nonlocal, parent: ast.AST) -> Iterator[Violation]:
    for name in node.names:
        yield from _check_definition(name, node)


def is_plain_format(text: str) -> bool:
    """Whether the fields of a format string name its arguments alone, and nothing of them."""
    return _SIMPLE_FIELDS.fullmatch(text) is not None


_CHECKS: dict[type[ast.AST], Callable[..., Iterator[Violation]]] = {
    ast.ClassDef: _check_class,
    ast.FunctionDef: _check_function,
    ast.Lambda: _check_lambda,
    ast.Name: _check_use_of_name,
    ast.Attribute: _check_attribute,
    ast.Call: _check_call,
    ast.GeneratorExp: _check_generator,
    ast.ExceptHandler: _check_handler,
    ast.Delete: _check_delete,
    ast.withitem: _check_with,
    ast.arg: _check_arg,
    ast.Global: _check_global,
    ast.Nonlocal: _check_global,
}
