"""What a candidate's text is changed into before it is compiled: it looks at run time at what the rules have inferred.

The rules follow what each expression may be through the file, and allow an attribute by what it is taken from. An
inference can be led astray. So methods look whether they are called on an object of their class, attributes that only
some things may give are read by a function that looks what it has before it, and another one looks what is called. What
neither computes nor leads on, whatever it is taken from (`vocabulary.DATA`), is read as it stands, and so are names of
imported modules, which the rules know by their full names. Python's built-in functions are those of the language, and
what is imported is what it has, so that a part of the text which the rules have not looked at, if there is one, finds
nothing to begin with.
"""

from __future__ import annotations

import ast
import builtins
import inspect
import string
import sys
from collections import OrderedDict
from collections.abc import Iterator, Sequence, Set
from contextlib import contextmanager
from functools import _lru_cache_wrapper, cache, partial
from types import BuiltinMethodType, CodeType, FunctionType, MethodType, MethodWrapperType, ModuleType
from typing import Any

import torch
from triton.runtime.interpreter import GridExecutor
from triton.runtime.jit import KernelInterface

from kernelrl.dialects.language import vocabulary
from kernelrl.dialects.language.definitions import bound_in_class, registered_names
from kernelrl.dialects.language.names import Names, all_arguments, bound_in, imports_of, may_import
from kernelrl.dialects.language.rules import may_be_named
from kernelrl.dialects.language.syntax import is_type_of, may_hold_type

_CHECK_SELF, _ATTRIBUTE, _CALLABLE = "__check_self__", "__attribute__", "__callable__"
_UNKNOWN, _TYPE = "__unknown__", "__type__"
"""Names under which the text finds what looks. A candidate can bind no name that begins so."""
_PLAIN = vocabulary.DATA - {"format"}
_OF_TENSORS = vocabulary.tensor_operators() | vocabulary.PACKING
_OF_LAYERS = _OF_TENSORS | vocabulary.OF_MODULES | vocabulary.LAYER_LISTS | vocabulary.PARTS
_DICTIONARIES = (torch.nn.ModuleDict, torch.nn.ParameterDict)
"""What they hold they give as attributes, too."""
_OF_NUMBERS = vocabulary.NUMBERS_OF_DTYPE
_OF_MACHINERY = vocabulary.RESERVED - vocabulary.OVERRIDABLE
_OF_LISTS = frozenset(
    f"torch.{name}" for name in "tensor as_tensor Tensor FloatTensor HalfTensor IntTensor LongTensor BoolTensor".split()
)
_NEW_TENSOR = "new_tensor"
"""What makes a tensor of a list, and reads elements of other tensors in it where no dispatcher sees that."""
_METHODS = (vocabulary.DATA | _OF_LAYERS) - {"format"}
_OF_PYTHON = frozenset({bool, int, float, str, list, tuple, dict, set, frozenset, range, slice, OrderedDict})
"""Types whose methods neither compute on tensors nor lead on; of texts `format` is another one."""
MODULE_NAME = "kernel_module"
"""Of an imported text."""
_OF_KNOWN_FUNCTIONS = frozenset(
    {MODULE_NAME, "kernelrl.executor.contest.builds", "triton.runtime.jit", "triton.runtime.interpreter"}
)
"""Modules of functions that may be called: the file, what stands for functions of native modules, and for kernels."""


class Native:
    """A native module, whose public attributes are its functions."""


def guard(tree: ast.Module) -> tuple[ast.Module, dict[str, Any]]:
    """A candidate's syntax in its plain form, which is changed, with what looks at run time; and the names that it must
    find there."""
    _library()  # here, where libraries may still compute
    own = frozenset(_own_attributes(tree))
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef):
            for method in node.body:
                if isinstance(method, ast.FunctionDef) and _first_argument(method) == "self":
                    has_text = ast.get_docstring(method, clean=False) is not None
                    method.body[has_text:has_text] = statements_at(method.body[0], f"{_CHECK_SELF}(self)")
    guarded: ast.Module = _Guards(imports_of(tree), own, bound_in(tree)).visit(tree)
    names = {
        _CHECK_SELF: _check_self,
        _ATTRIBUTE: partial(_attribute, own),
        _CALLABLE: _callable,
        _UNKNOWN: _unknown,
        _TYPE: type,
    }
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
            case ast.Call():
                yield from registered_names(node)


