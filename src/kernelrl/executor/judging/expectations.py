"""What must come out of a call: the bounds that the reference gives, in float64 where the settings say so."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import partial
from itertools import islice
from typing import Any

import torch

from kernelrl.errors import TaskError
from kernelrl.executor.contest.distributions import PATTERNED
from kernelrl.executor.judging import compare
from kernelrl.executor.judging.arena import Case, Draw, view
from kernelrl.executor.judging.reference_process import ReferenceProcess
from kernelrl.task import Task

_UNSCALED = ("denormal",)
"""Distributions under which a small output may as well be zero."""
LEAST_SCALES = {"tiny": 1e-2}
"""Those under which outputs are held to a tolerance for numbers of this size, if they are smaller: what approximates a
function errs by as much near zero as elsewhere."""

LEAST_OTHERS = 3
"""Further inputs of the first one's size without which it is not judged whether outputs depend on them."""
_FAINT = ("denormal", "tiny", "ends")
"""Those under which much of what is computed is equal but for the last bits, or in all of them."""
_UNEVEN = ("wide", "zeros", "negative", "large", *PATTERNED)
"""Distributions of which some rows are unlike others: there fast algorithms for products err as the largest terms do,
and not as those of each sum."""


@dataclass(frozen=True)
class _Exact:
    """What a reference gives in float64."""

    outputs: list[torch.Tensor]
    moves: list[Any]
    """How far rounding moves each output; empty: not known."""
    indexed: dict[int, compare.Indexed]
    """Outputs that consist of chosen indices, by their number."""
    written: list[torch.Tensor] = field(default_factory=list)
    """Likewise."""
    level: int = 0
    hidden: list[torch.Tensor] = field(default_factory=list)
    """See `exact.Exact`."""
    open: bool = False
    narrows: bool = False
    """See `exact.Exact`."""


def expect(
    own: ReferenceProcess, case: Case, outputs: list[torch.Tensor], computed: list[bool], unusual: bool = False
) -> list[compare.Expected]:
    """The bounds of a case on which the reference has just been called.

    Args:
        own: its process.
        case: the case.
        outputs: what it gave, and what it has made of the inputs that it changes.
        computed: which of these it rounds on the task's own inputs.
        unusual: they are NaN or infinite where none of the task's own inputs makes them so.
    """
    in_float64 = own.settings.oracle == "float64"
    scaled = in_float64 and case.draw.distribution not in _UNSCALED
    least = LEAST_SCALES.get(case.draw.distribution, 0.0)
    by_largest = case.draw.distribution in _UNEVEN
    writes, faint = unusual and own.writes, case.draw.distribution in _FAINT
    exact = _exact(own, case.image, case.changed, by_largest, writes, faint) if in_float64 else _Exact(outputs, [], {})
    if len(exact.outputs) != len(outputs):
        raise TaskError(
            f"task {own.task.id}: rounding decides how many tensors forward returns ({len(outputs)} in the task's "
            f"precision, {len(exact.outputs)} in float64), so no program can be held to it"
        )
    exact, outputs = _in_one_order(exact), compare.in_one_order(exact.indexed, outputs)
    for value, native in zip(exact.outputs, outputs, strict=True):
        if value.shape != native.shape:
            raise TaskError(
                f"task {own.task.id}: rounding decides the shape of an output ({list(native.shape)} in the task's "
                f"precision, {list(value.shape)} in float64), so no program can be held to it; choose by values that "
                "are not rounded, such as inputs"
            )
    moved = exact.moves or [None] * len(outputs)
    expected = []
    written: list[Any] = exact.written or [None] * len(outputs)
    each = zip(exact.outputs, outputs, moved, befores(case, outputs), computed, written, strict=True)
    for value, native, move, before, computes, writing in each:
        about = partial(
            compare.Expected.around,
            value,
            native,
            str(native.dtype),
            own.task,
            scaled,
            move,
            computes=computes,
            least=least,
            unusual=unusual,
            written=writing,
            by_part=case.draw.distribution == "task",
        )
        bounds = about(before=before if scaled else None)
        expected.append(bounds if bounds.reliable or before is None else about())
    if own.eliminates and exact.moves and own.task.atol is None:
        found = zip(expected, exact.outputs, exact.moves, strict=True)
        expected = [replace(bounds, is_rounding=compare.is_rounding(*each)) for bounds, *each in found]
    for number, indexed in exact.indexed.items():
        native = outputs[number]
        reliable = indexed.accepts(native)
        expected[number] = replace(expected[number], reliable=reliable, indexed=indexed.beside(native))
    if case.draw.distribution != "task" and exact.hidden:
        pairs = zip(expected, exact.hidden, strict=True)
        expected = [bounds.opened_at(hidden) for bounds, hidden in pairs]
    own.tells_rounding |= bool(exact.moves)
    if replace(case.draw, parameters=0) == Draw(0):
        own.level, own.narrows = exact.level, exact.narrows
    unknown = exact.open or (own.tells_rounding and not exact.moves)
    return [replace(bounds, reliable=False) for bounds in expected] if unknown else expected


