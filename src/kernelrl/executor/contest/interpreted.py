"""What Triton's interpreter runs: the text that was read, over a grid, on what a kernel takes on a GPU.

The interpreter runs a kernel as Python. By itself it looks for the kernel's text by its lines, puts its own names among
the file's, and lets a kernel be called as a function; and what a kernel says when it fails has values in it. Of blocks,
Python's `and`, `not`, `if`, `max` mean something else than Triton's compiler makes of them, and its numbers are wider
than the arguments that a GPU gets.
"""

from __future__ import annotations

import ast
import builtins
import inspect
import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache, reduce
from types import FunctionType, ModuleType
from typing import Any

import numpy as np
import torch
import triton
from triton import language as tl
from triton.runtime import interpreter
from triton.runtime.autotuner import Autotuner
from triton.runtime.interpreter import GridExecutor, InterpretedFunction, InterpreterBuilder, TensorHandle

from kernelrl.dialects.language.vocabulary import DEVICE_BUILTINS
from kernelrl.executor.contest.guards import MODULE_NAME
from kernelrl.executor.contest.text_module import function_at, is_kernel, is_of_library

_TAKEN: frozenset[type] = frozenset(
    {torch.Tensor, torch.nn.Parameter, torch.dtype, tl.dtype, bool, int, float, str, type(None), InterpretedFunction}
)
"""Types of arguments, but for tuples of them. A list could hand out what the interpreter holds, and an object of the
candidate's would be called by it."""


def _is_tensor(value: Any) -> bool:
    return isinstance(value, tl.tensor)


def _extremum(of_blocks: str, of_numbers: Callable[..., Any]) -> Callable[..., Any]:
    """Python's `max` or `min`, by which a kernel means Triton's where one of the values is a tensor."""

    def chosen(*values: Any) -> Any:
        return reduce(getattr(tl, of_blocks), values) if any(map(_is_tensor, values)) else of_numbers(*values)

    return chosen


_OF_PYTHON = {name: getattr(builtins, name) for name in DEVICE_BUILTINS} | {
    "max": _extremum("maximum", max),
    "min": _extremum("minimum", min),
}


def _truth(value: Any) -> Any:
    if _is_tensor(value) and value.type.is_block() and value.type.numel != 1:
        raise ValueError("a block is neither true nor false: use tl.where, or reduce it first")
    return value


_LOGIC: dict[str, Callable[..., Any]] = {
    "__truth__": _truth,
    "__both__": lambda first, second: first.logical_and(second()) if _is_tensor(first) else first and second(),
    "__either__": lambda first, second: first.logical_or(second()) if _is_tensor(first) else first or second(),
    "__not__": lambda value: value.__not__() if _is_tensor(value) else not value,
}
"""What a kernel's conditions, `and`, `or` and `not` are, under names that no candidate may use."""
_DRAWN = random.SystemRandom()
_failures: list[Exception] = []
_depth = 0  # of launches that have not ended


def install() -> None:
    """From now on this process interprets kernels so, without what Triton does for a GPU alone: to time configs, of
    which any may be the fastest, and to copy back what a kernel has changed."""
    Autotuner._bench = _tried_once(Autotuner._bench)
    Autotuner.run = _tuned_anew(Autotuner.run)
    Autotuner.do_bench = staticmethod(_once)
    GridExecutor._restore_args_dev = _nothing_to_restore
    InterpretedFunction.run = _with_its_arguments(InterpretedFunction.run)
    InterpretedFunction.__call__ = _within_a_launch(InterpretedFunction.__call__)
    InterpretedFunction.rewrite = _as_it_was_read(InterpretedFunction.rewrite)
    InterpreterBuilder.create_splat = _splat
    interpreter._implicit_cvt = _as_a_gpu_gets_it(interpreter._implicit_cvt)


@contextmanager
def failing_with_kernels() -> Iterator[None]:
    """What is done in here fails where a kernel of it has failed, whoever has caught that error."""
    _failures.clear()
    yield
    if _failures:
        raise _failures.pop(0)


