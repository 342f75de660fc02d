"""What counts as the right output: bounds around a float64 reference, and the rules for what an output may be."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch

from kernelrl.executor import trees
from kernelrl.executor.contest.any_order import in_order
from kernelrl.executor.contest.precision import least
from kernelrl.task import Task
from kernelrl.verdict import TrialError

DEFAULT_TOLERANCE = {
    "torch.float64": 1e-10,
    "torch.float32": 1e-4,
    "torch.float16": 1e-2,
    "torch.bfloat16": 1e-2,
}
"""rtol = atol by dtype, KernelBench's for each precision; integers and booleans must be equal."""


ROUNDINGS = 3.0
"""A candidate may err this many times as much as rounding moves the reference (`contest.exact`)."""
SELECTED = 4.0
"""Units of the last place by which an output may err that the reference gives without any rounding."""
SOME = 4096
"""Elements that are looked at before all others are."""
SQUARED = 1e-12
"""Norms that are larger, and smaller than its inverse, are right in float32."""
LEAST_SIZE = 1e-28
"""Outputs that are smaller throughout count as so large: what underflows here may give 1e-35 in another formula."""
ALL_ROUNDING, LEAST_TOLD = 0.25, 1e-2
"""From so wide bounds nothing is told, in units of the output's root mean square, if that is larger than the other one:
many a task cancels to almost zero."""
MOST_HIDDEN = 0.5
"""Share of an output that may be open because a mask may have hidden what it is made of."""
OF_PART, KNOWN, LEAST_PART = 0.5, 100.0, 8
"""The tolerance of a part that is far smaller than the rest of an output, in units of its size, by how much that must
exceed what rounding does to it, and how many elements it must have."""
OF_CHANGE = 1 / 20
"""Share of what makes an output another than an input that may be missing."""


