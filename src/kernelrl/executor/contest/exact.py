"""A reference in float64: its outputs, how far rounding moves them, and what indices among them were chosen from."""

from __future__ import annotations

import contextlib
import copy
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from kernelrl.executor import trees
from kernelrl.executor.contest.choices import (
    Choice,
    Choices,
    OfEquals,
    find_chosen,
    is_of_equals,
    is_undecided,
    put_in_order,
    vanishes,
)
from kernelrl.executor.contest.distances import TIMES, distance, find_jumps, typical_at_least, with_jumps
from kernelrl.executor.contest.error_sizes import ErrorSizes
from kernelrl.executor.contest.masks import FACTORS, WRITES, Enlarged
from kernelrl.executor.contest.narrowing import Narrowing, consists_of_rounding
from kernelrl.executor.contest.operator_mode import OperatorMode
from kernelrl.executor.contest.own_precision import OwnPrecision, noted_limits
from kernelrl.executor.contest.rounding import Precisions, Rounding, kept_in_float64, stay_in_float64
from kernelrl.executor.contest.values import tensors_in

_HOOKS = [name for name in vars(torch.nn.Module()) if "hooks" in name]
"""Attributes of a module that are tables of hooks."""

SAME = 1e-9
"""Outputs that differ by less are equal (relative and absolute)."""
OVER_JUMPS = 3
"""Further seeds where outputs are integers that jump, or rounding may decide a choice, for which the errors of one run
may have cancelled."""
MANY = 3.0
"""By so much an output that jumps may be farther away than in any run, where rounding may decide choices: each of
many may be another."""
ALIKE = 4
"""Further runs, in which equal values have equal errors, where inputs have so few that parts of a program err alike and
what they give is put together, or where one error moves many values. Before them comes one in which all errors have the
other sign. Where errors of two operators may cancel there is one more, with signs of its own."""
SAMPLE = 512
"""Elements of an input that are looked at for that."""
COARSE = 0.01
"""Error of a product beyond which one run may not show how far exponentials are moved."""
OF_COARSE = [(-1.0, 0, False), (2.0, 1, False), (-2.0, 2, False), (2.0, 3, False)]
"""Further runs where they do: who errs by twice as much has more than twice the distance."""
WRITTEN = 1.2345e300
"""What is written instead of infinity and NaN, to see what becomes of them."""


class InFloat64(OperatorMode):  # type: ignore[no-untyped-call]
    """While it is active, float64 stays float64, though a reference converts to another precision."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return kept_in_float64(func, func(*args, **stay_in_float64(func, args, kwargs or {})))


class Writing(OperatorMode):  # type: ignore[no-untyped-call]
    """While it is active, another number is written in place of infinity and NaN that a reference writes down."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if func._schema.name.removeprefix("aten::").removesuffix("_") in WRITES:
            args, kwargs = tuple(map(_told_apart, args)), {name: _told_apart(each) for name, each in kwargs.items()}
        return func(*args, **kwargs)


def _told_apart(given: Any) -> Any:
    """An argument, with a number of its own in place of what is not finite; tensors of no dimension are numbers."""
    if isinstance(given, float):
        return given if math.isfinite(given) else math.copysign(WRITTEN, given)
    if isinstance(given, torch.Tensor) and not given.dim() and given.is_floating_point() and not given.isfinite():
        return torch.full_like(given, math.copysign(WRITTEN, float(given)))
    return given


@dataclass
class Exact:
    """Outputs of a reference in float64, where the task runs in it."""

    outputs: Any
    """As `forward` returns them; where inputs are asked for that it changes, with a list of these behind."""
    moves: list[torch.Tensor]
    """How far rounding moves each output; for booleans, whether it does. Empty: not known."""
    choices: dict[int, Choice]
    """By the number of the output that consists of their indices."""
    open: bool = False
    """Outputs beside the chosen indices are others where another of equal values is chosen, as a program may."""
    level: int = 0
    """Number of the first of `masks.FACTORS` that makes no difference where what stands for infinity is larger."""
    hidden: list[torch.Tensor] = field(default_factory=list)
    """Which elements of each output it makes others, that factor on these inputs; empty: none, or none is asked for."""
    written: list[torch.Tensor] = field(default_factory=list)
    """Which elements of each output are infinity or NaN as the task writes them down; empty: not known."""
    narrows: bool = False
    """What the task converts to a lower precision was rounded."""


