"""A reference in float64: its outputs, how far rounding moves them, and what indices among them were chosen from."""

from __future__ import annotations

import contextlib
import copy
import math
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch

from kernelrl.executor import trees
from kernelrl.executor.contest.any_order import in_order
from kernelrl.executor.contest.masks import WRITES, Masks
from kernelrl.executor.contest.operator_mode import OperatorMode, arguments_of
from kernelrl.executor.contest.own_precision import OwnPrecision, noted_limits
from kernelrl.executor.contest.rounding import NARROW, Precisions, Rounding, kept_in_float64, stay_in_float64
from kernelrl.executor.contest.values import tensors_in

_FIRST = frozenset("max min argmax argmin".split())
"""Operators that choose by the order of values, and of equal values the first (as PyTorch documents)."""
_ANY = frozenset("sort argsort topk kthvalue median nanmedian mode".split())
"""Those that may choose any of equal values."""
_RUNNING = frozenset("cummax cummin".split())
"""Those that choose for each value among those up to it."""

_HOOKS = [name for name in vars(torch.nn.Module()) if "hooks" in name]
"""Attributes of a module that are tables of hooks."""

TIMES = 4.0
"""Jumps are looked for as far as so many times what rounding moves."""
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
OF_ELEMENTS, OF_SIZE = 0.1, 0.3
"""An output is another one where so large a share of its elements differ, or it does by that share of its size."""
WRITTEN = 1.2345e300
"""What is written instead of infinity and NaN, to see what becomes of them."""
MEDIAN_OF = 20_000
"""Elements of a large output, evenly spread, that stand for all in a median."""


@dataclass
class Choice:
    """Indices that one operator chose, and the values that it chose them from."""

    values: torch.Tensor
    """In float64 (…, number of values): the dimension along which was chosen is the last."""
    indices: torch.Tensor
    """Likewise (…, number of chosen ones)."""
    dim: int
    """That dimension, in the form of `indices` that the operator gives."""
    first: bool
    """Whether the first of equal values must be chosen; of a stable sort, whether they stay in their order."""
    running: bool
    """Whether each index is chosen among the values up to its own place."""
    unordered: bool
    """Whether the chosen ones may come in any order."""
    floating: bool
    """Whether they were floating-point numbers before."""
    move: torch.Tensor
    """How far rounding moves each of the values. Below the smallest normal number it may be zero."""


class Choices(OperatorMode):  # type: ignore[no-untyped-call]
    """While it is active, notes what operators choose by the order of values."""

    def __init__(self) -> None:
        super().__init__()
        self._noted: list[tuple[torch.Tensor, torch.Tensor, int | None, bool, bool, bool]] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        result = func(*args, **kwargs)
        name = func._schema.name.removeprefix("aten::")
        chosen = result[-1] if isinstance(result, tuple) else result
        if name in _FIRST | _ANY | _RUNNING and isinstance(chosen, torch.Tensor) and chosen.dtype == torch.int64:
            given = arguments_of(func, args, kwargs)
            if "dim" in given:
                first = name in _FIRST or bool(given.get("stable"))
                unordered = given.get("sorted") is False
                noted = args[0].clone(), chosen.clone(), given["dim"], first, name in _RUNNING, unordered
                self._noted.append(noted)
        return result

    def found(self, tiny: float) -> list[Choice]:
        """The choices so far. Call it when the mode is no longer active.

        Args:
            tiny: smallest normal number.
        """
        return [_choice(*each, tiny) for each in self._noted]


def _choice(
    values: torch.Tensor,
    chosen: torch.Tensor,
    dim: int | None,
    first: bool,
    running: bool,
    unordered: bool,
    tiny: float,
) -> Choice:
    if dim is None or values.dim() == 0:
        values, chosen, dim = values.reshape(-1), chosen.reshape(-1), 0
    elif chosen.dim() < values.dim():
        chosen = chosen.unsqueeze(dim)
    floating = values.is_floating_point()
    values = values.double().movedim(dim, -1).contiguous()
    move = tiny * ((values != 0) & (values.abs() < tiny)).double()
    return Choice(values, chosen.movedim(dim, -1), dim % chosen.dim(), first, running, unordered, floating, move)