@dataclass(frozen=True)
class Expected:
    """One output of the reference: the bounds within which a candidate's must lie."""

    low: torch.Tensor
    high: torch.Tensor
    nan: torch.Tensor | None
    """Where NaN is right: the reference is NaN, or rounding moves it without bound; None: nowhere."""
    reliable: bool
    """Whether the reference in its own precision is well within these bounds itself, and NaN or infinite alike."""

    open_share: float = 0.0
    """Share of the elements of which any value is right."""
    selected: bool = False
    """Whether the reference gives all of it without any rounding."""
    is_rounding: bool = False
    """See the function of that name. Looked at where the reference solves systems."""
    indexed: Indexed | None = None
    """Integers that are indices which the reference chooses by the order of values: others may be as good."""

    @classmethod
    def around(
        cls,
        exact: torch.Tensor,
        native: torch.Tensor,
        dtype: str,
        task: Task,
        scaled: bool,
        moved: torch.Tensor | None = None,
        before: torch.Tensor | None = None,
        computes: bool = False,
        least: float = 0.0,
        unusual: bool = False,
        written: torch.Tensor | None = None,
        by_part: bool = False,
    ) -> Expected:
        """Bounds `exact ± tolerance`, held in the output's own width (at least float32).

        The tolerance is `atol + rtol |exact|` and, where `scaled`, less for small outputs: `atol` counts in units of
        the output's root mean square `s` when that is below 1, because 1e-4 is no tolerance for a softmax over ten
        thousand columns; an output that is zero throughout, since everything cancels, says nothing of its size. What
        rounding does to the output is added:

            tolerance = atol min(1, s) + rtol |exact| + ROUNDINGS moved

        Where the output is an input with a small change, such as an optimizer's step, the first two terms are at most
        a share of the change (see `_of_change`), so that it cannot be left out.

        `moved` comes from float64 and is the same on every machine. Where the reference as the task computes it errs by
        more than the tolerance, the interval reaches to its own value. Where it overflows, its own value is right, and
        so is what lies within the tolerance; where the tolerance reaches beyond the dtype, infinity is right.

        Integers and booleans must be equal, except where rounding changes them. The reference's own are right too.

        What is `unusual` is open: where the reference computes NaN or infinity any value is right, since another
        formula may not; what it writes down must be given.

        Args:
            exact: the reference's output, in float64 where it is a floating-point one; or `native`, to be held to that.
            native: the reference's output as the task computes it.
            dtype: of that output.
            task: names its own tolerances, which are then kept as they are, or none.
            scaled: take the size of the outputs into account.
            moved: how far rounding moves each element; for booleans, whether it does. None: not known.
            before: the input that the output is a change of, if it is one.
            computes: of other inputs the output is rounded, though of these it may happen to be exact.
            least: `s` counts as this at least.
            unusual: of the task's own inputs the reference makes no NaN or infinity, and of these it does.
            written: which elements it writes down; None: not known.
            by_part: a part that is far smaller than the rest must be there as well, see `_of_parts`.
        """
        atol, rtol = _tolerances(dtype, task)
        if not exact.is_floating_point():
            low, high = exact, exact
            if moved is not None and exact.dtype == torch.bool:
                low, high = exact & ~moved, exact | moved
            elif moved is not None:
                low, high = exact.long() - moved, exact.long() + moved
            inside = (native >= low) & (native <= high)
            low, high = torch.where(inside | (native > high), low, native), torch.where(native > high, native, high)
            return cls(low, high, nan=None, reliable=bool(inside.all()))
        width = torch.float64 if dtype == "torch.float64" else torch.float32
        own = native.to(width)
        centre = exact.to(width)
        error = (native.to(torch.float64) - exact).abs_()
        total = float(error.sum())
        finite = math.isfinite(total)
        rounded = total > 0.0 if finite else not _are_alike(exact, native)
        if not finite:
            centre = torch.where(exact.isnan(), own, centre)
            known = error.isfinite()
            finite = bool(known.all())
            error.masked_fill_(~known, 0.0)
        unit = max(_size(centre), least) if scaled and task.atol is None else 1.0
        # outputs that are inputs or whole numbers, which everybody has to the last bits
        selected = scaled and task.atol is None and not (computes or rounded) and exact.dtype != native.dtype
        if selected:
            atol, rtol = _last_bits(native.dtype, rtol)
            unit = 1.0
        margin = centre.abs().mul_(rtol).add_(atol * min(1.0, unit))
        if before is not None and task.atol is None and not selected:
            margin = torch.minimum(margin, _of_change(centre, before, native.dtype))
        if moved is not None and task.atol is None:
            rounded_by = ROUNDINGS * moved.to(width)
            margin += rounded_by
            if by_part and finite and not selected:
                margin = _of_parts(centre, margin, rounded_by)
        low, high = centre - margin, centre + margin
        far = error > margin
        close = error <= margin / 2
        if not finite:
            close = torch.where(known, close, (native == exact) | (native.isnan() & exact.isnan()))
        reliable = bool(close.all())
        if bool(far.any()):
            low = torch.where(far, torch.minimum(low, own - margin), low)
            high = torch.where(far, torch.maximum(high, own + margin), high)
        largest = torch.finfo(native.dtype).max
        if largest < torch.finfo(width).max:
            low, high = low.masked_fill_(low < -largest, -torch.inf), high.masked_fill_(high > largest, torch.inf)
        at_limit = native.abs() == largest
        if bool(at_limit.any()):  # as `nan_to_num` or `torch.finfo` give it: infinity is what the task replaces
            low = torch.where(at_limit & (centre >= -largest), low.clamp_min(-largest), low)
            high = torch.where(at_limit & (centre <= largest), high.clamp_max(largest), high)
        unbound: torch.Tensor | None = None
        if moved is not None and not math.isfinite(float(margin.sum())):
            unbound = margin.isinf() & centre.isfinite()
        if finite:
            return cls(low, high, unbound, reliable, selected=selected)
        is_nan = native.isnan() | exact.isnan()
        if unbound is not None:
            is_nan |= unbound
        low, high = torch.where(centre.isinf(), centre, low), torch.where(centre.isinf(), centre, high)
        low = torch.where(own.isinf(), torch.minimum(low, own), low)
        high = torch.where(own.isinf(), torch.maximum(high, own), high)
        if not unusual:
            return cls(low, high, is_nan, reliable, selected=selected)
        is_open = is_nan | exact.isinf() | native.isinf()
        if written is not None:
            is_open &= ~written
        low, high = low.masked_fill(is_open, -torch.inf), high.masked_fill(is_open, torch.inf)
        share = float(is_open.double().mean())
        return cls(low, high, is_nan | is_open, bool((close | is_open).all()), open_share=share, selected=selected)

    def opened(self) -> Expected:
        """Any value is right, where the output is one of floating-point numbers."""
        low, high = torch.full_like(self.low, -torch.inf), torch.full_like(self.high, torch.inf)
        return replace(self, low=low, high=high, nan=torch.ones_like(low, dtype=torch.bool))

    def opened_at(self, places: torch.Tensor) -> Expected:
        """Any value is right at some places. It is not reliable if they are most, or hold chosen indices."""
        if not bool(places.any()):
            return self
        least, most = -torch.inf, torch.inf
        if not self.low.is_floating_point():
            is_bool = self.low.dtype == torch.bool
            least, most = (0, 1) if is_bool else (torch.iinfo(self.low.dtype).min, torch.iinfo(self.low.dtype).max)
        low, high = self.low.masked_fill(places, least), self.high.masked_fill(places, most)
        nan = (places if self.nan is None else self.nan | places) if self.low.is_floating_point() else None
        reliable = self.reliable and self.indexed is None and float(places.double().mean()) <= MOST_HIDDEN
        return replace(self, low=low, high=high, nan=nan, reliable=reliable)

    @property
    def num_bytes(self) -> int:
        """Memory that it takes."""
        return 2 * self.low.nbytes

    def accepts(self, output: torch.Tensor) -> bool:
        """Whether every element lies within its bounds."""
        if self.indexed is not None:
            return self.indexed.accepts(output.to(self.low.dtype))
        return bool(self._inside(output).all())

    def _inside(self, output: torch.Tensor) -> np.ndarray:
        """Of each element, whether it lies within its bounds. NumPy's comparisons take a third of PyTorch's time."""
        values = output.to(self.low.dtype).numpy()
        inside = np.asarray(values >= self.low.numpy())
        inside &= values <= self.high.numpy()
        if self.nan is not None:
            inside |= self.nan.numpy() & np.isnan(values)
        return inside

    @property
    def width(self) -> float:
        """Half of the median interval, in units of the output's root mean square; of integers, the share not fixed."""
        if not self.low.is_floating_point():
            return float((self.low != self.high).double().mean())
        reach = (self.high - self.low)[self.low.isfinite() & self.high.isfinite()]
        return float(reach.median()) / 2 / (_root_mean_square(self.some()) or 1.0) if reach.numel() else 0.0

    def is_all_rounding(self, eliminates: bool) -> bool:
        """Whether half of the output, or more, may be off by a quarter of its size, which is no small one.

        Args:
            eliminates: a matrix is inverted, or decomposed: what may be anything there is rounding, too.
        """
        size = _root_mean_square(self.some())
        is_open = (self.low == -torch.inf) & (self.high == torch.inf)
        if eliminates and float(is_open.double().mean()) >= 0.5:
            return True
        return math.isfinite(size) and size > LEAST_TOLD and self.width >= ALL_ROUNDING

    def some(self) -> torch.Tensor:
        """An output that is right."""
        if not self.low.is_floating_point():
            return self.low
        return torch.where(self.low.isfinite() & self.high.isfinite(), self.low / 2 + self.high / 2, self.low)

    def mismatch(self, trial: int, inputs: str, output: torch.Tensor) -> TrialError:
        """How far an output that was not accepted is away."""
        if self.indexed is not None:
            return self.indexed.mismatch(trial, inputs, output.to(self.low.dtype))
        inside = torch.from_numpy(self._inside(output))
        width = self.low.dtype if self.low.is_floating_point() else torch.float64
        wide = output.to(width)
        middle = (self.low.to(width) / 2).add_(self.high.to(width) / 2)
        difference = (wide - middle).abs_()
        is_finite = difference.isfinite()
        is_bad = is_finite & ~inside
        share = 1.0 - float(inside.double().mean())
        num_bad = int(is_bad.sum())
        non_finite = bool((~wide.isfinite() & ~inside).any())
        max_abs = float(difference.masked_fill(~is_finite, 0.0).max()) if num_bad else None
        relative = difference.div_(middle.abs().clamp_min_(1e-12)).masked_fill_(~is_bad, 0.0)
        max_rel = float(relative.max()) if num_bad else None
        what = "values that are not finite" if non_finite else "values outside the tolerance"
        first = int((~inside).flatten().int().argmax())
        at = tuple(int(i) for i in torch.unravel_index(torch.tensor(first), output.shape)) if output.dim() else ()
        example = f"at {list(at)} expected {float(middle.flatten()[first]):.6g}, got {float(wide.flatten()[first]):.6g}"
        message = f"{what} in {share:.2%} of the elements; {example}"
        kind: Any = "non_finite" if non_finite else "mismatch"
        return TrialError(
            trial=trial,
            kind=kind,
            inputs=inputs,
            message=message,
            max_abs=max_abs,
            max_rel=max_rel,
            mismatched=share,
        )