def _in_one_order(exact: _Exact) -> _Exact:
    """The same, with outputs whose order is open in the order of `compare.in_one_order`."""
    for number, each in exact.indexed.items():
        if each.unordered:
            outputs = each.rearranged(exact.outputs[number], exact.outputs)
            moves = each.rearranged(exact.outputs[number], exact.moves)
            own = replace(each, targets=[]).beside(outputs[number])
            exact = replace(exact, outputs=outputs, moves=moves, indexed=exact.indexed | {number: own})
    return exact


def befores(case: Case, outputs: list[torch.Tensor]) -> list[torch.Tensor | None]:
    """Of each output the input that it is a small change of, if there is one: the work is the change alone.

    Args:
        case: names the inputs.
        outputs: the reference's, and what it has made of the inputs that it changes.
    """
    inputs = [view(case.image, place) for place in case.shape.layout["tensors"]]
    num_outputs = len(outputs) - len(case.changed)
    found = [compare.nearest(output, inputs) for output in outputs[:num_outputs]]
    return found + [compare.nearest(outputs[num_outputs + at], [inputs[i]]) for at, i in enumerate(case.changed)]


def _exact(
    own: ReferenceProcess,
    image: torch.Tensor,
    changed: list[int],
    by_largest: bool = False,
    writes: bool = False,
    faint: bool = False,
) -> _Exact:
    """What the reference gives in float64 on the inputs of its last call, and makes of the changed ones.

    Args:
        own: its process.
        image: the inputs.
        changed: numbers of those that it changes.
        by_largest: see `rounding.Rounding`.
        writes: it is asked what the task writes down.
        faint: see `exact.compute`.
    """
    own.arena.write(image, own.ask)
    how = {"by_largest": by_largest, "masked": own.masks, "level": own.level, "writes": writes, "faint": faint}
    reply = own.examine({"do": "exact", "changed": changed, "narrows": own.narrows} | how)
    tensors = iter(own.outputs(reply))
    outputs = list(islice(tensors, reply["num_outputs"]))
    moves: list[Any] = list(islice(tensors, reply["num_moves"]))
    indexed = {}
    for told in reply["choices"]:
        values, moved, indices = islice(tensors, 3)
        indexed[told["output"]] = compare.Indexed.of(
            values, moved, indices, told["dim"], told["first"], told["running"], told["unordered"]
        )
    hidden = list(islice(tensors, reply["num_hidden"]))
    return _Exact(outputs, moves, indexed, list(tensors), reply["level"], hidden, reply["open"], reply["narrows"])


class Dependence:
    """Whether the outputs of a task depend on its inputs, as its cases tell one after the other.

    Args:
        task: the task.
        eliminates: a matrix is inverted, or decomposed.
    """

    def __init__(self, task: Task, eliminates: bool):
        self._task = task
        self._eliminates = eliminates
        self._first: list[torch.Tensor] | None = None
        """Outputs that are right for the first case."""
        self._tells = True
        self._num_others = 0
        self._accepted, self._differs = True, False

    def look_at(self, expected: list[compare.Expected]) -> None:
        """Look at a case, by its outputs.

        Raises:
            TaskError: of the first case: rounding moves an output by a quarter of its size.
        """
        if self._first is None:
            self._look_at_first(expected)
        elif self._tells and [one.low.shape for one in expected] == [value.shape for value in self._first]:
            self._num_others += 1  # others have shapes that depend on the inputs
            pairs = list(zip(expected, self._first, strict=True))
            if self._num_others == 1:
                self._differs = any(not torch.equal(one.some(), value) for one, value in pairs)
            self._accepted = self._accepted and all(one.accepts(value) for one, value in pairs)

    def _look_at_first(self, expected: list[compare.Expected]) -> None:
        for number, one in enumerate(expected if self._task.atol is None else ()):
            if one.indexed is None and one.low.is_floating_point() and one.is_all_rounding(self._eliminates):
                raise TaskError(
                    f"task {self._task.id}: on its own inputs rounding moves output {number} by a quarter of its size "
                    "or more: nothing can be told from it; take other ones (a matrix that is far from singular, fewer "
                    "steps)"
                )
        self._first = [one.some() for one in expected]
        self._tells = not any(one.nan is not None or one.indexed for one in expected)

    def check(self) -> None:
        """Check that no output is right whatever the inputs are, unless it is always the same.

        Raises:
            TaskError: rounding moves the outputs of this task as far as other inputs do.
        """
        few = self._num_others < LEAST_OTHERS  # by chance as large, of which little is told
        if self._tells and not few and self._accepted and self._differs:
            raise TaskError(
                f"task {self._task.id}: outputs that are right for some inputs are right for all others, too, so "
                "nothing can be told from them; its tolerance, or what rounding does to it, is too large"
            )