class OfEquals(OperatorMode):  # type: ignore[no-untyped-call]
    """While it is active, operators that sort choose the first of equal values, or all that may choose any the last.

    Args:
        last: the last.
    """

    def __init__(self, last: bool):
        super().__init__()
        self._last = last

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        given = arguments_of(func, args, kwargs)
        name = func._schema.name.removeprefix("aten::")
        if name in _RUNNING and not self._last and args[0].dim():
            values, _ = func(*args, **kwargs)
            return values, _first_running(values, given["dim"])
        if name not in _ANY or "dim" not in given or given.get("stable") or not args[0].dim():
            return func(*args, **kwargs)
        dim = given["dim"]
        values = args[0].flip(dim) if self._last else args[0]
        if name in ("sort", "topk"):
            falling = given["largest"] if name == "topk" else given["descending"]
            result: Any = tuple(torch.sort(values, stable=True, dim=dim, descending=falling))
            if name == "topk":
                result = tuple(each.narrow(dim, 0, given["k"]) for each in result)
        else:
            result = func(values, *args[1:], **kwargs)
        if not self._last:
            return result
        if not isinstance(result, tuple):
            return values.shape[dim] - 1 - result
        return *result[:-1], values.shape[dim] - 1 - result[-1]


def _first_running(extremes: torch.Tensor, dim: int) -> torch.Tensor:
    """The first index at which each running extreme was met, where `cummax` gives the last."""
    along = extremes.movedim(dim, -1)
    is_new = torch.ones_like(along, dtype=torch.bool)
    is_new[..., 1:] = along[..., 1:] != along[..., :-1]
    return torch.where(is_new, torch.arange(along.shape[-1]), 0).cummax(-1).values.movedim(-1, dim)


class InFloat64(OperatorMode):  # type: ignore[no-untyped-call]
    """While it is active, float64 stays float64, though a reference converts to another precision."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return kept_in_float64(func, func(*args, **stay_in_float64(func, args, kwargs or {})))


class Narrowing(OperatorMode):  # type: ignore[no-untyped-call]
    """The same, but what a reference converts to another precision is rounded to the numbers that this has."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        to = (kwargs or {}).get("dtype")
        result = kept_in_float64(func, func(*args, **stay_in_float64(func, args, kwargs or {})))
        narrows = func._schema.name == "aten::_to_copy" and to in NARROW and result.dtype == torch.float64
        return result.to(to).double() if narrows else result


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
    """Outputs beside the chosen indices are others where another of equal values is chosen, as a program may; or what
    stands for infinity in a mask is reached."""
    hides: set[int] = field(default_factory=set)
    """See `Masks`."""
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
        masked: it has masks by numbers that stand for infinity.
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
        masks = Masks() if masked else None
        with masks or contextlib.nullcontext(), keeping(), Choices() as exactly, in_own_precision():
            result = call_in_float64()
        if narrows is None and native.narrows:
            narrows = True
            with keeping(), Choices() as narrowly, in_own_precision():
                narrowed = call_in_float64()
            narrows = _consists_of_rounding(result, narrowed, exactly.found(tiny))
            if narrows:
                result, exactly = narrowed, narrowly
    except Exception:  # a task may insist on its own precision: then its own outputs are the reference
        with Choices() as exactly:
            result = call(_copied(model), copy.deepcopy(args))
        trees.flatten(result, outputs, torch.float64)
        choices = exactly.found(tiny)
        chosen = _chosen(outputs, choices)
        derived = any(not output.is_floating_point() and number not in chosen for number, output in enumerate(outputs))
        return Exact(result, moves, chosen, derived and any(map(_is_of_equals, choices)))
    trees.flatten(result, outputs, torch.float64)
    choices = exactly.found(tiny)
    is_open = masks is not None and masks.are_reached
    is_open |= faint and any(choice.first and _vanishes(choice, tiny) for choice in choices)
    if any(map(_is_of_equals, choices)):
        try:
            for last in (False, True):
                others: list[torch.Tensor] = []
                with keeping(), OfEquals(last), Choices() as otherwise, in_own_precision():
                    others_result = call_in_float64()
                trees.flatten(others_result, others, torch.float64)
                pairs_of_choices = zip(choices, otherwise.found(tiny), strict=True)
                steady = [one for one, other in pairs_of_choices if _are_equal(one.values, other.values)]
                chosen = _chosen(outputs, steady)
                pairs = enumerate(zip(_in_order(outputs, chosen), _in_order(others, chosen), strict=True))
                is_open |= any(number not in chosen and not _are_equal(*pair) for number, pair in pairs)
        except Exception:  # it relies on the order of equal values
            is_open = True

    def run(times: float, seed: int = 0, alike: bool = False) -> tuple[list[torch.Tensor], list[Choice], Rounding]:
        rounded: list[torch.Tensor] = []
        rounding = Rounding(precision, native, times, by_largest, seed, alike, bool(narrows))
        roundly = Choices()
        with rounding, roundly, in_own_precision():
            trees.flatten(call_in_float64(), rounded, torch.float64)
        distances = [_distance(*pair) for pair in zip(outputs, rounded, strict=True)]
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
            choice.move = torch.maximum(choice.move, typical_at_least(_distance(choice.values, other.values)))
        if rounding.jumps:
            undecided = any(map(_is_undecided, choices))
            may_cancel = undecided or not all(output.is_floating_point() for output in outputs)
            far: list[torch.Tensor] = []
            for seed in range(1 + OVER_JUMPS * may_cancel):
                before = run(1.0, seed)[0] if seed else once
                jumped = map(_jumped, before, run(TIMES, seed)[0], run(-TIMES, seed)[0])
                for number, jump in enumerate(jumped):
                    if not seed:
                        far.append(jump)
                    elif undecided or not jump.is_floating_point():
                        far[number] = torch.maximum(far[number], jump)
            if faint and undecided:
                chosen = _chosen(outputs, choices)
                integers = (number for number, each in enumerate(outputs) if not each.is_floating_point())
                is_open |= any(number not in chosen for number in integers)
            moves = [_with_jumps(*each, MANY if undecided else 1.0) for each in zip(once, far, strict=True)]
        else:
            moves = [typical_at_least(move) for move in once]
    written: list[torch.Tensor] = []
    if writes:
        with contextlib.suppress(Exception):  # then it is not known
            otherwise_written: list[torch.Tensor] = []
            with keeping(), Writing(), in_own_precision():
                trees.flatten(call_in_float64(), otherwise_written, torch.float64)
            written = [output.abs() == WRITTEN for output in otherwise_written]
    hides = masks.hides if masks is not None else set()
    return Exact(result, moves, _chosen(outputs, choices), is_open, hides, written, bool(narrows))


