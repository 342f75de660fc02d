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


OWN_ERRORS = 10.0
"""A candidate may err this many times as much as the reference does in its own precision, within the tolerance."""


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

    @classmethod
    def around(
        cls,
        exact: torch.Tensor,
        native: torch.Tensor,
        described: dict[str, Any],
        task: Task,
        scaled: bool,
        slack: float = 0.0,
    ) -> Expected:
        """Bounds `exact ± tolerance`, held in the output's own width (at least float32).

        The tolerance is `atol + rtol |exact|` and, where `scaled`, less for small outputs: `atol` counts in units of
        the output's root mean square `s` when that is below 1, because 1e-4 is no tolerance for a softmax over ten
        thousand columns. It never falls below `OWN_ERRORS` times the largest error that the reference itself makes,
        and never exceeds `atol + rtol |exact|`:

            tolerance = min(atol + rtol |exact|, max(atol min(1, s) + rtol |exact|, OWN_ERRORS max |native - exact|))

        Where the reference itself errs by more than that, the interval reaches to the reference's own value.

        Args:
            exact: the reference's output, in float64 where it is a floating-point one; or `native`, to be held to that.
            native: the reference's output as the task computes it.
            described: description of that output.
            task: names its own tolerances, which are then kept as they are, or none.
            scaled: take the size of the outputs into account.
            slack: added to the tolerance.
        """
        default = DEFAULT_TOLERANCE.get(described["dtype"], 0.0)
        atol = default if task.atol is None else task.atol
        rtol = default if task.rtol is None else task.rtol
        form = described["dtype"], described["shape"], described["stride"], described["device"]
        if not exact.is_floating_point():
            return cls(*form, low=exact, high=exact, nan=None, reliable=torch.equal(exact, native))
        error = (native.to(torch.float64) - exact).abs()
        width = torch.float64 if described["dtype"] == "torch.float64" else torch.float32
        centre, own = exact.to(width), native.to(width)
        finite = bool(error.isfinite().all())
        if not finite:  # where one of them is not, nothing but the reference's own value will do
            error.masked_fill_(~error.isfinite(), 0.0)
        worst = float(error.max()) if error.numel() else 0.0
        relative = centre.abs().mul_(rtol)
        unit = _root_mean_square(centre) if finite and centre.numel() else 1.0
        if scaled and task.atol is None and unit < 1.0:
            margin = torch.minimum(relative + atol, (relative + atol * unit).clamp_min_(OWN_ERRORS * worst))
        else:
            margin = relative.add_(atol)
        low, high = centre - margin, centre + margin
        least = float(margin.min()) if margin.numel() else 0.0
        if worst > least:
            far = error > margin
            low = torch.where(far, torch.minimum(low, own - margin), low)
            high = torch.where(far, torch.maximum(high, own + margin), high)
        if not finite:
            exactly = ~centre.isfinite()
            low, high = torch.where(exactly, centre, low), torch.where(exactly, centre, high)
        reliable = finite and (worst <= least / 4 or bool((error <= margin / 4).all()))
        if slack:
            low, high = low - slack, high + slack
        is_nan = None if finite else centre.isnan()
        return cls(*form, low, high, is_nan, reliable)

    def accepts(self, output: torch.Tensor) -> bool:
        """Whether every element lies within its bounds."""
        wide = output.to(self.low.dtype)
        if not wide.is_floating_point():
            return torch.equal(wide, self.low)
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
