"""Triton's interpreter, many programs of a grid at a time.

The interpreter runs a kernel's Python once per program, which takes half a millisecond however little there is to do.
Here it runs once for a batch of programs: every array gets a leading axis, of one entry per program or of one for all.
What a launch leaves in memory is what the interpreter leaves, bit by bit. A batch is rolled back and run program by
program where its programs take different branches, where they touch each other's memory, or where they use an
operation that is not implemented here.

The interpreter's order, one program after the other from the first on, is no promise of a GPU. A launch can be run in
others, so that a kernel whose programs wait for nothing and count on that order gives something else.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from itertools import groupby, islice, product
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
import triton
from triton.runtime import interpreter
from triton.runtime.interpreter import GridExecutor, InterpreterBuilder, TensorHandle

from kernelrl.executor.contest import bfloat16, folding, libdevice
from kernelrl.executor.contest.batch_builder import BatchBuilder
from kernelrl.executor.contest.batch_language import lifted, patch_language, speaking
from kernelrl.executor.contest.batch_memory import BatchMemory

VERSIONS = ("3.7.", "3.8.", "3.9.")
"""Of Triton, whose interpreter's insides this file has been tried with."""
LANES = 1 << 17
"""Elements of the largest array of pointers in a batch: more would not fit into a processor's cache."""
FIRST_LANES = 1 << 14
"""Elements that a program is thought to work on until one has."""


def install(in_any_order: Callable[[], bool] | None = None) -> None:
    """Have all kernels that this process interprets run in batches; with other versions, nothing changes.

    Args:
        in_any_order: asked before each first of two launches of a kernel: whether it, and not the second, is the one in
            which no program sees what another one writes, and the last run first. Kernels that use atomic operations,
            by which a program may wait for another, keep their order. None: all do.
    """
    if not triton.__version__.startswith(VERSIONS):
        return
    bfloat16.install()
    libdevice.install()
    folding.install()
    coin = None if in_any_order is None else staticmethod(in_any_order)
    interpreter.GridExecutor = type("BatchedGrid", (_BatchedGrid,), {"in_any_order": coin})
    for name in ("create_atomic_rmw", "create_atomic_cas"):
        setattr(InterpreterBuilder, name, _noted(getattr(InterpreterBuilder, name)))
    InterpreterBuilder.create_masked_store = _kept(InterpreterBuilder.create_masked_store)
    for name in ("_patch_lang_tensor", "_patch_reduce_scan"):
        setattr(interpreter, name, _with_batches_on_top(getattr(interpreter, name)))


def _with_batches_on_top(patch: Callable[..., None]) -> Callable[..., None]:
    """A kernel that calls another patches Triton's language once more, also within a batch."""

    def patch_both(*arguments: Any) -> None:
        patch(*arguments)
        if isinstance(interpreter.interpreter_semantic.builder, BatchBuilder):
            *_, scope = arguments
            patch_language(scope)

    return patch_both


def _noted(operation: Callable[..., Any]) -> Callable[..., Any]:
    """An atomic operation that is remembered of the kernel that runs."""

    def run(self: InterpreterBuilder, *arguments: Any) -> Any:
        if _running:
            _running[-1].use_atomics()
        return operation(self, *arguments)

    return run


def _kept(store: Callable[..., Any]) -> Callable[..., Any]:
    """A store of a program that runs by itself, of which the old values are kept where it is to be put off."""

    def run(self: InterpreterBuilder, ptrs: TensorHandle, value: TensorHandle, mask: TensorHandle, *how: Any) -> Any:
        if _running and _running[-1].memory is not None:
            _running[-1].memory.prepare_write(ptrs.data, mask.data, value.data.dtype)
        return store(self, ptrs, value, mask, *how)

    return run


@dataclass
class _Experience:
    """What launches of a kernel have shown."""

    lanes: int = FIRST_LANES
    """Elements that a program works on."""
    shared: int = 0
    """How many of their numbers in the grid, from the first on, the programs of a batch must have in common."""
    launches: int = 0
    atomic: bool = False
    """It has used atomic operations."""
    next_in_any_order: bool | None = None
    """Whether the next launch is; None: a coin decides."""