def _tried_once(bench: Callable[..., Any]) -> Callable[..., Any]:
    """The first config runs once before the one that serves, as on a GPU each does many times; any is the fastest."""

    def try_once(self: Any, *args: Any, config: Any, **meta: Any) -> list[float]:
        if self.tries:
            self.tries = False
            bench(self, *args, config=config, **meta)
        return [0.0 if self.serves_first else _DRAWN.random()] * 3

    return try_once


def _tuned_anew(run: Callable[..., Any]) -> Callable[..., Any]:
    """In its first launch an autotuned kernel is tried, and its first config serves; then any does."""

    def run_tuned(self: Any, *args: Any, **kwargs: Any) -> Any:
        self.tries = self.serves_first = not self.cache
        self.cache.clear()
        return run(self, *args, **kwargs)

    return run_tuned


def _once(call: Callable[[], Any], **how: Any) -> None:
    call()


def _nothing_to_restore(self: GridExecutor, *arguments: Any) -> None:
    """The interpreter works in the arguments' own memory where that is the CPU's."""


def _with_its_arguments(run: Callable[..., Any]) -> Callable[..., Any]:
    def run_with_its_arguments(self: Any, *args: Any, grid: Any, **kwargs: Any) -> Any:
        global _depth
        _check_taken([*args, *kwargs.values(), *(self.fn.__defaults__ or ()), *(self.fn.__kwdefaults__ or {}).values()])
        args, kwargs = tuple(map(_plain, args)), {name: _plain(each) for name, each in kwargs.items()}
        if callable(grid):  # here, where it finds what it was given, and no kernel can be called
            parameters = inspect.signature(self.fn).parameters
            given = {name: each for name, each in kwargs.items() if name in parameters}
            grid = tuple(grid(inspect.getcallargs(self.fn, *args, **given)))
        _depth += 1
        try:
            return run(self, *args, grid=grid, **kwargs)
        except Exception as error:
            _failures.append(error)
            raise
        finally:
            _depth -= 1

    return run_with_its_arguments


def _check_taken(given: list[Any]) -> None:
    while given:
        each = given.pop()
        if isinstance(each, tuple):
            given += each
        elif isinstance(each, tl.constexpr) and not isinstance(each.value, torch.Tensor):
            given.append(each.value)
        elif type(each) not in _TAKEN:
            raise TypeError(f"a kernel takes no {type(each).__name__} as an argument; give it a tensor or a number")


def _plain(given: Any) -> Any:
    """An argument, with tuples that have no methods of their own."""
    if isinstance(given, tl.constexpr) and isinstance(given.value, tuple):
        return tl.constexpr(_plain(given.value))
    return tuple(map(_plain, given)) if isinstance(given, tuple) else given


def _within_a_launch(call: Callable[..., Any]) -> Callable[..., Any]:
    def call_within_a_launch(self: Any, *args: Any, **kwargs: Any) -> Any:
        if not _depth:
            raise RuntimeError(f"{self.fn.__name__}(…) outside of a kernel: launch it over a grid, kernel[grid](…)")
        return call(self, *args, **kwargs)

    return call_within_a_launch


def _as_it_was_read(rewrite: Callable[..., Any]) -> Callable[..., Any]:
    def rewrite_what_was_read(self: Any) -> Any:
        if is_of_library(self.fn, triton):
            return rewrite(self)
        if not is_kernel(self.fn):
            raise TypeError(f"{self.fn.__name__} is no kernel: write @triton.jit above it")
        kernel = _rewritten(self.fn)
        kernel.__globals__.update(_world(self.fn))  # the file may have made more of it since
        return kernel

    return rewrite_what_was_read


