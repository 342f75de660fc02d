"""Small rewritings of Python source that leave the rest of its text as it is: for sources in other forms."""

from __future__ import annotations

import ast
import io
import tokenize
from collections.abc import Mapping, Sequence
from itertools import accumulate
from typing import TypeVar

Node = TypeVar("Node", bound=ast.AST)


def rename(source: str, names: Mapping[str, str]) -> str:
    """The source with names replaced wherever they stand alone: not after a dot, not inside strings and comments."""
    lines = source.splitlines(keepends=True)
    found = []
    before = ""
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.NAME and token.string in names and before != ".":
            found.append(token)
        before = token.string
    for token in reversed(found):
        row, (start, end) = token.start[0] - 1, (token.start[1], token.end[1])
        lines[row] = lines[row][:start] + names[token.string] + lines[row][end:]
    return "".join(lines)


def replace_statement(source: str, old: ast.stmt, new: str) -> str:
    """The source with a module-level statement replaced."""
    lines = source.splitlines(keepends=True)
    return "".join([*lines[: old.lineno - 1], new.rstrip() + "\n", *lines[old.end_lineno :]])


def replace_expressions(source: str, texts: Mapping[ast.expr, str]) -> str:
    """The source with expressions, of which none lies in another, replaced by other text."""
    lines = source.encode().splitlines(keepends=True)  # columns of a syntax tree count bytes
    starts = [0, *accumulate(map(len, lines))]
    whole = b"".join(lines)
    for node in sorted(texts, key=lambda node: (node.lineno, node.col_offset), reverse=True):
        assert node.end_lineno is not None and node.end_col_offset is not None
        begin, end = starts[node.lineno - 1] + node.col_offset, starts[node.end_lineno - 1] + node.end_col_offset
        whole = whole[:begin] + texts[node].encode() + whole[end:]
    return whole.decode()


def find_class(tree: ast.Module, name: str) -> ast.ClassDef | None:
    return next((node for node in tree.body if isinstance(node, ast.ClassDef) and node.name == name), None)


def find_function(body: Sequence[ast.stmt], name: str) -> ast.FunctionDef | None:
    return next((node for node in body if isinstance(node, ast.FunctionDef) and node.name == name), None)


def without_class_in_super(node: Node) -> Node:
    """The same node, changed in place: `super(Model, self)` becomes `super()`, which also holds in another class."""
    for call in ast.walk(node):
        if isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.func.id == "super":
            call.args = []
    return node


def to_positional(
    init: ast.FunctionDef | None, args: Sequence[ast.expr], keywords: Mapping[str, ast.expr]
) -> list[ast.expr] | None:
    """Arguments of a constructor as positional ones, as `get_init_inputs()` gives them.

    Args:
        init: `__init__`, with `self`; None: inherited, not known.
        args: those that are positional already.
        keywords: the others by name.

    Returns:
        One expression per argument up to the last that is given, defaults filled in; None: not possible, because
        the constructor is not known, takes no such argument or takes it by keyword only, or needs one that is missing.
    """
    if init is None:
        return None if keywords else list(args)
    parameters = [arg.arg for arg in (*init.args.posonlyargs, *init.args.args)][1:]
    padding: list[ast.expr | None] = [None] * (len(parameters) - len(init.args.defaults))
    defaults = dict(zip(parameters, [*padding, *init.args.defaults], strict=False))
    if any(name not in parameters[len(args) :] for name in keywords):
        return None
    last = max((parameters.index(name) + 1 for name in keywords), default=len(args))
    rest = [keywords.get(name, defaults[name]) for name in parameters[len(args) : last]]
    given = [value for value in rest if value is not None]
    return [*args, *given] if len(given) == len(rest) else None