def statements_at(place: ast.stmt, text: str) -> list[ast.stmt]:
    """Statements of a text of our own, which stand where another statement does."""
    statements = ast.parse(text).body
    for statement in statements:
        for node in ast.walk(statement):
            ast.copy_location(node, place)
    return statements


def _first_argument(node: ast.FunctionDef) -> str | None:
    return next((each.arg for each in (*node.args.posonlyargs, *node.args.args)), None)


class _Guards(ast.NodeTransformer):
    """Has `_attribute` read what not everything may give, and `_unknown` what the language has nowhere.

    Imports that the language does not have are of nothing, and annotations that nothing reads are left out.
    """

    def __init__(self, names: Names, own: Set[str], bound: Set[str]):
        self._names = names
        self._own = own
        self._bound = bound
        self._is_inside = False  # of a class or function
        self._is_checked = False  # whether `self` is an object of the class around it

    def visit(self, node: ast.AST) -> Any:
        if may_hold_type(node):
            for part in filter(is_type_of, ast.iter_child_nodes(node)):
                part.func.id = _TYPE  # type: ignore[attr-defined]
        return super().visit(node)

    def visit_Import(self, node: ast.Import) -> list[ast.stmt]:
        return [self._import(node, alias) for alias in node.names]

    def _import(self, node: ast.Import, alias: ast.alias) -> ast.stmt:
        package = alias.name.partition(".")[0]
        if may_import(alias.name, from_module=False):
            found: ast.stmt = ast.Import([alias])
        elif package in vocabulary.PACKAGES and not alias.asname:
            found = ast.Import([ast.alias(package)])
        else:
            found = ast.ImportFrom(_NOTHING, [ast.alias(package, alias.asname)], 0)
        return ast.fix_missing_locations(ast.copy_location(found, node))

    def visit_ImportFrom(self, node: ast.ImportFrom) -> list[ast.stmt]:
        has, lacks = list[ast.alias](), list[ast.alias]()
        for alias in node.names:
            (has if may_import(f"{node.module}.{alias.name}", from_module=True) else lacks).append(alias)
        parts = ast.ImportFrom(node.module, has, node.level), ast.ImportFrom(_NOTHING, lacks, node.level)
        return [ast.copy_location(part, node) for part in parts if part.names]

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.stmt:
        if not self._is_inside:  # there it is part of a class, or never run
            plain = ast.Pass() if node.value is None else ast.Assign([node.target], node.value)
            return self.generic_visit(ast.copy_location(plain, node))  # type: ignore[return-value]
        return self.generic_visit(node)  # type: ignore[return-value]

    def visit_ClassDef(self, node: ast.ClassDef) -> ast.AST:
        with self._inside(is_checked=False):
            node.bases = list(map(self.visit, node.bases))
            node.decorator_list = list(map(self.visit, node.decorator_list))
            node.body = [
                self._visit_function(each, _first_argument(each) == "self")
                if isinstance(each, ast.FunctionDef)
                else self.visit(each)
                for each in node.body
            ]
        return node

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        if node.decorator_list and self._names.library(_function_of(node.decorator_list[-1])) == "triton.jit":
            node.decorator_list = list(map(self.visit, node.decorator_list))
            return node  # a kernel is read from the text once more
        return self._visit_function(node, self._is_checked and not _takes_self(node))

    def _visit_function(self, node: ast.FunctionDef, is_checked: bool) -> ast.stmt:
        node.returns = None
        for argument in all_arguments(node.args):
            argument.annotation = None
        with self._inside(is_checked):
            self.generic_visit(node)
        return node

    def visit_Lambda(self, node: ast.Lambda) -> ast.AST:
        with self._inside(self._is_checked and not _takes_self(node)):
            return self.generic_visit(node)

    @contextmanager
    def _inside(self, is_checked: bool) -> Iterator[None]:
        before = self._is_inside, self._is_checked
        self._is_inside, self._is_checked = True, is_checked
        yield
        self._is_inside, self._is_checked = before

    def visit_Call(self, node: ast.Call) -> ast.AST:
        """What is called, and what a library's function is given to call, is looked at."""
        function, name = node.func, self._names.library(node.func)
        is_builtin = isinstance(function, ast.Name) and function.id in _BUILTINS.keys() - self._bound
        self.generic_visit(node)
        called = function.id if isinstance(function, ast.Name) else getattr(function, "attr", None)
        if called in vocabulary.TAKES_FUNCTION | {"apply"}:
            node.args[:1] = [self._call(_CALLABLE, each, each) for each in node.args[:1]]
        for keyword in node.keywords:
            if keyword.arg in ("key", "default_factory"):
                keyword.value = self._call(_CALLABLE, keyword.value, keyword.value)
        is_known = is_builtin or name or self._is_known(node.func)
        if not is_known or name in _OF_LISTS or called == _NEW_TENSOR:
            node.func = self._call(_CALLABLE, node.func, node.func)
        return node

    def _is_known(self, function: ast.expr) -> bool:
        """Whether it is one of our own functions, or a method that no object of the file has."""
        match function:
            case ast.Name(id=name):
                return name in (_ATTRIBUTE, _CALLABLE, _CHECK_SELF, _UNKNOWN, _TYPE)
            case ast.Attribute(attr=name):
                return _is_super_init(function) or (name in _PLAIN and name not in self._own)
        return False

    def visit_Attribute(self, node: ast.Attribute) -> ast.expr:
        if (full := self._names.library(node)) is not None:
            if full == "os.environ" or may_be_named(full) or not isinstance(node.ctx, ast.Load):
                return node
            return self._call(_UNKNOWN, node, ast.Constant(full))
        node.value = self.visit(node.value)
        if node.attr == "__name__" and _is_type(node.value):
            return node
        is_own = self._is_checked and _is_self(node.value) and node.attr in self._own | vocabulary.OF_MODULES
        if not isinstance(node.ctx, ast.Load) or node.attr in _PLAIN or is_own or _is_super_init(node):
            return node
        return self._call(_ATTRIBUTE, node, node.value, ast.Constant(node.attr))

    def visit_Name(self, node: ast.Name) -> ast.expr:
        if node.id == "getattr" and isinstance(node.ctx, ast.Load) and "getattr" not in self._bound:
            return ast.copy_location(ast.Name(_ATTRIBUTE, ast.Load()), node)
        return node

    def _call(self, function: str, node: ast.expr, *arguments: ast.expr) -> ast.expr:
        call = ast.copy_location(ast.Call(ast.Name(function, ast.Load()), list(arguments), []), node)
        return ast.fix_missing_locations(call)