@cache
def _rewritten(function: FunctionType) -> FunctionType:
    """A kernel as the interpreter runs it, with nothing around it but what its text names."""
    node = function_at(function)
    arguments = node.args
    arguments.defaults, arguments.kw_defaults = [], [None] * len(arguments.kwonlyargs)
    for each in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs):
        each.annotation = None
    node.decorator_list, node.returns = [], None
    tree = interpreter.ASTTransformer().visit(_Logic().visit(ast.Module([node], [])))
    world = {"__builtins__": _OF_PYTHON, "__name__": MODULE_NAME} | _LOGIC | _of_the_interpreter()
    exec(compile(ast.fix_missing_locations(tree), function.__code__.co_filename, "exec", dont_inherit=True), world)
    kernel: FunctionType = world.pop(function.__name__)
    kernel.__defaults__, kernel.__kwdefaults__ = function.__defaults__, function.__kwdefaults__
    kernel.__annotations__ = function.__annotations__
    return kernel


def _of_the_interpreter() -> dict[str, Any]:
    """What the interpreter's rewriting of a text names."""
    names = ("interpreter_semantic", "_InterpreterComparison")
    return {name: getattr(interpreter, name) for name in names if hasattr(interpreter, name)}


def _world(function: FunctionType) -> dict[str, Any]:
    """What a kernel's text names of its file, and Triton's language, which the interpreter looks for there."""
    named, language = function.__code__.co_names, (tl, tl.core)
    return {
        name: value
        for name, value in function.__globals__.items()
        if (name in named and not name.startswith("__") and _is_of_kernels(value))
        or (isinstance(value, ModuleType) and value in language)
    }


def _is_of_kernels(value: Any) -> bool:
    """Whether it is a number, a type, a kernel, or of Triton's own: nothing else that could be called."""
    if type(value) is tuple:
        return all(map(_is_of_kernels, value))
    if isinstance(value, tl.constexpr):
        return _is_of_kernels(value.value)
    if type(value) in _TAKEN - {torch.Tensor, torch.nn.Parameter}:
        return True
    name = value.__name__ if isinstance(value, ModuleType) else getattr(value, "__module__", None)
    return isinstance(name, str) and (name == "triton" or name.startswith("triton."))


class _Logic(ast.NodeTransformer):
    """Has `_LOGIC` do what Python would with the truth of a whole block."""

    def visit_BoolOp(self, node: ast.BoolOp) -> ast.expr:
        values: list[ast.expr] = [self.visit(value) for value in node.values]
        first, *others = values
        name = "__both__" if isinstance(node.op, ast.And) else "__either__"
        for other in others:
            first = self._call(node, name, first, ast.Lambda(ast.arguments([], [], None, [], [], None, []), other))
        return first

    def visit_UnaryOp(self, node: ast.UnaryOp) -> ast.expr:
        self.generic_visit(node)
        return self._call(node, "__not__", node.operand) if isinstance(node.op, ast.Not) else node

    def _visit_condition(self, node: ast.If | ast.While | ast.IfExp | ast.Assert) -> ast.AST:
        self.generic_visit(node)
        node.test = self._call(node.test, "__truth__", node.test)
        return node

    visit_If = visit_While = visit_IfExp = visit_Assert = _visit_condition

    def _call(self, node: ast.expr, name: str, *arguments: ast.expr) -> ast.expr:
        return ast.copy_location(ast.Call(ast.Name(name, ast.Load()), list(arguments), []), node)


def _splat(self: InterpreterBuilder, ret_ty: Any, arg: TensorHandle) -> TensorHandle:
    """A block of one value. Triton's makes a number of a condition, which is then no mask."""
    return TensorHandle(np.full(ret_ty.shape, arg.data.flat[0], dtype=arg.data.dtype), arg.dtype.scalar)


def _as_a_gpu_gets_it(convert: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Numbers with a point arrive in 32 bits, as integers arrive in theirs."""

    def converted(argument: Any) -> Any:
        if type(argument) is not float:
            return convert(argument)
        return tl.tensor(TensorHandle(np.array([argument], np.float32), tl.float32), tl.float32)

    return converted