def _of_parts(values: torch.Tensor, margin: torch.Tensor, rounded_by: torch.Tensor) -> torch.Tensor:
    """A tolerance that leaves no part out: of one index along a dimension, all of which might as well be zeros.

    Such are accelerations beside positions, in other units. Half of its size is its tolerance, since functions that are
    approximated have errors near zero as elsewhere; it is known to more than that, or it stays as it is.
    """
    for dim in range(values.dim() if bool((values.abs() <= margin).any()) else 0):
        others = [each for each in range(values.dim()) if each != dim]
        if math.prod(values.shape[each] for each in others) < LEAST_PART:
            continue
        size = values.square().mean(others, keepdim=True).sqrt()
        may_be_zero = (values.abs() <= margin).all(dim=others, keepdim=True)
        known = size > KNOWN * rounded_by.amax(others, keepdim=True)
        margin = torch.where(may_be_zero & known, torch.minimum(margin, OF_PART * size + rounded_by), margin)
    return margin


@dataclass(frozen=True)
class Near:
    """One output of the reference as the task computes it: what lies near it is right, whatever float64 says."""

    native: torch.Tensor
    margin: torch.Tensor | None
    """Half of the tolerance without what rounding adds to it; None: integers and booleans must be equal."""

    @classmethod
    def to(cls, native: torch.Tensor, task: Task, selected: bool = False, before: torch.Tensor | None = None) -> Near:
        """What lies near errs by half the tolerance of `Expected.around`, and as much as the reference itself.

        Args:
            native: see the field.
            task: see `Expected.around`.
            selected: of other inputs the reference gives all of this output without any rounding.
            before: see `Expected.around`.
        """
        if not native.is_floating_point():
            return cls(native, None)
        wide = native.to(torch.float64 if native.dtype == torch.float64 else torch.float32)
        atol, rtol = _tolerances(str(native.dtype), task)
        if selected:
            atol, rtol = _last_bits(native.dtype, rtol)
        unit = _size(wide) if task.atol is None and not selected else 1.0
        margin = wide.abs().mul_(rtol / 2).add_(atol / 2 * min(1.0, unit))
        if before is not None and task.atol is None and not selected:
            margin = torch.minimum(margin, _of_change(wide, before, native.dtype) / 2)
        return cls(wide, margin)

    @property
    def num_bytes(self) -> int:
        """Memory that it takes."""
        return self.native.nbytes + (0 if self.margin is None else self.margin.nbytes)

    def accepts(self, output: torch.Tensor) -> bool:
        """Whether every element is near. Values that are not finite are not."""
        if self.margin is None:
            return torch.equal(output, self.native)
        if not output.numel():
            return True
        wide = output.to(self.native.dtype)
        with np.errstate(invalid="ignore"):
            beyond = np.atleast_1d(np.subtract(wide.numpy(), self.native.numpy()))
            np.abs(beyond, out=beyond)  # in place: to allocate takes longer than to compute
            beyond -= self.margin.numpy()
            return bool(beyond.max() <= 0)  # NaN is not