def _function_of(node: ast.expr) -> ast.expr:
    return node.func if isinstance(node, ast.Call) else node


def _is_type(node: ast.expr) -> bool:
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == _TYPE


def _takes_self(node: ast.FunctionDef | ast.Lambda) -> bool:
    return any(argument.arg == "self" for argument in all_arguments(node.args))


def _is_self(node: ast.expr) -> bool:
    return isinstance(node, ast.Name) and node.id == "self"


def _is_super_init(node: ast.Attribute) -> bool:
    match node:
        case ast.Attribute(value=ast.Call(func=ast.Name(id="super")), attr="__init__"):
            return True
    return False


def _attribute(own: frozenset[str], of: Any, name: str, *default: Any) -> Any:
    """An attribute of something that may give it."""
    kind: Any = type(of)
    if type(name) is not str or not (_may_give(of, kind, name, own) or name in _PLAIN):
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
        return name in own - _OF_MACHINERY or name in vocabulary.OF_MODULES | vocabulary.LAYER_LISTS
    if isinstance(of, type):
        return any(name in vars(base) for base in of.__mro__ if base.__module__ == MODULE_NAME)
    if isinstance(of, torch.Tensor):
        return name in _OF_TENSORS
    if kind in _DICTIONARIES and name in of:
        return True
    if isinstance(of, torch.nn.Module):
        return name in _OF_LAYERS
    if kind.__module__ == "torch.return_types":
        return not name.startswith("_")
    if kind in _OF_PYTHON:
        return name in _OF_TENSORS or name == "format"
    return kind in (torch.finfo, torch.iinfo) and name in _OF_NUMBERS


