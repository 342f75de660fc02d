"""What a candidate's text is changed into before it is compiled: it looks at run time at what the rules have inferred.

The rules follow what each expression may be through the file, and allow an attribute by what it is taken from. An
inference can be led astray. So methods look whether they are called on an object of their class, and attributes that
only some things may give are read by a function that looks what it has before it. What neither computes nor leads on,
whatever it is taken from (`vocabulary.DATA`), is read as it stands, and so are names of imported modules, which the
rules know by their full names. Python's built-in functions are those of the language, and what is imported is what it
has, so that a part of the text which the rules have not looked at, if there is one, finds nothing to begin with.
"""

from __future__ import annotations

import ast
import builtins
import inspect
import string
import sys
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from functools import cache, partial
from types import CodeType, FunctionType, ModuleType
from typing import Any

import torch

from kernelrl.dialects.language import vocabulary
from kernelrl.dialects.language.definitions import bound_in_class
from kernelrl.dialects.language.names import Names, imports_of
from kernelrl.dialects.language.rules import may_be_named
from kernelrl.dialects.language.syntax import without_main

_CHECK_SELF, _ATTRIBUTE, _UNKNOWN = "__check_self__", "__attribute__", "__unknown__"
"""Names under which the text finds what looks. A candidate can bind no name that begins so."""
_PLAIN = vocabulary.DATA - {"format"}
_OF_TENSORS = vocabulary.tensor_operators() | vocabulary.PACKING
_OF_LAYERS = _OF_TENSORS | vocabulary.OF_MODULES | vocabulary.PARTS
_OF_NUMBERS = vocabulary.NUMBERS_OF_DTYPE
_OF_PYTHON = frozenset({bool, int, float, str, list, tuple, dict, set, frozenset, range, slice, OrderedDict})
"""Types whose methods neither compute on tensors nor lead on; of texts `format` is another one."""
MODULE_NAME = "kernel_module"
"""Of an imported text."""


class Native:
    """A native module, whose public attributes are its functions."""


def guard(tree: ast.Module) -> tuple[ast.Module, dict[str, Any]]:
    """A candidate's syntax, which is changed, with what looks at run time; and the names that it must find there."""
    tree = without_main(tree)
    own = frozenset(_own_attributes(tree))
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef):
            for method in node.body:
                if isinstance(method, ast.FunctionDef) and _first_argument(method) == "self":
                    has_text = ast.get_docstring(method, clean=False) is not None
                    method.body[has_text:has_text] = statements_at(method.body[0], f"{_CHECK_SELF}(self)")
    guarded: ast.Module = _Attributes(imports_of(tree)).visit(tree)
    names = {_CHECK_SELF: _check_self, _ATTRIBUTE: partial(_attribute, own), _UNKNOWN: _unknown}
    return guarded, names | {"__builtins__": _BUILTINS}


def _own_attributes(tree: ast.Module) -> Iterator[str]:
    """Names that objects of the file have by its text, but for layers of lists and the like."""
    for node in ast.walk(tree):
        match node:
            case ast.Attribute(attr=name, ctx=ast.Store()):
                yield name
            case ast.ClassDef(body=body):
                for statement in body:
                    yield from [statement.name] if isinstance(statement, ast.FunctionDef) else bound_in_class(statement)
            case ast.Call(args=[ast.Constant(value=str(name)), *_]):  # a buffer's or parameter's
                yield name


def statements_at(place: ast.stmt, text: str) -> list[ast.stmt]:
    """Statements of a text of our own, which stand where another statement does."""
    statements = ast.parse(text).body
    for statement in statements:
        for node in ast.walk(statement):
            ast.copy_location(node, place)
    return statements


def _first_argument(node: ast.FunctionDef) -> str | None:
    return next((each.arg for each in (*node.args.posonlyargs, *node.args.args)), None)


class _Attributes(ast.NodeTransformer):
    """Has `_attribute` read what not everything may give, and `_unknown` what the language has nowhere."""

    def __init__(self, names: Names):
        self._names = names

    def visit_Attribute(self, node: ast.Attribute) -> ast.expr:
        if (full := self._names.library(node)) is not None:
            is_habit = full.partition(".")[0] in _LEFT_OVER
            if is_habit or may_be_named(full) or not isinstance(node.ctx, ast.Load):
                return node
            return self._call(_UNKNOWN, node, ast.Constant(full))
        node.value = self.visit(node.value)
        if not isinstance(node.ctx, ast.Load) or node.attr in _PLAIN or _is_self(node.value) or _is_super(node.value):
            return node
        return self._call(_ATTRIBUTE, node, node.value, ast.Constant(node.attr))

    def visit_Name(self, node: ast.Name) -> ast.expr:
        if node.id == "getattr" and isinstance(node.ctx, ast.Load):
            return ast.copy_location(ast.Name(_ATTRIBUTE, ast.Load()), node)
        return node

    def _call(self, function: str, node: ast.expr, *arguments: ast.expr) -> ast.expr:
        call = ast.copy_location(ast.Call(ast.Name(function, ast.Load()), list(arguments), []), node)
        return ast.fix_missing_locations(call)


