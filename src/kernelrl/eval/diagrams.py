"""Plots of single pages: the reliability diagram of a surrogate, and figures by checkpoint (see `plots.py`)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib import rc_context
from matplotlib.figure import Figure
from matplotlib.ticker import PercentFormatter

from kernelrl.eval.calibration import Bin
from kernelrl.eval.plots import INK, MUTED, SERIES, STYLE, WIDTH, make_panels, to_svg
from kernelrl.eval.table import is_rate

MAX_TICKS = 8
"""Of an axis of checkpoints that are named."""
SMALLEST, LARGEST = 12, 260
"""Area of a dot of a reliability diagram (in square points)."""


def calibration(targets: Mapping[str, Sequence[Bin]]) -> str:
    """Reliability diagrams: the observed share against the predicted probability, a panel per target.

    A dot's area grows with the number of predictions in its bin.
    """
    with rc_context(STYLE | {"axes.grid.axis": "both"}):
        figure = Figure(figsize=(WIDTH, 4.0), layout="constrained")
        for axes, color, (name, bins) in zip(
            make_panels(figure, len(targets)), SERIES[1:], targets.items(), strict=False
        ):
            axes.plot([0, 1], [0, 1], color=MUTED, linewidth=0.9, linestyle=(0, (3, 3)))
            most = max(each.count for each in bins)
            x, y = [each.predicted for each in bins], [each.observed for each in bins]
            axes.plot(x, y, color=color, linewidth=1.2, alpha=0.6)
            areas = [SMALLEST + (LARGEST - SMALLEST) * each.count / most for each in bins]
            axes.scatter(x, y, s=areas, color=color, alpha=0.75, linewidths=0)
            for each in bins:
                axes.annotate(
                    f"{each.count}", (each.predicted, each.observed), xytext=(7, -11), textcoords="offset points",
                    color=MUTED, fontsize=7,
                )  # fmt: skip
            axes.set_title(name)
            axes.set_xlim(-0.05, 1.08)
            axes.set_ylim(-0.08, 1.05)
            axes.set_xlabel("predicted probability")
            for axis in (axes.xaxis, axes.yaxis):
                axis.set_major_formatter(PercentFormatter(1.0, decimals=0))
            axes.set_ylabel("observed share")
        return to_svg(figure, "Reliability of the predicted probabilities")


Estimates = Sequence[tuple[int, Mapping[str, float | None]]]
"""(step, estimate) points."""


Panel = tuple[str, str, Mapping[str, Estimates], str | None]
"""Figure, title, the checkpoints of each stage, and the best one, STAGE-STEP; None: not known."""


def by_step(panels: Sequence[Panel]) -> str:
    """Figures of checkpoints with their intervals, in the order of training; the best one is circled.

    The checkpoints are evenly apart, whatever the steps between them: the stages' steps differ in kind.
    """
    with rc_context(STYLE):
        figure = Figure(figsize=(WIDTH, 3.2), layout="constrained")
        for axes, (name, title, stages, best) in zip(make_panels(figure, len(panels)), panels, strict=False):
            ticks: list[str] = []
            for color, (stage, estimates) in zip(SERIES[1:], stages.items(), strict=False):
                places = range(len(ticks), len(ticks) + len(estimates))
                ticks += [f"{step}" for step, _ in estimates]
                known = [
                    (place, step, it)
                    for place, (step, it) in zip(places, estimates, strict=True)
                    if it["value"] is not None
                ]
                if not known:
                    continue
                x = [place for place, _, _ in known]
                values, lows, highs = (np.array([it[key] for _, _, it in known], dtype=float) for key in _KEYS)
                axes.errorbar(
                    x, values, yerr=[np.maximum(values - lows, 0), np.maximum(highs - values, 0)],
                    color=color, marker="o", markersize=5, capsize=3, elinewidth=1, label=stage,
                )  # fmt: skip
                at = [index for index, (_, step, _) in enumerate(known) if f"{stage}-{step}" == best]
                axes.plot([x[index] for index in at], values[at], "o", ms=11, markerfacecolor="none", color=INK)
            axes.set_title(title)
            axes.set_xlabel("step of its stage")
            shown = range(0, len(ticks), len(ticks) // MAX_TICKS + 1)
            axes.set_xticks(shown, [ticks[index] for index in shown])
            if is_rate(name):
                axes.yaxis.set_major_formatter(PercentFormatter(1.0, decimals=0))
            if len(stages) > 1 and axes.get_legend_handles_labels()[0]:
                axes.legend(frameon=False, labelcolor=MUTED, fontsize=8, loc="lower right")
        return to_svg(figure, "Figures by checkpoint")


_KEYS = ("value", "low", "high")