def compute(
    model: Any,
    args: Any,
    precision: torch.dtype,
    changed: Sequence[int] = (),
    by_largest: bool = False,
    masked: bool = False,
    level: int | None = None,
    writes: bool = False,
    faint: bool = False,
    narrows: bool | None = None,
) -> Exact:
    """Run a reference in float64, and again with what rounding does.

    Args:
        model: the reference, which stays as it is.
        args: its inputs, which stay as they are.
        precision: the lowest of the task, for operators of which the precision is not known.
        changed: numbers of the inputs that it changes, which count as outputs.
        by_largest: see `Rounding`.
        masked: it has masks by numbers that stand for infinity, or operators that apply masks.
        level: see `Exact`; None: it is to be found out.
        writes: it is asked which elements are infinity or NaN that the reference writes down.
        faint: its inputs are so small that what is computed of them may be equal, or nearly so, where they are not:
            what depends on a choice among such values is open.
        narrows: what it converts to a lower precision is rounded. None: it is where an output consists of that
            rounding, as the error of a quantised value does. In other programs nobody need round there.
    """

    def call(model: Any, args: Any) -> Any:
        result = model(*args)
        inputs: list[torch.Tensor] = []
        trees.flatten(args, inputs)
        return (result, [inputs[number] for number in changed]) if changed else result

    with Precisions() as native, noted_limits() as asked:
        _copied(model)(*copy.deepcopy(args))
    replaced = [dtype for name, dtype, _ in native.noted if name.startswith("aten::nan_to_num")]

    dtypes = {dtype for _, *both in native.noted for dtype in both}
    only = dtypes.pop() if len(dtypes) == 1 and not (native.widens or native.narrows) else None

    def in_own_precision() -> OwnPrecision:
        return OwnPrecision(asked, replaced, precision, only)

    def keeping() -> OperatorMode:
        return Narrowing() if narrows else InFloat64()

    def call_in_float64() -> Any:
        with _by_default(torch.float64):
            return call(_copied(model).double(), trees.map_tensors(args, _to_double))

    outputs: list[torch.Tensor] = []
    moves: list[torch.Tensor] = []
    tiny = min(torch.finfo(precision).tiny, torch.finfo(torch.float32).tiny)
    try:
        with keeping(), Choices() as exactly, in_own_precision():
            result = call_in_float64()
        if narrows is None and native.narrows:
            narrows = True
            with keeping(), Choices() as narrowly, in_own_precision():
                narrowed = call_in_float64()
            narrows = consists_of_rounding(result, narrowed, exactly.found(tiny))
            if narrows:
                result, exactly = narrowed, narrowly
    except Exception:  # a task may insist on its own precision: then its own outputs are the reference
        with Choices() as exactly:
            result = call(_copied(model), copy.deepcopy(args))
        trees.flatten(result, outputs, torch.float64)
        choices = exactly.found(tiny)
        chosen = find_chosen(outputs, choices)
        derived = any(not output.is_floating_point() and number not in chosen for number, output in enumerate(outputs))
        return Exact(result, moves, chosen, derived and any(map(is_of_equals, choices)))
    trees.flatten(result, outputs, torch.float64)
    choices = exactly.found(tiny)
    is_open = faint and any(choice.first and vanishes(choice, tiny) for choice in choices)
    if any(map(is_of_equals, choices)):
        try:
            for last in (False, True):
                others: list[torch.Tensor] = []
                with keeping(), OfEquals(last), Choices() as otherwise, in_own_precision():
                    others_result = call_in_float64()
                trees.flatten(others_result, others, torch.float64)
                pairs_of_choices = zip(choices, otherwise.found(tiny), strict=True)
                steady = [one for one, other in pairs_of_choices if _are_equal(one.values, other.values)]
                chosen = find_chosen(outputs, steady)
                pairs = enumerate(zip(put_in_order(outputs, chosen), put_in_order(others, chosen), strict=True))
                is_open |= any(number not in chosen and not _are_equal(*pair) for number, pair in pairs)
        except Exception:  # it relies on the order of equal values
            is_open = True

    sizes = {alike: ErrorSizes() for alike in (False, True)}

    def run(times: float, seed: int = 0, alike: bool = False) -> tuple[list[torch.Tensor], list[Choice], Rounding]:
        rounded: list[torch.Tensor] = []
        rounding = Rounding(precision, native, times, by_largest, seed, alike, bool(narrows), sizes[alike])
        roundly = Choices()
        with rounding, roundly, in_own_precision():
            trees.flatten(call_in_float64(), rounded, torch.float64)
        distances = [distance(*pair) for pair in zip(outputs, rounded, strict=True)]
        return distances, roundly.found(tiny), rounding

    with contextlib.suppress(Exception):  # an operator that this precision lacks: nothing is known of rounding
        once, noted, rounding = run(1.0)
        further: list[tuple[float, int, bool]] = []
        if not rounding.moves:  # nor would it in any other run
            rounding.jumps = False
        elif rounding.errs_together or (rounding.mixes and any(map(_has_few_values, tensors_in(args)))):
            further = [(-1.0, 0, False), *((1.0, seed, True) for seed in range(1, 1 + ALIKE))]
        elif rounding.num_through_one > 1:
            further = [(1.0, 1, False)]
        if rounding.exponentiates and any(map(_are_coarse, tensors_in(args))):
            further += OF_COARSE
        with contextlib.suppress(Exception):
            for each in [] if rounding.jumps else further:
                once = [torch.maximum(*pair) for pair in zip(once, run(*each)[0], strict=True)]
        for choice, other in zip(choices, noted, strict=True):
            choice.move = torch.maximum(choice.move, typical_at_least(distance(choice.values, other.values)))
        if rounding.jumps:
            undecided = any(map(is_undecided, choices))
            may_cancel = undecided or not all(output.is_floating_point() for output in outputs)
            far: list[torch.Tensor] = []
            for seed in range(1 + OVER_JUMPS * may_cancel):
                before = run(1.0, seed)[0] if seed else once
                jumped = map(find_jumps, before, run(TIMES, seed)[0], run(-TIMES, seed)[0])
                for number, jump in enumerate(jumped):
                    if not seed:
                        far.append(jump)
                    elif undecided or not jump.is_floating_point():
                        far[number] = torch.maximum(far[number], jump)
            if faint and undecided:
                chosen = find_chosen(outputs, choices)
                integers = (number for number, each in enumerate(outputs) if not each.is_floating_point())
                is_open |= any(number not in chosen for number in integers)
            moves = [with_jumps(*each, MANY if undecided else 1.0) for each in zip(once, far, strict=True)]
        else:
            moves = [typical_at_least(move) for move in once]
    written: list[torch.Tensor] = []
    if writes:
        with contextlib.suppress(Exception):  # then it is not known
            otherwise_written: list[torch.Tensor] = []
            with keeping(), Writing(), in_own_precision():
                trees.flatten(call_in_float64(), otherwise_written, torch.float64)
            written = [(output == WRITTEN) | (output == -WRITTEN) for output in otherwise_written]

    def hidden_at(level: int) -> list[torch.Tensor]:
        """Which elements of the outputs are others where what stands for infinity is larger."""
        otherwise: list[torch.Tensor] = []
        try:
            with keeping(), Enlarged(FACTORS[level]) as enlarged, in_own_precision():
                trees.flatten(call_in_float64(), otherwise, torch.float64)
            found = [~_are_same(*pair) for pair in zip(outputs, otherwise, strict=True)]
        except Exception:  # it is not known
            return [torch.ones_like(output, dtype=torch.bool) for output in outputs]
        return [each | enlarged.hides for each in found]

    hidden: list[torch.Tensor] = []
    if masked and level is None:
        levels = range(len(FACTORS))
        level = next((each for each in levels if not any(map(torch.any, hidden_at(each)))), len(FACTORS))
    elif masked and level is not None and level < len(FACTORS):
        hidden = hidden_at(level)
    return Exact(result, moves, find_chosen(outputs, choices), is_open, level or 0, hidden, written, bool(narrows))


