"""The plots of the report: inline SVG whose colours are CSS variables, so that they follow the page's theme.

Every function takes plain numbers and returns `<svg>…</svg>`; text stays text.
"""

from __future__ import annotations

import io
import re
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.colors import to_hex, to_rgba
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullFormatter, PercentFormatter

from kernelrl.eval.table import is_speedup

INK, MUTED, GRID = "#010101", "#020202", "#030303"
SERIES = [f"#0405{index:02x}" for index in range(6)]
"""Stand-ins that `to_svg` replaces by the page's variables `--ink`, `--muted`, `--grid`, `--s0` … `--s5`."""
VARIABLES = {INK: "ink", MUTED: "muted", GRID: "grid"} | {color: f"s{index}" for index, color in enumerate(SERIES)}
LIGHT = {
    "ink": "#1b2130", "muted": "#667085", "grid": "#d5d9e0",
    "s0": "#8a94a6", "s1": "#2f6fde", "s2": "#d9480f", "s3": "#0a8f6c", "s4": "#8b3fd1", "s5": "#b8860b",
}  # fmt: skip
"""What the variables are on a page with a light theme, and in files."""
MAX_POINTS = 400
"""Of a policy, in a plot of samples: a page with more is slow."""
TITLE_WIDTH = 38
"""Characters of a title's line: more would run into the neighbour's."""
WIDTH = 12.6
"""Of every figure (in inches), so that all are scaled alike on the page."""
STYLE: Any = {
    "svg.fonttype": "none",
    "text.parse_math": False,
    "font.family": "sans-serif",
    "font.size": 9,
    "text.color": INK,
    "axes.edgecolor": GRID,
    "axes.labelcolor": MUTED,
    "axes.titlecolor": INK,
    "axes.titlesize": 10,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.spines.left": False,
    "axes.grid": True,
    "axes.grid.axis": "y",
    "axes.axisbelow": True,
    "grid.color": GRID,
    "grid.linewidth": 0.6,
    "xtick.color": GRID,
    "ytick.color": GRID,
    "xtick.labelcolor": MUTED,
    "ytick.labelcolor": MUTED,
    "ytick.major.size": 0,
    "lines.linewidth": 1.8,
    "lines.solid_capstyle": "round",
}

_folder: ContextVar[Path | None] = ContextVar("_folder", default=None)


@contextmanager
def saving(folder: Path) -> Iterator[None]:
    """Write every plot that is made meanwhile into a folder too, as SVG and PDF in the colours of the light theme."""
    folder.mkdir(parents=True, exist_ok=True)
    token = _folder.set(folder)
    try:
        yield
    finally:
        _folder.reset(token)


Curves = Mapping[str, Sequence[tuple[float, float]]]
"""Name -> (step, value) points."""


def curves(panels: Sequence[tuple[str, Curves, bool]], description: str, xlabel: str = "step") -> str:
    """Learning curves side by side; each line is labelled at its end.

    Args:
        panels: (title, curves, whether the values are rates between 0 and 1).
        xlabel: what the steps are.
    """
    with rc_context(STYLE):
        figure = Figure(figsize=(WIDTH, 2.6), layout="constrained")
        columns = make_panels(figure, len(panels))
        for axes, (title, lines, is_rate) in zip(columns, panels, strict=False):
            ends = []
            for color, (name, points) in zip(_repeat(SERIES, len(lines) + 1)[1:], lines.items(), strict=True):
                steps, values = np.array(points, dtype=np.float64).T
                smooth = _smooth(values)
                if len(values) > 20:
                    axes.plot(steps, values, color=color, linewidth=0.8, alpha=0.3)
                axes.plot(steps, smooth, color=color)
                ends.append((name, steps[-1], smooth[-1], color))
            _finish_curves(axes, title, is_rate)
            axes.set_xlabel(xlabel)
            _label_ends(axes, ends if len(ends) > 1 else [])
        return to_svg(figure, description)


Bands = Mapping[str, Sequence[tuple[float, float, float, float]]]
"""Name -> (step, mean, smallest, largest) points."""


def bands(panels: Sequence[tuple[str, Bands, bool]], description: str, unit: str = "step") -> str:
    """Learning curves of several runs each: the mean, in a band from the smallest to the largest.

    Args:
        panels: (title, bands, whether the values are rates between 0 and 1).
        unit: of the horizontal axis.
    """
    with rc_context(STYLE):
        figure = Figure(figsize=(WIDTH, 2.8), layout="constrained")
        columns = make_panels(figure, len(panels))
        for axes, (title, lines, is_rate) in zip(columns, panels, strict=False):
            ends = []
            for color, (name, points) in zip(_repeat(SERIES, len(lines) + 1)[1:], lines.items(), strict=True):
                steps, means, lows, highs = np.array(points, dtype=np.float64).T
                axes.fill_between(steps, _smooth(lows), _smooth(highs), color=color, alpha=0.15, linewidth=0)
                axes.plot(steps, _smooth(means), color=color)
                ends.append((name, steps[-1], _smooth(means)[-1], color))
            _finish_curves(axes, title, is_rate, unit)
            _label_ends(axes, ends)
        return to_svg(figure, description)


