"""What counts as the right output: bounds around a float64 reference, and the rules for what an output may be."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from kernelrl.task import Task
from kernelrl.verdict import TrialError

DEFAULT_TOLERANCE = {
    "torch.float64": 1e-7,
    "torch.float32": 1e-4,
    "torch.float16": 1e-2,
    "torch.bfloat16": 1e-2,
}
"""rtol = atol by dtype, KernelBench's for each precision; integers and booleans must be equal."""


ROUNDINGS = 3.0
"""A candidate may err this many times as much as rounding moves the reference (`rounding.Rounding`)."""


@dataclass(frozen=True)
class Expected:
    """One output of the reference: its form, and the bounds within which a candidate's must lie."""

    dtype: str
    shape: list[int]
    stride: list[int]
    device: str
    low: torch.Tensor
    high: torch.Tensor
    nan: torch.Tensor | None
    """Where the reference is NaN; None: nowhere."""
    reliable: bool
    """Whether the reference in its own precision is finite and well within these bounds itself."""

    indexed: Indexed | None = None
    """Integers that are indices of sorted values: any order of equal values is right."""

    @classmethod
    def around(
        cls,
        exact: torch.Tensor,
        native: torch.Tensor,
        described: dict[str, Any],
        task: Task,
        scaled: bool,
        moved: torch.Tensor | None = None,
    ) -> Expected:
        """Bounds `exact ± tolerance`, held in the output's own width (at least float32).

        The tolerance is `atol + rtol |exact|` and, where `scaled`, less for small outputs: `atol` counts in units of
        the output's root mean square `s` when that is below 1, because 1e-4 is no tolerance for a softmax over ten
        thousand columns. What rounding does to the output is added:

            tolerance = atol min(1, s) + rtol |exact| + ROUNDINGS max(moved, 1.5 median(moved))

        `moved` comes from float64 and is the same on every machine. Where the reference as the task computes it errs by
        more than the tolerance, the interval reaches to its own value. Where it overflows, its own value is right, and
        so is what lies within the tolerance; where the tolerance reaches beyond the dtype, infinity is right.

        Integers and booleans must be equal, except where rounding changes them: there any value is right that lies
        between the smallest and the largest.

        Args:
            exact: the reference's output, in float64 where it is a floating-point one; or `native`, to be held to that.
            native: the reference's output as the task computes it.
            described: description of that output.
            task: names its own tolerances, which are then kept as they are, or none.
            scaled: take the size of the outputs into account.
            moved: how far rounding moves each element; for integers and booleans, whether it does. None: not known.
        """
        default = DEFAULT_TOLERANCE.get(described["dtype"], 0.0)
        atol = default if task.atol is None else task.atol
        rtol = default if task.rtol is None else task.rtol
        form = described["dtype"], described["shape"], described["stride"], described["device"]
        if not exact.is_floating_point():
            low, high = exact, exact
            if moved is not None and bool(moved.any()):
                low, high = torch.where(moved, exact.min(), exact), torch.where(moved, exact.max(), exact)
            return cls(*form, low, high, nan=None, reliable=bool(((native >= low) & (native <= high)).all()))
        width = torch.float64 if described["dtype"] == "torch.float64" else torch.float32
        own = native.to(width)
        centre = torch.where(exact.isnan(), own, exact.to(width))
        error = (native.to(torch.float64) - exact).abs()
        finite = bool(error.isfinite().all())
        if not finite:
            error.masked_fill_(~error.isfinite(), 0.0)
        unit = _root_mean_square(centre) if scaled and task.atol is None and finite and centre.numel() else 1.0
        margin = centre.abs().mul_(rtol).add_(atol * min(1.0, unit))
        if moved is not None and task.atol is None:
            margin += ROUNDINGS * _typical_at_least(moved).to(width)
        low, high = centre - margin, centre + margin
        far = error > margin
        reliable = finite and bool((error <= margin / 2).all())
        if bool(far.any()):
            low = torch.where(far, torch.minimum(low, own - margin), low)
            high = torch.where(far, torch.maximum(high, own + margin), high)
        largest = torch.finfo(native.dtype).max
        low, high = low.masked_fill(low < -largest, -torch.inf), high.masked_fill(high > largest, torch.inf)
        if finite:
            return cls(*form, low, high, None, reliable)
        is_nan = native.isnan() | exact.isnan()
        low, high = torch.where(centre.isinf(), centre, low), torch.where(centre.isinf(), centre, high)
        low = torch.where(own.isinf(), torch.minimum(low, own), low)
        high = torch.where(own.isinf(), torch.maximum(high, own), high)
        return cls(*form, low, high, is_nan, reliable)

    def accepts(self, output: torch.Tensor) -> bool:
        """Whether every element lies within its bounds."""
        wide = output.to(self.low.dtype)
        if self.indexed is not None:
            return self.indexed.accepts(wide)
        if not wide.is_floating_point():
            return bool(((wide >= self.low) & (wide <= self.high)).all())
        values = wide.numpy()  # NumPy's comparisons take a third of the time of PyTorch's
        inside = values >= self.low.numpy()
        inside &= values <= self.high.numpy()
        if self.nan is not None:
            inside |= self.nan.numpy() & np.isnan(values)
        return bool(inside.all())

    def mismatch(self, trial: int, inputs: str, output: torch.Tensor) -> TrialError:
        """How far an output that was not accepted is away."""
        wide = output.to(torch.float64)
        middle = (self.low.double() + self.high.double()) / 2
        inside = (wide >= self.low) & (wide <= self.high)
        if self.nan is not None:
            inside |= self.nan & wide.isnan()
        difference = (wide - middle).abs()
        share = 1.0 - float(inside.double().mean())
        num_bad = int((difference.isfinite() & ~inside).sum())
        non_finite = bool((~wide.isfinite() & ~inside).any())
        max_abs = float(difference[difference.isfinite()].max()) if num_bad else None
        relative = (difference / middle.abs().clamp_min(1e-12))[difference.isfinite() & ~inside]
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