@dataclass(frozen=True)
class Indexed:
    """Indices that the reference chooses by the order of values, and what else may be named in their place.

    Values that differ by no more than rounding moves them may take each other's place, and so may those below the
    smallest normal number. Each element may be named as often as the reference names it, unless the choice is running.
    """

    source: torch.Tensor
    """The values from which is chosen, in float64: the dimension along which is chosen is the last."""
    margin: torch.Tensor
    """By how much each may be another."""
    dim: int
    """That dimension in the indices."""
    targets: list[torch.Tensor]
    """The reference's indices in float64 and as the task computes them, in the form of `source`."""
    first: bool
    """Of equal values that rounding does not move, the first must be named."""
    form: list[int]
    """Shape of the indices with the dimension along which is chosen."""
    running: bool = False
    """Each index is chosen among the values up to its own place."""
    unordered: bool = False
    """They may come in any order, in which all outputs of their shape come (`in_one_order`)."""

    @classmethod
    def of(
        cls,
        source: torch.Tensor,
        moved: torch.Tensor,
        indices: torch.Tensor,
        dim: int,
        first: bool,
        running: bool = False,
        unordered: bool = False,
    ) -> Indexed:
        """What may be named.

        Args:
            source: see the field.
            moved: how far rounding moves each of its values.
            indices: the reference's in float64, in the form of `source`.
            dim: see the field.
            first: see the field.
            running: see the field.
            unordered: see the field.
        """
        form = list(indices.movedim(-1, dim).shape)
        return cls(source, ROUNDINGS * moved, dim, [indices], first, form, running, unordered)

    def beside(self, native: torch.Tensor) -> Indexed:
        """The same, where the reference's indices as the task computes them are right too."""
        return replace(self, targets=[*self.targets, self._arranged(native)])

    def _arranged(self, output: torch.Tensor) -> torch.Tensor:
        return output.long().reshape(self.form).movedim(self.dim, -1)

    def accepts(self, output: torch.Tensor) -> bool:
        """Whether the output names values as good as the reference's, and none more often than it does."""
        return bool(self._right(output).all()) and self._repeats_no_more(output)

    def mismatch(self, trial: int, inputs: str, output: torch.Tensor) -> TrialError:
        """What is wrong with indices that were not accepted."""
        wrong, found = ~self._right(output), self._arranged(output)
        message, share = "an index is named more often than the task names it", None
        if bool(wrong.any()):
            share = float(wrong.double().mean())
            at = tuple(int(each) for each in wrong.nonzero()[0])
            place = list(at[:-1][: self.dim]) + [at[-1]] + list(at[:-1][self.dim :])
            message = f"indices of other values than those that are chosen in {share:.2%} of the elements; "
            message += f"at {place} expected {int(self.targets[0][at])}, got {int(found[at])}"
        return TrialError(trial=trial, kind="mismatch", inputs=inputs, message=message, mismatched=share)

    def _repeats_no_more(self, output: torch.Tensor) -> bool:
        return self.running or _repeats(self._arranged(output)) <= max(map(_repeats, self.targets))

    def _right(self, output: torch.Tensor) -> torch.Tensor:
        """Which elements name values as good as the reference's; the dimension of the choice is the last."""
        named = self._arranged(output)
        exist = (named >= 0) & (named < self.source.shape[-1])
        found = named.where(exist, 0)
        values, slack = self.source.gather(-1, found), self.margin.gather(-1, found)
        right = torch.zeros_like(found, dtype=torch.bool)
        for target in self.targets:
            wanted, margin = self.source.gather(-1, target), slack + self.margin.gather(-1, target)
            tied = (values == wanted) | (values.isnan() & wanted.isnan())
            near = (tied | ((values - wanted).abs() <= margin)) & (margin > 0)
            right |= near | (found == target if self.first else tied)
        if self.running:
            right &= found <= torch.arange(found.shape[-1])
        return right & exist

    def rearranged(self, named: torch.Tensor, outputs: list[torch.Tensor]) -> list[torch.Tensor]:
        """Outputs in the order of `in_order`, by indices that are one of them."""
        return in_order(self.source, named, self.dim, outputs)