def forest(variants: Mapping[str, Mapping[str, Mapping[str, float | None]]], figures: Sequence[tuple[str, str]]) -> str:
    """Estimates with their intervals, a panel per figure and a row per variant.

    Args:
        variants: name -> figure -> estimate (`value`, `low`, `high`).
        figures: (name, title).
    """
    with rc_context(STYLE | {"axes.grid.axis": "x"}):
        figure = Figure(figsize=(WIDTH, 0.34 * len(variants) + 0.8), layout="constrained")
        panels = make_panels(figure, len(figures), sharey=True)
        for axes, (name, title) in zip(panels, figures, strict=False):
            axes.set_title(title)
            axes.set_yticks(range(len(variants)), list(variants))
            axes.set_ylim(len(variants) - 0.5, -0.5)
            for row, (color, estimates) in enumerate(
                zip(_repeat(SERIES, len(variants)), variants.values(), strict=True)
            ):
                value, low, high = (estimates[name][key] for key in ("value", "low", "high"))
                if value is None:
                    continue
                if low is not None and high is not None:
                    axes.plot([low, high], [row, row], color=color, linewidth=2)
                axes.plot(value, row, "o", color=color, markersize=6)
            axes.xaxis.set_major_locator(MaxNLocator(4))
            if not is_speedup(name):
                axes.xaxis.set_major_formatter(PercentFormatter(1.0, decimals=0))
                axes.set_xlim(max(axes.get_xlim()[0], -0.02), min(axes.get_xlim()[1], 1.02))
        return to_svg(figure, "Figures of the variants with their intervals")


def funnel(policies: Mapping[str, Mapping[str, Mapping[str, float | None]]], stages: Sequence[str]) -> str:
    """Share of samples that reach each stage, a panel per policy.

    Args:
        policies: name -> stage -> estimate (`value`, `low`, `high`).
    """
    with rc_context(STYLE | {"axes.grid": False, "axes.spines.bottom": False}):
        figure = Figure(figsize=(WIDTH, 0.36 * len(stages) + 0.5), layout="constrained")
        panels = make_panels(figure, len(policies), sharey=True)
        for axes, color, (name, figures) in zip(panels, _repeat(SERIES, len(policies)), policies.items(), strict=False):
            axes.set_title(name)
            axes.set_xlim(0, 1.3)
            axes.set_xticks([])
            axes.set_ylim(len(stages) - 0.4, -0.6)
            axes.set_yticks(range(len(stages)), stages)
            axes.barh(range(len(stages)), np.ones(len(stages)), height=0.72, color=GRID, alpha=0.35)
            for row, stage in enumerate(stages):
                value, low, high = (figures[stage][key] for key in ("value", "low", "high"))
                if value is None:
                    continue
                axes.barh(row, value, height=0.72, color=color)
                if low is not None and high is not None:
                    axes.plot([low, high], [row, row], color=INK, linewidth=1.0, alpha=0.6)
                axes.text(1.04, row, f"{value:.1%}", va="center", color=INK)
        return to_svg(figure, "Share of samples that reach each stage, by policy")


