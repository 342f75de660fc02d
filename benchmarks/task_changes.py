"""Changes of a task's own program, for `oracle_mutation.py --of tasks`: what a kernel may leave out or get wrong.

Each is one change of an expression or a statement of `Model`, which most likely makes it another function: an operator
gives its operand, an argument is missing, a comparison is always true, a branch is always taken, a constant differs.
"""

from __future__ import annotations

import ast
import copy
from collections.abc import Iterator

from kernelrl.data.mutation import Change

_DRAWS = ("get_inputs", "get_init_inputs")
_MODULES = ("torch", "F", "nn", "math", "functional")
_KEPT = ("super", "__init__", "Parameter", "register_buffer", "register_parameter", "size", "dim", "numel")
_OTHER_EDGE: dict[type[ast.cmpop], list[type[ast.cmpop]]] = {
    ast.Lt: [ast.LtE],
    ast.LtE: [ast.Lt],
    ast.Gt: [ast.GtE],
    ast.GtE: [ast.Gt],
    ast.Eq: [ast.LtE, ast.GtE],
    ast.NotEq: [ast.Gt, ast.Lt],
}


def changes(source: str) -> Iterator[Change]:
    """Every single change of a task's program, each as the source of a candidate (`ModelNew`) once.

    Args:
        source: the task's.
    """
    tree = ast.parse(source)
    tree.body = [each for each in tree.body if getattr(each, "name", "") not in _DRAWS]
    seen = {ast.unparse(tree)}
    for function in (node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)):
        constructs = function.name == "__init__"
        for holder, name, index in list(_places(function)):
            old = _get(holder, name, index)
            for rule, new in _instead(old, constructs):
                _put(holder, name, index, new)
                text = ast.unparse(ast.fix_missing_locations(tree))
                if text not in seen:
                    seen.add(text)
                    yield Change(rule, _line(old), _line(new), _as_candidate(tree))
                _put(holder, name, index, old)


def _places(function: ast.FunctionDef) -> Iterator[tuple[ast.AST, str, int | None]]:
    """Where expressions and statements of a function are: a node, the name of its field, and the place in a list."""
    for holder in ast.walk(function):
        for name, value in ast.iter_fields(holder):
            if holder is function and name != "body":
                continue
            if isinstance(value, ast.expr):
                yield holder, name, None
            elif isinstance(value, list):
                yield from (
                    (holder, name, at) for at, each in enumerate(value) if isinstance(each, ast.expr | ast.stmt)
                )


def _get(holder: ast.AST, name: str, index: int | None) -> ast.AST:
    value = getattr(holder, name)
    found: ast.AST = value if index is None else value[index]
    return found


def _put(holder: ast.AST, name: str, index: int | None, new: ast.AST) -> None:
    if index is None:
        setattr(holder, name, new)
    else:
        getattr(holder, name)[index] = new


def _instead(node: ast.AST, constructs: bool) -> Iterator[tuple[str, ast.AST]]:
    """What may stand in the place of an expression or a statement, with the rule's name.

    Args:
        node: of either kind.
        constructs: it is in a constructor, of which layers alone are changed: parameters are drawn anew.
    """
    if isinstance(node, ast.Call):
        yield from _instead_of_layer(node) if constructs else _instead_of_call(node)
    elif constructs:
        return
    elif isinstance(node, ast.BinOp):
        yield from (("dropped term", each) for each in (node.left, node.right))
    elif isinstance(node, ast.UnaryOp) and not isinstance(node.operand, ast.Constant):
        yield "dropped term", node.operand
    elif isinstance(node, ast.BoolOp):
        yield from (("dropped term", each) for each in node.values)
    elif isinstance(node, ast.Compare) and len(node.ops) == 1:
        yield from _instead_of_comparison(node)
    elif isinstance(node, ast.IfExp):
        yield from (("branch", each) for each in (node.body, node.orelse))
    elif isinstance(node, ast.Constant) and isinstance(node.value, float):
        yield from (("constant", ast.Constant(each)) for each in (node.value * 2, 0.0))
    elif isinstance(node, ast.Constant) and isinstance(node.value, int) and not isinstance(node.value, bool):
        yield from (("constant", ast.Constant(each)) for each in (node.value + 1, node.value - 1))
    elif isinstance(node, ast.If):
        yield from (("branch", _with_test(node, value)) for value in (True, False))
    elif isinstance(node, ast.Assign | ast.AugAssign | ast.Expr) and not isinstance(node.value, ast.Constant):
        yield "dropped statement", ast.Pass()


def _instead_of_layer(node: ast.Call) -> Iterator[tuple[str, ast.AST]]:
    if _owner(node) in _MODULES and _name(node)[:1].isupper() and _name(node) not in _KEPT:
        yield "dropped layer", ast.parse("nn.Identity()", mode="eval").body
        yield from _without_arguments(node)


def _instead_of_call(node: ast.Call) -> Iterator[tuple[str, ast.AST]]:
    if _name(node) in _KEPT:
        return
    if isinstance(node.func, ast.Attribute) and _owner(node) not in (*_MODULES, "self"):
        yield "dropped operator", node.func.value
    operands = [each for each in node.args[:3] if not isinstance(each, ast.Constant | ast.Starred)]
    yield from (("dropped operator", each) for each in operands)
    yield from _without_arguments(node)


def _without_arguments(node: ast.Call) -> Iterator[tuple[str, ast.AST]]:
    for at in range(len(node.keywords)):
        new = copy.copy(node)
        new.keywords = [*node.keywords[:at], *node.keywords[at + 1 :]]
        yield "dropped argument", new
    if len(node.args) > 1:
        new = copy.copy(node)
        new.args = node.args[:-1]
        yield "dropped argument", new


def _instead_of_comparison(node: ast.Compare) -> Iterator[tuple[str, ast.AST]]:
    others = _OTHER_EDGE.get(type(node.ops[0]), [])
    for operator in others:
        yield "edge", ast.Compare(node.left, [operator()], node.comparators)
    if others:
        yield "comparison", ast.BinOp(node, ast.BitOr(), ast.Constant(True))
        yield "comparison", ast.BinOp(node, ast.BitAnd(), ast.Constant(False))


def _with_test(node: ast.If, value: bool) -> ast.If:
    new = copy.copy(node)
    new.test = ast.Constant(value)
    return new


def _name(node: ast.Call) -> str:
    return node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")


def _owner(node: ast.Call) -> str:
    """Of `a.b.c(...)` it is `b`."""
    value = getattr(node.func, "value", None)
    return value.attr if isinstance(value, ast.Attribute) else getattr(value, "id", "")


def _line(node: ast.AST) -> str:
    return ast.unparse(node).split("\n")[0]


def _as_candidate(tree: ast.Module) -> str:
    class Renamed(ast.NodeTransformer):
        def visit_ClassDef(self, node: ast.ClassDef) -> ast.AST:
            node.name = "ModelNew" if node.name == "Model" else node.name
            return self.generic_visit(node)

        def visit_Name(self, node: ast.Name) -> ast.AST:
            return ast.Name("ModelNew", node.ctx) if node.id == "Model" else node

    return ast.unparse(ast.fix_missing_locations(Renamed().visit(copy.deepcopy(tree))))