@dataclass(frozen=True)
class Indexed:
    """Indices that a sort gives, and the values that they must find.

    Equal values may come in any order, and each index may be named as often as the reference names it.
    """

    source: torch.Tensor
    """The input that is sorted."""
    dim: int
    indices: torch.Tensor
    """The reference's."""

    @classmethod
    def find(cls, indices: torch.Tensor, inputs: list[torch.Tensor]) -> Indexed | None:
        """Of which input, and along which dimension, these are the indices of sorted values; None: of none."""
        if indices.is_floating_point() or indices.dtype == torch.bool or not indices.numel() or not indices.dim():
            return None
        for source in inputs:
            if source.dim() != indices.dim():
                continue
            for dim in range(source.dim()):
                rest = [size for other, size in enumerate(source.shape) if other != dim]
                if rest != [size for other, size in enumerate(indices.shape) if other != dim]:
                    continue
                if int(indices.min()) < 0 or int(indices.max()) >= source.shape[dim]:
                    continue
                steps = source.gather(dim, indices.long()).double().diff(dim=dim)
                if bool((steps >= 0).all()) or bool((steps <= 0).all()):
                    return cls(source, dim, indices.long())
        return None

    def accepts(self, output: torch.Tensor) -> bool:
        """Whether the output finds the same values, and no element more often than the reference does."""
        found = output.long()
        if not bool(((found >= 0) & (found < self.source.shape[self.dim])).all()):
            return False
        values = self.source.gather(self.dim, found), self.source.gather(self.dim, self.indices)
        return torch.equal(*values) and self._repeats(found) <= self._repeats(self.indices)

    def _repeats(self, indices: torch.Tensor) -> int:
        return int((indices.sort(dim=self.dim).values.diff(dim=self.dim) == 0).sum())


def _typical_at_least(moved: torch.Tensor) -> torch.Tensor:
    """Distances, of which one sample may be small by luck, with one and a half times their median as the least."""
    moved = moved.nan_to_num(0.0, 0.0, 0.0)
    present = moved[moved > 0]
    return moved.clamp_min(1.5 * float(present.median())) if present.numel() else moved


def _root_mean_square(values: torch.Tensor) -> float:
    return float(torch.linalg.vector_norm(values, dtype=torch.float64)) / math.sqrt(values.numel())


def form_error(trial: int, inputs: str, index: int, expected: Expected, described: Any) -> TrialError | None:
    """What is wrong with an output's description, before its memory is read. The description is hostile data."""
    if not isinstance(described, dict):
        return TrialError(trial=trial, kind="type", inputs=inputs, message="the output is not described")
    shape, stride, dtype = described.get("shape"), described.get("stride"), described.get("dtype")

    def error(kind: Any, found: object, wanted: object) -> TrialError:
        message = f"output {index}: {kind} is {found!s:.200}, expected {wanted}"
        return TrialError(trial=trial, kind=kind, inputs=inputs, message=message)

    if described.get("type") not in ("Tensor", "Parameter"):
        return error("type", described.get("type"), "a plain torch.Tensor")
    if described.get("device") != expected.device:
        return error("device", described.get("device"), expected.device)
    if dtype != expected.dtype:
        return error("dtype", dtype, expected.dtype)
    if shape != expected.shape:
        return error("shape", shape, expected.shape)
    if not isinstance(stride, list) or len(stride) != len(expected.shape):
        return error("layout", described.get("layout"), "strided")
    if stride != expected.stride and not _is_dense(expected.shape, stride):
        return error("layout", f"stride {stride}", "a dense tensor")
    if not isinstance(described.get("pointer"), int) or described["pointer"] < 0:
        return error("layout", described.get("pointer"), "an address")
    return None


def _is_dense(shape: list[int], stride: list[Any]) -> bool:
    """Whether the elements fill their span exactly, in whatever order of dimensions."""
    if not all(isinstance(step, int) and step >= 0 for step in stride):
        return False
    step = 1
    for length, found in sorted(zip(shape, stride, strict=True), key=lambda pair: (pair[1], pair[0])):
        if length != 1 and found != step:
            return False
        step *= max(length, 1)
    return True