@contextlib.contextmanager
def _by_default(dtype: torch.dtype) -> Iterator[None]:
    """What a program makes of integers, or without a dtype, has this one."""
    before = torch.get_default_dtype()
    torch.set_default_dtype(dtype)
    try:
        yield
    finally:
        torch.set_default_dtype(before)


def _copied(model: torch.nn.Module) -> torch.nn.Module:
    """A copy, so that a call leaves the model as it is. Empty tables of hooks, which take most of the time, are shared.

    A hook that a call registers, and leaves there, stays in the model.
    """
    tables = (getattr(module, name, None) for module in model.modules() for name in _HOOKS)
    return copy.deepcopy(model, {id(table): table for table in tables if not table})


def _has_few_values(values: torch.Tensor) -> bool:
    """Whether numbers are so often equal that whole parts of a program compute the same."""
    if not values.is_floating_point() or values.numel() < SAMPLE:
        return False
    some = values.flatten()[:: values.numel() // SAMPLE]
    return len(some.unique()) <= len(some) // 8  # type: ignore[no-untyped-call]


def _are_coarse(values: torch.Tensor) -> bool:
    """Whether sums of products of such numbers, which are made in float32, err by no small part of one."""
    if not values.is_floating_point() or not values.numel():
        return False
    largest = float(values.nan_to_num(0.0, 0.0, 0.0).abs().max())
    return largest**2 * torch.finfo(torch.float32).eps / 2 > COARSE


def _are_equal(one: torch.Tensor, other: torch.Tensor) -> bool:
    """Whether outputs are equal but for the order in which float64 added their terms."""
    return one.shape == other.shape and bool(_are_same(one, other).all())


def _are_same(one: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
    return torch.isclose(one, other, rtol=SAME, atol=SAME, equal_nan=True)


def _to_double(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.to(torch.float64, copy=True) if tensor.is_floating_point() else tensor.clone()