def in_one_order(indexed: Mapping[int, Indexed], outputs: list[torch.Tensor]) -> list[torch.Tensor]:
    """Outputs of a reference or a candidate, those whose order is open in one that depends on their values alone.

    Args:
        indexed: by the number of an output, what is known of the indices of which it consists.
        outputs: all of them.
    """
    for number, each in indexed.items():
        if each.unordered:
            outputs = each.rearranged(outputs[number], outputs)
    return outputs


def in_order_of(expected: list[Expected], outputs: list[torch.Tensor]) -> list[torch.Tensor]:
    """`in_one_order`, by what is expected of the outputs."""
    indexed = {number: each.indexed for number, each in enumerate(expected) if each.indexed is not None}
    return in_one_order(indexed, outputs)


def all_accepted(expected: list[Expected], outputs: list[torch.Tensor]) -> bool:
    """Whether all outputs lie within their bounds, of as many as are given."""
    return all(map(Expected.accepts, expected, in_order_of(expected[: len(outputs)], outputs)))


def _repeats(indices: torch.Tensor) -> int:
    return int((indices.sort(dim=-1).values.diff(dim=-1) == 0).sum())


def _tolerances(dtype: str, task: Task) -> tuple[float, float]:
    """`atol` and `rtol` of a task's output."""
    default = DEFAULT_TOLERANCE.get(dtype, 0.0)
    return default if task.atol is None else task.atol, default if task.rtol is None else task.rtol