def _consists_of_rounding(plain: Any, narrowed: Any, choices: list[Choice]) -> bool:
    """Whether an output is another one, for the most part, where conversions to a lower precision round.

    Args:
        plain: what a reference returns in float64.
        narrowed: what it returns where they do.
        choices: indices that it chose, of which others may be as good.
    """
    both: list[list[torch.Tensor]] = [[], []]
    for result, outputs in zip((plain, narrowed), both, strict=True):
        trees.flatten(result, outputs, torch.float64)
    chosen = _chosen(both[0], choices)
    return len(both[0]) != len(both[1]) or any(
        number not in chosen and _is_another(*pair) for number, pair in enumerate(zip(*both, strict=True))
    )


def _is_another(plain: torch.Tensor, narrowed: torch.Tensor) -> bool:
    if plain.shape != narrowed.shape:
        return True
    if not plain.numel():
        return False
    if not plain.is_floating_point():
        return float((plain != narrowed).double().mean()) > OF_ELEMENTS
    is_finite = narrowed.isfinite()
    if float((is_finite & ~plain.isfinite()).double().mean()) > OF_ELEMENTS:
        return True
    is_finite &= plain.isfinite()
    difference, size = (plain - narrowed)[is_finite].abs(), narrowed[is_finite].abs()
    is_much = bool(difference.square().sum() > OF_SIZE**2 * size.square().sum())
    return is_much or float((difference > OF_SIZE * size).double().sum()) > OF_ELEMENTS * plain.numel()


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