_EXPERIENCE: WeakKeyDictionary[Callable[..., None], _Experience] = WeakKeyDictionary()
_AT_ONCE: WeakKeyDictionary[Callable[..., None], _Experience] = WeakKeyDictionary()
"""Of launches whose programs may touch each other's memory: they come apart less often."""
_running: list[_Programs] = []
"""Launches that have not ended, the innermost last."""


class _BatchedGrid(GridExecutor):  # type: ignore[misc]  # triton has no types
    fn: Callable[..., None]
    grid: Any
    in_any_order: Callable[[], bool] | None

    def __call__(self, *args: Any, **kwargs: Any) -> None:
        self.fn = _Programs(self.fn, self._is_in_any_order())
        grid = self.grid
        self.grid = lambda meta: tuple(grid(meta) if callable(grid) else grid)  # a GPU takes lists as well
        super().__call__(*args, **kwargs)

    def _is_in_any_order(self) -> bool:
        """Of two launches of a kernel one is, so that a few launches are enough."""
        if self.in_any_order is None:
            return False
        seen = _EXPERIENCE.setdefault(self.fn, _Experience())
        chosen = self.in_any_order() if seen.next_in_any_order is None else seen.next_in_any_order
        seen.next_in_any_order = None if seen.next_in_any_order is not None else not chosen
        return chosen


class _Programs:
    """Stands for a kernel's function. Its call for the first program of a grid runs all of them, the others nothing."""

    def __init__(self, kernel: Callable[..., None], in_any_order: bool):
        self._kernel = kernel
        ordered, at_once = (each.setdefault(kernel, _Experience()) for each in (_EXPERIENCE, _AT_ONCE))
        self._experience = at_once if in_any_order else ordered
        self._at_once = in_any_order
        self._last_first = in_any_order and ordered.launches > 0 and not (ordered.atomic or at_once.atomic)
        self._puts_off = in_any_order and not (ordered.atomic or at_once.atomic)
        self._later: list[list[tuple[np.ndarray, Any, np.ndarray]]] = []
        self.memory: BatchMemory | None = None
        """What the program writes that runs by itself, if that is to be put off."""
        self._is_done = False
        self.__name__, self.__globals__ = kernel.__name__, kernel.__globals__
        self.__signature__, self.__annotations__ = inspect.signature(kernel), kernel.__annotations__

    def __call__(self, **arguments: Any) -> None:
        if self._is_done:
            return
        self._is_done = True
        _running.append(self)
        try:
            self._run(arguments)
        finally:
            _running.pop()
            self._write()
        self._experience.launches += 1

    def use_atomics(self) -> None:
        """From now on its programs see what the others have written."""
        self._experience.atomic = True
        self._puts_off, self.memory = False, None
        self._write()

    def _run(self, arguments: dict[str, Any]) -> None:
        seen = self._experience
        step = -1 if self._last_first else 1
        programs = product(*(range(size)[::step] for size in interpreter.interpreter_builder.grid_dim))
        while some := list(islice(programs, max(1, LANES // seen.lanes))):
            shared = seen.shared
            for _, group in groupby(some, key=lambda program: program[:shared]):  # noqa: B023
                batch = list(group)
                if len(batch) > 1:
                    if self._run_batch(batch, arguments):
                        continue
                    seen.shared = shared + 1
                for program in batch:
                    interpreter.interpreter_builder.set_grid_idx(*program)
                    self.memory = BatchMemory(1, self._at_once) if self._puts_off else None
                    self._kernel(**arguments)
                    self._put_off(self.memory)

    def _run_batch(self, batch: list[tuple[int, ...]], arguments: dict[str, Any]) -> bool:
        """Whether it went well; otherwise memory is as it was."""
        self.memory = None
        builder = BatchBuilder(batch, self._at_once)
        try:
            with speaking(builder):
                self._kernel(**{name: lifted(value) for name, value in arguments.items()})
        except Exception:  # if it is the kernel's own, running it alone will tell
            builder.memory.undo()
            return False
        self._experience.lanes = max(1, builder.memory.lanes // len(batch))
        self._put_off(builder.memory)
        return True

    def _put_off(self, memory: BatchMemory | None) -> None:
        """Take back what was written until all programs have run, if none is to see what others write."""
        if self._puts_off and memory is not None:
            self._later.append(memory.take_back())

    def _write(self) -> None:
        """Write what was put off."""
        for writes in self._later:
            for memory, where, values in writes:
                memory[where] = values
        self._later.clear()