def _last_bits(dtype: torch.dtype, rtol: float) -> tuple[float, float]:
    """`atol` and `rtol` of what is not rounded."""
    return least(dtype), min(rtol, SELECTED * torch.finfo(dtype).eps)


def nearest(output: torch.Tensor, inputs: list[torch.Tensor]) -> torch.Tensor | None:
    """The input that an output is a small change of: so small that the usual tolerance is a good part of it, or more.

    Args:
        output: of the reference.
        inputs: those that it may have changed.
    """
    if not output.is_floating_point():
        return None
    alike = [each for each in inputs if each.shape == output.shape and each.dtype == output.dtype]
    if not alike:
        return None
    least = DEFAULT_TOLERANCE[str(output.dtype)] * _root_mean_square(output) / OF_CHANGE
    found = None
    for each in alike:
        if output.numel() and _first_squares(output, each) >= output.numel() * least**2:
            continue  # the others make the distance no smaller
        size = _root_mean_square(output - each)
        if size < least:
            found, least = each, size
    return found


def _first_squares(one: torch.Tensor, other: torch.Tensor) -> float:
    """Sum of the squares of the differences of the first elements; zero where some of these are not finite."""
    if one.dim() and one.is_contiguous() and other.is_contiguous():
        one, other = one.flatten()[:SOME], other.flatten()[:SOME]
    elif one.dim():
        first = (0,) * (one.dim() - 1)
        one, other = one[first][:SOME], other[first][:SOME]
    squares = float((one - other).double().square().sum())
    return squares if math.isfinite(squares) else 0.0