def typical_at_least(move: torch.Tensor, typical: torch.Tensor | None = None) -> torch.Tensor:
    """Distances, of which one sample may be small by luck, with one and a half times their median as the least.

    Args:
        move: distances; those of integers and booleans stay.
        typical: those of which the median is taken; None: all.
    """
    if not move.is_floating_point():
        return move
    move = move.nan_to_num(0.0, 0.0, 0.0)
    sample = move.flatten() if typical is None else move[typical]
    sample = sample[:: 1 + sample.numel() // MEDIAN_OF]
    present = sample[sample > 0]
    return move.clamp_min(1.5 * float(present.median())) if present.numel() else move


def _jumped(move: torch.Tensor, up: torch.Tensor, down: torch.Tensor) -> torch.Tensor:
    """How far an output is carried where rounding, or a few times as much, carries it over a jump; zero elsewhere.

    Where nothing jumps, errors that are larger or of the other sign move an output in proportion.

    Args:
        move: by rounding.
        up: by `TIMES` as much, with the same signs.
        down: by as much with the opposite signs.
    """
    far = torch.maximum(move, torch.maximum(up, down))
    if not move.is_floating_point():
        return far
    jumps = torch.maximum((up - TIMES * move).abs(), (down - TIMES * move).abs()) > TIMES / 2 * move
    return far.nan_to_num(0.0, 0.0, 0.0).where(jumps, 0.0)


def _with_jumps(move: torch.Tensor, far: torch.Tensor, factor: float) -> torch.Tensor:
    """Distances, with the whole jump where there is one.

    Args:
        move: by rounding.
        far: see `_jumped`.
        factor: by which jumps of floating-point outputs may be larger.
    """
    if not move.is_floating_point():
        return torch.maximum(move, far)
    return torch.maximum(typical_at_least(move, far == 0), factor * far)


def _chosen(outputs: list[torch.Tensor], noted: list[Choice]) -> dict[int, Choice]:
    """Which of the outputs consist of chosen indices, or of the first ones along the dimension of the choice."""
    found: dict[int, Choice] = {}
    for number, output in enumerate(outputs):
        if output.is_floating_point() or output.dtype == torch.bool or not output.numel():
            continue
        for choice in noted:
            kept = choice.indices
            if output.dim() == kept.dim():
                kept = kept[..., : output.shape[choice.dim]]
            named = kept.movedim(-1, choice.dim)
            if output.numel() == named.numel() and torch.equal(output.flatten().long(), named.flatten()):
                unordered = choice.unordered and output.shape == named.shape
                found[number] = replace(choice, indices=kept, unordered=unordered)
    shapes = Counter(outputs[number].shape for number, choice in found.items() if choice.unordered)
    for number, choice in found.items():  # of two of one shape it is not known which of the others belong to which
        choice.unordered &= shapes[outputs[number].shape] == 1
    return found


def _in_order(outputs: list[torch.Tensor], chosen: dict[int, Choice]) -> list[torch.Tensor]:
    for number, choice in chosen.items():
        if choice.unordered:
            outputs = in_order(choice.values, outputs[number], choice.dim, outputs)
    return outputs


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


def _is_undecided(choice: Choice) -> bool:
    """Whether any two of the values are so near each other that rounding may change their order."""
    order = choice.values.argsort(dim=-1)
    gaps = choice.values.gather(-1, order).diff(dim=-1)
    move = choice.move.expand_as(choice.values).gather(-1, order)
    return bool(((gaps <= TIMES * (move[..., 1:] + move[..., :-1])) & (move[..., 1:] > 0)).any())


def _vanishes(choice: Choice, tiny: float) -> bool:
    """Whether values that are no denormal numbers, and no integers, are equal: what made them different may be lost."""
    if not choice.floating:
        return False
    ordered = choice.values.sort(dim=-1).values
    return bool(((ordered.diff(dim=-1) == 0) & (ordered[..., 1:].abs() >= tiny)).any())


def _is_of_equals(choice: Choice) -> bool:
    """Whether another index may be as good."""
    return not choice.first and _has_equals(choice.values)


def _has_equals(values: torch.Tensor) -> bool:
    ordered = values.sort(dim=-1).values
    one, next_one = ordered[..., :-1], ordered[..., 1:]
    return bool(((one == next_one) | (one.isnan() & next_one.isnan())).any())


def _are_equal(one: torch.Tensor, other: torch.Tensor) -> bool:
    """Whether outputs are equal but for the order in which float64 added their terms."""
    return one.shape == other.shape and torch.allclose(one, other, rtol=SAME, atol=SAME, equal_nan=True)


def _to_double(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.to(torch.float64, copy=True) if tensor.is_floating_point() else tensor.clone()


def _distance(exact: torch.Tensor, rounded: torch.Tensor) -> torch.Tensor:
    """Distance of a rounded output to the exact one; for booleans, whether it differs."""
    if exact.dtype == torch.bool:
        return rounded != exact
    wide = torch.float64 if exact.is_floating_point() else torch.int64
    return (rounded.to(wide) - exact.to(wide)).abs()