def speedups(policies: Mapping[str, tuple[Sequence[float], int]]) -> str:
    """How fast: the share of all samples that are correct and faster than p, and every correct sample's speedup.

    Args:
        policies: name -> (median speedups of the correct samples, number of all samples).
    """
    measured = [speedup for values, _ in policies.values() for speedup in values if speedup > 0]
    low, high = min([0.5, *measured]) / 1.15, max([2.0, *measured]) * 1.15
    rng = np.random.default_rng(0)
    with rc_context(STYLE):
        figure = Figure(figsize=(WIDTH, 3.0), layout="constrained")
        share, strip = figure.subplots(1, 2)
        ends = []
        for row, (color, (name, (values, num_samples))) in enumerate(
            zip(_repeat(SERIES, len(policies)), policies.items(), strict=True)
        ):
            ordered = np.sort(np.asarray(values, dtype=np.float64))
            thresholds = np.concatenate([[low], ordered, [high]])
            faster = (len(ordered) - np.searchsorted(ordered, thresholds, side="right")) / max(num_samples, 1)
            share.step(thresholds, faster, where="post", color=color)
            ends.append((name, thresholds[0], faster[0], color))
            drawn = ordered[:: len(ordered) // MAX_POINTS + 1]
            strip.scatter(
                drawn, row + rng.uniform(-0.25, 0.25, size=len(drawn)), s=14, color=color, alpha=0.5, linewidths=0
            )
            if len(ordered):
                mean = float(np.exp(np.log(ordered).mean()))
                strip.plot([mean, mean], [row - 0.3, row + 0.3], color=INK, linewidth=2)
                strip.annotate(
                    f"{mean:.2f}×",
                    (mean, row - 0.32),
                    textcoords="offset points",
                    xytext=(0, 1),
                    ha="center",
                    va="bottom",
                )
        share.set_title("Share of all samples correct and more than p times as fast")
        share.yaxis.set_major_formatter(PercentFormatter(1.0, decimals=0))
        share.set_ylim(0, 1.18 * max(end[2] for end in ends) + 0.01)
        _label_starts(share, ends)
        strip.set_title("Speedup of the correct samples (bar: geometric mean)")
        strip.set_yticks(range(len(policies)), list(policies))
        strip.set_ylim(len(policies) - 0.4, -0.75)
        strip.grid(visible=False, axis="y")
        for axes, label in ((share, "p"), (strip, "reference time / kernel time")):
            axes.set_xscale("log", base=2)
            axes.set_xlim(low, high)
            axes.xaxis.set_major_locator(LogLocator(base=2))
            axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}×"))
            axes.xaxis.set_minor_formatter(NullFormatter())
            axes.set_xlabel(label)
            axes.axvline(1, color=MUTED, linewidth=0.9, linestyle=(0, (3, 3)))
        return to_svg(figure, "Speedups by policy")


def limits(policies: Mapping[str, Sequence[tuple[float, float]]]) -> str:
    """Speedup against the share of the machine's limit, a point for each correct sample.

    Args:
        policies: name -> (share of the limit, speedup). Of more than `MAX_POINTS` an even selection is drawn.
    """
    with rc_context(STYLE | {"axes.grid.axis": "both"}):
        figure = Figure(figsize=(WIDTH, 3.2), layout="constrained")
        panels = make_panels(figure, len(policies), sharey=True)
        every = [point for points in policies.values() for point in points]
        for axes, color, (name, points) in zip(panels, _repeat(SERIES, len(policies)), policies.items(), strict=False):
            drawn = points[:: len(points) // MAX_POINTS + 1]
            shares, speedups = np.array(drawn, dtype=np.float64).reshape(-1, 2).T
            axes.scatter(shares, speedups, s=12, color=color, alpha=0.5, linewidths=0)
            axes.set_title(name)
            axes.set_xscale("log")
            axes.set_yscale("log", base=2)
            axes.set_xlim(min(it[0] for it in every) / 1.3, max(1.2, max(it[0] for it in every) * 1.3))
            axes.set_ylim(min(it[1] for it in every) / 1.3, max(it[1] for it in every) * 1.3)
            axes.xaxis.set_major_locator(LogLocator(numticks=5))
            axes.xaxis.set_minor_formatter(NullFormatter())
            axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{100 * value:g} %"))
            axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}×"))
            axes.yaxis.set_minor_formatter(NullFormatter())
            axes.axhline(1, color=MUTED, linewidth=0.9, linestyle=(0, (3, 3)))
            axes.axvline(1, color=MUTED, linewidth=0.9, linestyle=(0, (3, 3)))
            axes.set_xlabel("share of the limit")
        panels[0].set_ylabel("speedup")
        return to_svg(figure, "Speedup against the limit")


def lengths(policies: Mapping[str, Sequence[tuple[float, float]]]) -> str:
    """Share of correct samples by the length of their reasoning, a line per policy.

    Args:
        policies: name -> (mean length in words, share of correct samples) of groups of samples; empty: not drawn.
    """
    with rc_context(STYLE):
        figure = Figure(figsize=(WIDTH, 2.6), layout="constrained")
        (axes,) = make_panels(figure, 1)
        ends = []
        for color, (name, points) in zip(_repeat(SERIES, len(policies)), policies.items(), strict=True):
            if points:
                words, correct = np.array(points, dtype=np.float64).T
                axes.plot(words, correct, color=color, marker="o", markersize=3.5)
                ends.append((name, words[-1], correct[-1], color))
        _finish_curves(axes, "Correct by length of the reasoning", True)
        axes.set_xlabel("words of reasoning")
        _label_ends(axes, ends)
        return to_svg(figure, "Correctness by length of the reasoning")


