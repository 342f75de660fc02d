"""What a task's reference does that a candidate may then do as well, and which inputs it bears."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

import torch

from kernelrl.errors import TaskError
from kernelrl.executor import trees
from kernelrl.executor.contest import distributions
from kernelrl.executor.contest.rounding import ELIMINATING
from kernelrl.executor.contest.values import all_are_finite, are_same_bytes
from kernelrl.executor.judging.arena import span_of, view
from kernelrl.executor.judging.exchange import exchanges, gives_back
from kernelrl.executor.judging.reference_process import ReferenceProcess
from kernelrl.executor.legality.operators import only_moves

_UNSTABLE = frozenset(
    f"aten::{name}" for name in "sort argsort topk kthvalue median mode cummax cummin unique _unique2".split()
)
"""Operators whose integer outputs are not determined where values are equal, unless a sort is stable."""
_MINDS_NOT_FINITE = frozenset(
    f"aten::{name}" for name in "nan_to_num isnan isinf isposinf isneginf nansum nanmedian".split()
)
"""Operators of tasks that say what becomes of NaN and infinity. Others are found out by trying one NaN."""
_IS_FINITE = re.compile(r"\bisfinite\s*\(")  # made of other operators
_SWALLOWS_NAN = frozenset(f"aten::{name}" for name in "sign sign_ sgn sgn_ heaviside heaviside_ _linalg_eigh".split())
"""Operators that make a number of NaN, which is not documented (pytorch/pytorch#41245): no task says that by them."""
_CHOOSES = _UNSTABLE | frozenset(f"aten::{name}" for name in "argmax argmin searchsorted bucketize".split())
"""Operators that choose by the order of values. That NaN is nowhere among the outputs then says that it was not chosen,
and nothing of what is to become of it."""
_LAYS_OUT = frozenset(
    f"aten::{name}"
    for name in "clone _to_copy copy_ cat stack index index_select gather take take_along_dim repeat roll flip".split()
)
"""Operators that may write data in another order of dimensions, as `contiguous` and `reshape` do by `clone`."""
_LAY_OUT = ("_copy", "_pad", "_pad1d", "_pad2d", "_pad3d", "_pad_nd")
"""How names of others end: `permute_copy`, `reflection_pad2d`."""

_READS = frozenset(f"aten::{name}" for name in "item _local_scalar_dense is_nonzero".split())
"""Operators by which a program's next steps hang on values: with strange ones it might never end."""

LIKE, NOISE = 1e-2, 1e-6
"""What outputs of equal calls may differ by where sums are made in parallel: relative to each and to their root mean
square, and besides; and the share of those that may differ by more."""
CALLS = 4
"""Calls in which random numbers may show in the outputs."""


@dataclass(frozen=True)
class Habits:
    """What calls on the task's own inputs, and some on others, have shown."""

    ties_are_open: bool
    """It chooses among equal values, any of them may be right, and of an input it is not known whether that matters."""
    minds_not_finite: bool
    """It says what becomes of NaN or infinity, and not by a comparison with infinity alone."""
    may_split_not_finite: bool
    """It says that, or what becomes of infinity, by its operators, and none of them makes something else of NaN that is
    not documented."""
    moves_by_name: bool
    """It moves, converts or compares data, and computes nothing, as its operators say."""
    moves_values: bool
    """They do not say it, and it does all the same (see the function of that name)."""
    reads: bool
    """What it does next hangs on values that it reads."""
    eliminates: bool
    """It solves systems or decomposes matrices, which large numbers among tiny ones make nearly singular."""
    lays_out: bool
    """It writes data in another order of dimensions, so the order of its outputs is part of the work."""
    laid_out: list[bool]
    """Of each output: it is data that were written in another order of dimensions, so that order is the work."""
    not_finite: set[str]
    """Which of NaN and infinity are among its outputs."""
    returns_input: bool
    changes_state: set[str]
    """What a call does not leave as it was (see `Contestant.do_state`)."""
    changes_more: bool
    """A second call on the same inputs does not leave that as it was either."""
    buffers: set[str]
    """Names of its buffers. Others are a candidate's own, which it may write to."""
    reuses_outputs: bool
    thresholds: dict[str, Any]
    """What it compares its data with, see `Thresholds.found`."""

    @property
    def only_moves(self) -> bool:
        """It moves, converts or compares data: copies are the work."""
        return self.moves_by_name or self.moves_values

    def bears(self, distribution: str) -> bool:
        """Whether inputs of that distribution say something about the task."""
        if self.ties_are_open and distribution in distributions.UNORDERED:
            return False
        if distribution == "ordered" and self.thresholds["sums_long"]:  # sums of ordered numbers of either sign go far
            return False
        if distribution == "ends" and self.eliminates:
            return False
        if distribution == "infinite" and self.thresholds["infinities"]:
            return True
        return self.minds_not_finite or distribution not in distributions.NOT_FINITE


def learn_habits(
    own: ReferenceProcess,
    before: dict[str, Any],
    native: dict[str, Any],
    layout: dict[str, Any],
    image: torch.Tensor,
) -> Habits:
    """Look at a recorded call on these inputs that was just answered, the first one, and at some others.

    Args:
        own: runs the reference.
        before: how it was before that call, which may leave there what another on the same inputs does not change.
        native: the answer.
        layout: of the inputs.
        image: the inputs.
    """
    operators = native["operators"].keys()
    has_integers = any(not trees.DTYPES[described["dtype"]].is_floating_point for described in native["tensors"])
    choosing = _UNSTABLE & operators if has_integers else frozenset[str]()
    outputs = own.outputs(native)
    not_finite = find_not_finite(outputs)
    between = own.ask({"do": "state"})["state"]
    again = own.call(layout, image)
    outputs_again = own.outputs(again)
    after = own.ask({"do": "state"})["state"]
    pairs = zip(native["tensors"], again["tensors"], strict=True)
    changes_state = {name for name in before if not before[name] == between[name] == after[name]}
    changes_more = between != after
    if "random numbers" in changes_state:
        _check_draws(own, layout, image)
    else:
        is_same_form = trees.outline(native["done"]) == trees.outline(again["done"])
        _check_memory(own, is_same_form, *(([], []) if choosing else (outputs, outputs_again)))
    reads_bits = native["thresholds"]["reads_bits"]  # of NaN too
    says_not_finite = bool(_MINDS_NOT_FINITE & operators or reads_bits or _IS_FINITE.search(own.task.source))
    leaves_it_open = bool((_SWALLOWS_NAN | _CHOOSES) & operators) or native["thresholds"]["converts"]  # of NaN any
    minds_not_finite = says_not_finite or (
        not changes_more
        and "NaN" not in not_finite
        and not leaves_it_open
        and _replaces_nan(own, native, layout, image)
    )
    moves_by_name = only_moves(operators - set(native["idle"]))
    return Habits(
        ties_are_open=bool(choosing) and own.settings.oracle != "float64",  # which is run with each choice
        minds_not_finite=minds_not_finite,
        may_split_not_finite=(says_not_finite or bool(native["thresholds"]["infinities"])) and not leaves_it_open,
        moves_by_name=moves_by_name,
        moves_values=not (moves_by_name or changes_more) and moves_values(own, native, outputs, layout, image),
        eliminates=any(name.removeprefix("aten::").startswith(ELIMINATING) for name in operators),
        reads=bool(_READS & operators),
        lays_out=any(map(_lays_out, operators)),
        laid_out=native["laid_out"],
        not_finite=not_finite,
        returns_input=any(own.arena.owns(described["pointer"]) for described in native["tensors"]),
        changes_state=changes_state,
        changes_more=changes_more,
        buffers={*before["buffers"], *after["buffers"]},
        reuses_outputs=any(first["pointer"] == second["pointer"] for first, second in pairs),
        thresholds=native["thresholds"],
    )


def moves_values(
    own: ReferenceProcess,
    native: dict[str, Any],
    outputs: list[torch.Tensor],
    layout: dict[str, Any],
    image: torch.Tensor,
) -> bool:
    """Whether the reference, with the parameters that it has now, does nothing but move, convert or compare values.

    Args:
        own: runs it.
        native: the answer to its recorded call.
        outputs: what it gives with these parameters.
        layout: of the inputs.
        image: the inputs.
    """
    operators = native["operators"].keys()
    if own.settings.device != "cpu":  # where copies cannot be closed
        return False
    if native["thresholds"]["makes_indices"] or _READS & operators:  # of any number, which may be too large for one
        return False
    drawn = [view(image, place) for place in layout["tensors"]]
    return gives_back(outputs, drawn) or exchanges(own, layout, image, operators)


def _lays_out(operator: str) -> bool:
    return operator in _LAYS_OUT or operator.endswith(_LAY_OUT)


def _check_draws(own: ReferenceProcess, layout: dict[str, Any], image: torch.Tensor) -> None:
    """Check that the random numbers that it draws in a call make no difference, as none do in dropout of zeros.

    Raises:
        TaskError: they do. Float64 would draw others than the task's precision, and a candidate others again.
    """
    first, *others = (own.outputs(own.call(layout, image)) for _ in range(CALLS))
    pairs = [pair for other in others for pair in zip(first, other, strict=True)]
    if not all(one.shape == two.shape and torch.equal(one.nan_to_num(), two.nan_to_num()) for one, two in pairs):
        raise TaskError(
            f"task {own.task.id}: forward draws random numbers that its outputs depend on, so no program can give the "
            "same outputs; call .eval() in the constructor, or pass what is drawn as an input"
        )


def _check_memory(
    own: ReferenceProcess, is_same_form: bool, outputs: list[torch.Tensor], again: list[torch.Tensor]
) -> None:
    """Check that a second call on the same inputs gives about the same outputs.

    Raises:
        TaskError: it does not. A candidate is called another number of times than the reference, and otherwise.
    """
    if not is_same_form or not all(map(_are_alike, outputs, again)):
        raise TaskError(
            f"task {own.task.id}: forward gives other outputs for the same inputs when it is called again, so they "
            "depend on what an earlier call has left (a counter, a moving average); pass that as an input"
        )


def _are_alike(first: torch.Tensor, second: torch.Tensor) -> bool:
    """Whether all but few elements are about the same."""
    if first.shape != second.shape or not first.numel():
        return first.shape == second.shape
    if are_same_bytes(first, second):
        return True
    one, two = first.double(), second.double()
    size = float(one.nan_to_num(0.0, 0.0, 0.0).square().mean().sqrt())
    others = ~torch.isclose(one, two, LIKE, LIKE * size + NOISE, equal_nan=True)
    return float(others.double().mean()) <= LIKE


def _replaces_nan(own: ReferenceProcess, native: dict[str, Any], layout: dict[str, Any], image: torch.Tensor) -> bool:
    """Whether no NaN comes out where one element of each floating-point input is NaN.

    What integers become of NaN, other than booleans, is open: an index of the largest value, a conversion.
    """
    dtypes = {trees.DTYPES[described["dtype"]] for described in native["tensors"]}
    places = [place for place in layout["tensors"] if trees.DTYPES[place["dtype"]].is_floating_point and place["bytes"]]
    if not places or any(not dtype.is_floating_point and dtype != torch.bool for dtype in dtypes):
        return False
    image = image.clone()
    for number, place in enumerate(places):  # at other places of each: one may take the other's place
        values = image[span_of(place)].view(trees.DTYPES[place["dtype"]])
        values[(len(values) // 2 + number) % len(values)] = torch.nan
    try:
        outputs = own.outputs(own.call(layout, image))
    except TaskError:
        if not own.process.alive:
            raise
        return False
    return "NaN" not in find_not_finite(outputs)


def find_not_finite(outputs: list[torch.Tensor]) -> set[str]:
    """Which of NaN and infinity are among the outputs."""
    kinds = {"NaN": torch.isnan, "infinity": torch.isinf}
    suspects = [output for output in outputs if not all_are_finite(output)]
    return {name for name, is_one in kinds.items() if any(bool(is_one(output).any()) for output in suspects)}