def _callable(given: Any) -> Any:
    """What is called, if it is a function, class or object of the file, or what the language may call by name."""
    kind = type(given)
    if (kind is FunctionType or kind is MethodType) and given.__module__ in _OF_KNOWN_FUNCTIONS:
        return given
    if callable(given) and not _may_be_called(given):
        raise TypeError(f"a {type(given).__name__} is called: it is not known to be a function of this file")
    if id(given) in _of_lists() or (kind is BuiltinMethodType and given.__name__ == _NEW_TENSOR):
        return partial(_count_and_call, given)
    return given


def _count_and_call(function: Any, *args: Any, **kwargs: Any) -> Any:
    """Call what makes a tensor of a list. Elements of other tensors in it count as those that are asked for one by
    one."""
    for each in (*args, *kwargs.values()):
        _count(each)
    return function(*args, **kwargs)


def _count(given: Any) -> None:
    for each in given if isinstance(given, list | tuple) else ():
        if isinstance(each, torch.Tensor):
            each.item()
        else:
            _count(each)


@cache
def _of_lists() -> frozenset[int]:
    return frozenset(id(getattr(torch, name.removeprefix("torch."))) for name in _OF_LISTS)


def _may_be_called(given: Any) -> bool:
    kind: Any = type(given)
    if kind is FunctionType:
        return _is_of_file(given) or id(given) in _library()
    if kind is MethodType:
        if isinstance(given.__self__, _Format | Native):
            return True
        return _is_of_file(given.__func__) or (given.__name__ in _METHODS and _has_methods(given.__self__))
    if kind in (BuiltinMethodType, MethodWrapperType):
        of = given.__self__
        if of is None or isinstance(of, ModuleType | type):
            return id(given) in _library()
        return given.__name__ in _METHODS and _has_methods(of)
    if isinstance(given, type):
        return given.__module__ == MODULE_NAME or id(given) in _library()
    if kind is _lru_cache_wrapper:
        return _is_of_file(given)
    return isinstance(given, torch.nn.Module | KernelInterface | GridExecutor) or id(given) in _library()


def _is_of_file(function: Any) -> bool:
    """Whether a function stands in the file, or a decorator of the language's is around one that does."""
    return bool(inspect.unwrap(function).__module__ == MODULE_NAME)


def _has_methods(of: object) -> bool:
    return isinstance(of, torch.Tensor | torch.nn.Module) or type(of) in _OF_PYTHON


@cache
def _library() -> dict[int, Any]:
    """By its address, what the language may call of libraries and of Python, wherever it may."""
    tables = (vocabulary.FORWARD, vocabulary.INIT, vocabulary.operators())
    named = {(module, name) for table in tables for module, names in table.items() for name in names}
    found = [getattr(sys.modules[module], name, None) for module, name in named if module in sys.modules]
    return {id(each): each for each in (*found, *_BUILTINS.values()) if callable(each)}


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


def _iter(of: Any) -> Any:
    """`iter` of what can be gone through, and not of a function that is called again and again."""
    return iter(of)


def _import(name: str, world: Any = None, local: Any = None, wanted: Sequence[str] = (), level: int = 0) -> Any:
    """What the language has, as it is; nothing of what it has not."""
    if type(wanted) is list:  # a library's native code, which takes the module from `sys.modules`: nobody is given it
        return __import__(name) and None
    if level or "*" in (wanted or ()) or name not in vocabulary.modules() | {_NOTHING}:
        raise ImportError(f"import of {name}: the language has no such module")
    if name != _NOTHING:
        return __import__(name, world, local, wanted)
    nothing = ModuleType(name)
    for each in wanted:
        vars(nothing)[each] = ModuleType(each)
        vars(nothing)[each].environ = {}  # settings of compilers may be written there
    return nothing


_NOTHING = "__nothing__"
"""Name of the module from which comes what the language does not have."""
_BUILTINS: dict[str, Any] = {
    name: getattr(builtins, name)
    for name in (
        *(vocabulary.BUILTINS.keys() - {"type"}),
        *vocabulary.EXCEPTIONS,
        *"super staticmethod hash __build_class__".split(),
    )
} | {"__import__": _import, "iter": _iter}