def _of_change(after: torch.Tensor, before: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """Tolerance of what is made of an input by a small change.

    It is a share of the change, of that of the whole where an element's own is smaller, and one unit of the last place:
    the change may be rounded several times on its way into the value.
    """
    change = (after - before.to(after.dtype)).abs_()
    share = change.clamp_min(_root_mean_square(change)).mul_(OF_CHANGE)
    return share.add_(after.abs(), alpha=torch.finfo(dtype).eps).nan_to_num_(torch.inf, posinf=torch.inf)


def _are_alike(exact: torch.Tensor, native: torch.Tensor) -> bool:
    """Whether all is equal, some of it NaN or infinite."""
    some = [each.flatten()[:SOME] for each in (exact, native.to(exact.dtype)) if each.is_contiguous()]
    if len(some) == 2 and not torch.equal(*(each.nan_to_num(0.0) for each in some)):
        return False
    return torch.equal(exact.nan_to_num(0.0), native.to(exact.dtype).nan_to_num(0.0))


def is_rounding(exact: torch.Tensor, moved: torch.Tensor) -> bool:
    """Whether what rounding adds to an output's tolerance is more than its own size, as of a singular system."""
    return exact.is_floating_point() and ROUNDINGS * _root_mean_square(moved) > _root_mean_square(exact)


def _size(values: torch.Tensor) -> float:
    """By which the tolerance of an output goes; 1, if it is zero throughout."""
    found = _root_mean_square(values)
    return max(found, LEAST_SIZE) if found else 1.0


def _root_mean_square(values: torch.Tensor) -> float:
    """Of the finite values: one NaN among them must not loosen what is asked of the others."""
    norm = float(torch.linalg.vector_norm(values)) if values.dtype == torch.float32 else math.nan
    if not SQUARED <= norm <= 1 / SQUARED:  # in float32, which is eight times as fast, squares may be none
        norm = float(torch.linalg.vector_norm(values, dtype=torch.float64))
    if not math.isfinite(norm):
        values = values[values.isfinite()]
        norm = float(torch.linalg.vector_norm(values, dtype=torch.float64))
    return norm / math.sqrt(max(values.numel(), 1))


def form_error(
    trial: int, inputs: str, index: int, native: dict[str, Any], described: Any, orders: list[list[int]] | None
) -> TrialError | None:
    """What is wrong with an output's description, before its memory is read. The description is hostile data.

    Args:
        native: the description of the reference's.
        orders: strides of which one gives the order of its dimensions; None: any order will do.
    """
    if not isinstance(described, dict):
        return TrialError(trial=trial, kind="type", inputs=inputs, message="the output is not described")
    shape, stride, dtype = described.get("shape"), described.get("stride"), described.get("dtype")

    def error(kind: Any, found: object, wanted: object) -> TrialError:
        message = f"output {index}: {kind} is {found!s:.200}, expected {wanted}"
        return TrialError(trial=trial, kind=kind, inputs=inputs, message=message)

    if described.get("type") not in ("Tensor", "Parameter"):
        return error("type", described.get("type"), "a plain torch.Tensor")
    if described.get("device") != native["device"]:
        return error("device", described.get("device"), native["device"])
    if dtype != native["dtype"]:
        return error("dtype", dtype, native["dtype"])
    if shape != native["shape"]:
        return error("shape", shape, native["shape"])
    if not isinstance(stride, list) or len(stride) != len(native["shape"]):
        return error("layout", described.get("layout"), "strided")
    if stride != native["stride"] and not trees.is_dense(native["shape"], stride):
        return error("layout", f"stride {stride}", "a dense tensor")
    if orders is not None and not any(_same_order(shape, stride, order) for order in orders):
        return error("layout", f"stride {stride}", f"stride {orders[0]}: to lay data out so is part of this task")
    if not isinstance(pointer := described.get("pointer"), int) or not 0 <= pointer < 1 << 64:
        return error("layout", "no address" if isinstance(pointer, int) else pointer, "an address")
    return None


def contiguous(shape: list[int]) -> list[int]:
    """The strides of a contiguous tensor."""
    return [math.prod(max(length, 1) for length in shape[place + 1 :]) for place in range(len(shape))]


def _same_order(shape: list[int], stride: list[int], other: list[int]) -> bool:
    """Whether two strides put the dimensions in one order, in which those without a step in the other have no place."""
    dims = trees.order(shape, other)
    return not math.prod(shape) or dims == sorted(dims, key=stride.__getitem__, reverse=True)