def _is_self(node: ast.expr) -> bool:
    return isinstance(node, ast.Name) and node.id == "self"


def _is_super(node: ast.expr) -> bool:
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "super"


def _attribute(own: frozenset[str], of: Any, name: str, *default: Any) -> Any:
    """An attribute of something that may give it."""
    kind: Any = type(of)
    if not (name in _PLAIN or _may_give(of, kind, name, own)):
        raise TypeError(f"….{name} of a {kind.__name__}: it is not known to be an object of this file")
    if name == "format" and kind is str:
        return _Format(of).format
    return getattr(of, name, *default)


def _unknown(name: str) -> Any:
    raise TypeError(f"{name}: the language has no such name")


def _may_give(of: Any, kind: Any, name: str, own: frozenset[str]) -> bool:
    if name.startswith("__"):
        return False
    if issubclass(kind, Native):
        return not name.startswith("_")
    if kind.__module__ == MODULE_NAME:
        return name in own or name in vocabulary.OF_MODULES
    if isinstance(of, type):
        return of.__module__ == MODULE_NAME and name in own
    if isinstance(of, torch.Tensor):
        return name in _OF_TENSORS
    if isinstance(of, torch.nn.Module):
        return name in _OF_LAYERS
    if kind.__module__ == "torch.return_types":
        return not name.startswith("_")
    if kind in _OF_PYTHON:
        return not name.startswith("_")
    return kind in (torch.finfo, torch.iinfo) and name in _OF_NUMBERS


class _Format(string.Formatter):
    """The `format` of a text, whose fields are what they are given and no attribute or element of it."""

    def __init__(self, text: str):
        self._text = text

    def format(self, *args: Any, **kwargs: Any) -> str:
        return self.vformat(self._text, args, kwargs)

    def get_field(self, field_name: str, args: Any, kwargs: Any) -> Any:
        if "." in field_name or "[" in field_name:
            raise ValueError(
                f"the field {field_name!r} of a format reads an attribute or an element; write an f-string"
            )
        return super().get_field(field_name, args, kwargs)


def _check_self(given: object) -> None:
    """Called first in every method: what it is called on must have that method."""
    code, of = sys._getframe(1).f_code, type(given)
    if code not in _methods(of):  # type: ignore[arg-type]
        raise TypeError(f"{code.co_name} is called on a {of.__name__}, which has no such method")


@cache
def _methods(of: Any) -> frozenset[CodeType]:
    members = [inspect.unwrap(each) for base in of.__mro__ for each in vars(base).values() if callable(each)]
    return frozenset(each.__code__ for each in members if isinstance(each, FunctionType))


def _import(name: str, world: Any = None, local: Any = None, wanted: Sequence[str] = (), level: int = 0) -> Any:
    """What the language has, as it is; of what is imported by habit an empty module."""
    if (
        type(wanted) is list
    ):  # a library's native code, which takes the module from `sys.modules`: nobody else is given it
        return __import__(name) and None
    part_of_torch = name.startswith("torch.") and name in vocabulary.LEFT_OVER
    if not level and (name in _MODULES or part_of_torch):
        return __import__(name, world, local, wanted)
    if level or name.partition(".")[0] not in _LEFT_OVER:
        raise ImportError(f"import of {name}: the language has no such module")
    top = module = ModuleType(name.partition(".")[0])
    for part in name.split(".")[1:]:
        vars(module)[part] = module = ModuleType(part)
    vars(module).update(dict.fromkeys(wanted or ()), environ={})
    return module if wanted else top


_MODULES = (
    vocabulary.MODULES | vocabulary.DEVICE_MODULES | vocabulary.operators().keys() | {"torch", "triton", "functools"}
)
_LEFT_OVER = frozenset(name.partition(".")[0] for name in vocabulary.LEFT_OVER) - _MODULES
_BUILTINS: dict[str, Any] = {
    name: getattr(builtins, name)
    for name in (*vocabulary.BUILTINS, *vocabulary.EXCEPTIONS, *"super staticmethod hash __build_class__".split())
} | {"__import__": _import}
