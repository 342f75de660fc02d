"""Small rewritings of Python source that leave the rest of its text as it is: for sources in other forms."""

from __future__ import annotations

import ast
import io
import tokenize
from collections.abc import Mapping, Sequence
from itertools import accumulate


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


def parse_expression(text: str) -> ast.expr:
    return ast.parse(text, mode="eval").body


def find_class(tree: ast.Module, name: str) -> ast.ClassDef | None:
    return next((node for node in tree.body if isinstance(node, ast.ClassDef) and node.name == name), None)


def find_function(body: Sequence[ast.stmt], name: str) -> ast.FunctionDef | None:
    return next((node for node in body if isinstance(node, ast.FunctionDef) and node.name == name), None)


def find_forward(source: str) -> ast.FunctionDef | None:
    """`Model.forward` of a program; None: it is not written there."""
    model = find_class(ast.parse(source), "Model")
    return find_function(model.body, "forward") if model else None


def bound_names(node: ast.stmt) -> list[str]:
    """Names that a statement at the top of a file gives."""
    match node:
        case ast.ClassDef(name=name) | ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
            return [name]
        case ast.Import(names=names) | ast.ImportFrom(names=names):
            return [alias.asname or alias.name.partition(".")[0] for alias in names]
        case ast.If() | ast.Try() | ast.With() | ast.For() | ast.While():
            inner = [child for child in ast.iter_child_nodes(node) if isinstance(child, ast.stmt | ast.ExceptHandler)]
            statements = [part for child in inner for part in ast.walk(child) if isinstance(part, ast.stmt)]
            simple = (ast.ClassDef, ast.FunctionDef, ast.Import, ast.ImportFrom)
            return stored_names(node) + [
                name for part in statements if isinstance(part, simple) for name in bound_names(part)
            ]
    return stored_names(node)


def stored_names(node: ast.AST) -> list[str]:
    """Names that are assigned to in it, in order."""
    return [part.id for part in ast.walk(node) if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Store)]


def loaded_names(*nodes: ast.AST) -> set[str]:
    """Names that are read."""
    parts = (part for node in nodes for part in ast.walk(node))
    return {part.id for part in parts if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Load)}


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
