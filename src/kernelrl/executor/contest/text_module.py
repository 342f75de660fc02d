"""The module of an untrusted text: imported from memory, and named in what its errors say."""

from __future__ import annotations

import ast
import contextlib
import importlib.abc
import importlib.util
import linecache
import os
import re
import sys
import traceback
from collections.abc import Collection, Sequence
from pathlib import Path
from types import CodeType, FunctionType, ModuleType
from typing import Any

import triton

from kernelrl.dialects.language.plain import plain
from kernelrl.executor.contest.guards import MODULE_NAME, guard, statements_at
from kernelrl.syntax import parse

MAX_TEXT = 4000
_LINE_END = re.compile(r"\r\n|\r|\n")
"""Where lines end for Python. For `str.splitlines`, by which others count them, they end at form feeds and the like."""
_texts: dict[str, str] = {}
"""By file name, what was imported."""


def import_text(source: str, folder: Path, unreached: Collection[Sequence[int]] | None = None) -> ModuleType:
    """Import a text as if it were a file in a folder.

    Args:
        source: the text.
        folder: the folder.
        unreached: line and column of functions whose bodies are left out: whoever calls one all the same is told so.
            Such a text is guarded (see `guards`). None: of a text that is trusted, all runs as it stands.
    """
    left_out = None if unreached is None else frozenset((line, column) for line, column in unreached)
    text = _Text(folder / f"{MODULE_NAME}.py", source, left_out)
    spec = importlib.util.spec_from_loader(MODULE_NAME, text)
    assert spec is not None and spec.loader is not None
    name = text.get_filename(MODULE_NAME)
    _texts[name] = source
    lines = [f"{line}\n" for line in _LINE_END.split(source)]
    linecache.cache[name] = len(source), None, lines, name
    module = importlib.util.module_from_spec(spec)
    sys.modules[MODULE_NAME] = module
    spec.loader.exec_module(module)
    return module


def import_again(module: ModuleType) -> ModuleType:
    """The same text, run once more in a module of its own, which nobody can import."""
    spec = module.__spec__
    assert spec is not None and spec.loader is not None
    again = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(again)
    return again


def is_of_library(function: FunctionType, package: ModuleType) -> bool:
    """Whether a function stands in a package, and not in an imported text."""
    folder = os.path.dirname(str(package.__file__))
    return function.__code__.co_filename.startswith(f"{folder}{os.sep}")


def function_at(function: FunctionType) -> ast.FunctionDef:
    """The syntax of a function of an imported text, by itself.

    Raises:
        LookupError: there is none where it says that it stands.
    """
    code = function.__code__
    for node in ast.walk(parse(_texts.get(code.co_filename, ""))):
        if isinstance(node, ast.FunctionDef) and (node.name, _first_line(node)) == (code.co_name, code.co_firstlineno):
            return node
    raise LookupError(f"line {code.co_firstlineno} does not define {code.co_name}")


def is_kernel(function: FunctionType) -> bool:
    """Whether a function of an imported text is a Triton kernel there, and so was read as one."""
    decorators = function_at(function).decorator_list
    return bool(decorators) and _stands_for(decorators[-1], function.__globals__) is triton.jit


def _stands_for(node: ast.expr, world: dict[str, Any]) -> Any:
    """What a name, a name in a module or a call of one stands for; None: not known."""
    match node:
        case ast.Call(func=called):
            return _stands_for(called, world)
        case ast.Attribute(value=ast.Name(id=module), attr=name):
            return vars(world[module]).get(name) if isinstance(world.get(module), ModuleType) else None
        case ast.Name(id=name):
            return world.get(name)
    return None


def _first_line(node: ast.FunctionDef) -> int:
    """Where Python says that a function begins: at its first decorator."""
    return node.decorator_list[0].lineno if node.decorator_list else node.lineno


class _Text(importlib.abc.ExecutionLoader):
    """Loads a module from text: a candidate has no file that it could write to.

    What runs, and what Triton reads again, is the text itself. Its bytes would be read by the encoding that they name
    themselves, which may make code of what the static rules have read as a comment.

    Args:
        path: of the file that error messages name; it is not there.
        source: the text.
        unreached: see `import_text`.
    """

    def __init__(self, path: Path, source: str, unreached: frozenset[tuple[int, int]] | None):
        self._path = str(path)
        self._source = source
        self._unreached = unreached
        self._names: dict[str, Any] = {}

    def get_filename(self, fullname: str) -> str:
        return self._path

    def get_source(self, fullname: str) -> str:
        return self._source

    def get_code(self, fullname: str) -> CodeType:
        """What runs of the text."""
        tree = parse(self._source)
        if self._unreached is not None:
            tree = plain(tree)
            _leave_out(tree, self._unreached)
            tree, self._names = guard(tree)
        code: CodeType = compile(tree, self._path, "exec", dont_inherit=True)
        return code

    def exec_module(self, module: ModuleType) -> None:
        code = self.get_code(module.__name__)
        vars(module).update(self._names)
        exec(code, vars(module))


def _leave_out(tree: ast.Module, unreached: frozenset[tuple[int, int]]) -> None:
    for node in ast.walk(tree) if unreached else ():
        if isinstance(node, ast.FunctionDef) and (node.lineno, node.col_offset) in unreached:
            said = f"nothing calls {node.name} where it can be seen, so its body was left out; call it by name"
            node.body = statements_at(node.body[0], f"raise RuntimeError({said!r})")


def explain(error: BaseException) -> str:
    """The error with the frames of the candidate's own file, shortened in the middle."""
    text = ""
    with contextlib.suppress(Exception):  # the error may be an object of the candidate's making
        frames = [f for f in traceback.extract_tb(error.__traceback__) if f.filename.endswith(f"{MODULE_NAME}.py")]
        text = "".join(f"line {frame.lineno}, in {frame.name}: {frame.line}\n" for frame in frames[-5:])
        text += f"{type(error).__name__}: {error}"
    return text if len(text) <= MAX_TEXT else f"{text[: MAX_TEXT // 2]}\n…\n{text[-MAX_TEXT // 2 :]}"