def make_panels(figure: Figure, num: int, sharey: bool = False) -> Sequence[Axes]:
    """So many plots side by side, each a third of the width at most."""
    columns: Sequence[Axes] = figure.subplots(1, max(3, num), sharey=sharey)
    for empty in columns[num:]:
        empty.set_visible(False)
    return columns[:num]


def _finish_curves(axes: Axes, title: str, is_rate: bool, unit: str = "step") -> None:
    axes.set_title(textwrap.fill(title, TITLE_WIDTH))
    axes.xaxis.set_major_locator(MaxNLocator(5, integer=True))
    axes.set_xlabel(unit)
    if is_rate:
        axes.set_ylim(-0.03, 1.05)
        axes.yaxis.set_major_formatter(PercentFormatter(1.0, decimals=0))


def _smooth(values: Any) -> Any:
    """Centred moving average over a tenth of the points; the values themselves where there are few."""
    width = max(1, len(values) // 10) | 1
    padded = np.pad(values, width // 2, mode="edge")
    return np.convolve(padded, np.ones(width) / width, mode="valid")


def _label_ends(axes: Axes, ends: Sequence[tuple[str, float, float, str]]) -> None:
    """Write the names behind the ends of the lines, pushed apart where they would overlap."""
    behind = axes.get_yaxis_transform()
    for (name, _, _, color), height in zip(ends, _spread([end[2] for end in ends], axes), strict=True):
        axes.text(1.015, height, name, transform=behind, color=color, va="center")


def _label_starts(axes: Axes, starts: Sequence[tuple[str, float, float, str]]) -> None:
    """Write the names on the beginnings of the lines, pushed apart where they would overlap."""
    for (name, x, _, color), height in zip(starts, _spread([start[2] for start in starts], axes), strict=True):
        axes.annotate(name, (x, height), xytext=(4, 3), textcoords="offset points", color=color, va="bottom")


def _spread(heights: Sequence[float], axes: Axes) -> list[float]:
    """The heights, moved as little as keeps them a line of text apart and below the top, in the same order."""
    bottom, top = axes.get_ylim()
    gap = 0.085 * (top - bottom)
    order = np.argsort(heights, kind="stable")
    placed = list(heights)
    for lower, upper in zip(order, order[1:], strict=False):
        placed[upper] = max(placed[upper], placed[lower] + gap)
    if len(order):
        placed[order[-1]] = min(placed[order[-1]], top)
    for upper, lower in zip(order[::-1], order[-2::-1], strict=False):
        placed[lower] = min(placed[lower], placed[upper] - gap)
    return placed


def _repeat(colors: Sequence[str], num: int) -> list[str]:
    return [colors[index % len(colors)] for index in range(num)]


def to_svg(figure: Figure, description: str) -> str:
    """A figure as inline SVG; written to the folder of `saving` too.

    Args:
        description: unique on the page.
    """
    buffer = io.StringIO()
    with rc_context({"svg.hashsalt": description}):  # ids must differ between the plots of one page
        figure.savefig(buffer, format="svg", transparent=True, metadata={"Date": None, "Creator": None})
    svg = buffer.getvalue()
    svg = re.sub(r"<metadata>.*?</metadata>", "", svg[svg.index("<svg") :], flags=re.DOTALL)
    svg = re.sub(
        r'<svg [^>]*?(viewBox="[^"]*")[^>]*>', rf'<svg \1 role="img" aria-label="{description}">', svg, count=1
    )
    svg = re.sub(r'<g id="[^"]*"', "<g", svg)  # the same in every plot, and nothing refers to them
    if (folder := _folder.get()) is not None:
        _save(figure, folder / re.sub(r"\W+", "_", description).strip("_").lower()[:60])
    return re.sub("|".join(VARIABLES), lambda match: f"var(--{VARIABLES[match[0]]})", svg.replace("xlink:href", "href"))


def _save(figure: Figure, path: Path) -> None:
    """Write a plot to files, its stand-ins replaced by colours."""
    for artist in figure.findobj():
        for name in ("color", "facecolor", "edgecolor", "markerfacecolor", "markeredgecolor"):
            get, put = getattr(artist, f"get_{name}", None), getattr(artist, f"set_{name}", None)
            if get is None or put is None:
                continue
            try:
                shown = np.atleast_2d(to_rgba(get()) if isinstance(get(), str) else get())
            except (TypeError, ValueError):  # "none" and "auto"
                continue
            if shown.size and (variable := VARIABLES.get(to_hex(shown[0]))):
                put(to_rgba(LIGHT[variable], float(shown[0][-1]) if shown.shape[1] == 4 else 1.0))
    for suffix in ("svg", "pdf"):
        figure.savefig(path.with_suffix(f".{suffix}"), transparent=True, metadata={"Creator": None})
