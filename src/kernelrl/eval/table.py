"""Figures as a person reads them, and the table of results in the terminal."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rich.table import Table
from rich.text import Text

Estimate = Mapping[str, float | None]
SPEEDUPS = {
    "speedup": "speedup, ×",
    "speedup_all": "speedup, failures as 1, ×",
    "speedup_compiled": "speedup over torch.compile, ×",
}
"""Labels of figures whose changes are quotients."""
NUMBERS = {
    "reward": "reward",
    "proficiency": "proficiency, 0 to 1",
    "mean_speedup": "speedup, arithmetic mean, ×",
    "tokens": "tokens of a completion",
    "tokens_per_solved": "tokens per solved task",
    "brier": "Brier score",
    "ece": "expected calibration error",
}
"""Labels of figures that are neither rates nor such factors."""
LABELS = SPEEDUPS | NUMBERS | {"of_limit": "speed, % of the machine's limit"}
"""Labels of figures whose name is not enough."""
LOWER_IS_BETTER = frozenset({"truncated", "tokens", "tokens_per_solved", "brier", "ece"})
STYLES = {1: "green", 0: "", -1: "red"}


def make_table(results: Mapping[str, Any]) -> Table:
    """The content of `results.json`: a row per figure, a column per policy and per change between two.

    A change whose interval excludes "no change" is green or red.
    """
    policies, comparisons = results["policies"], results["comparisons"]
    table = Table(title=f"{results['name']}: held-out tasks", caption=caption(results), title_justify="left")
    table.add_column("")
    for name in policies:
        table.add_column(name, justify="right")
    for comparison in comparisons:
        table.add_column(f"{comparison['before']} → {comparison['after']}", justify="right")
    for figure in next(iter(policies.values()))["figures"]:
        changes = [comparison["figures"][figure] for comparison in comparisons]
        table.add_row(
            label(figure),
            *(format_estimate(figure, policy["figures"][figure]) for policy in policies.values()),
            *(Text(format_change(figure, change), STYLES[direction(figure, change)]) for change in changes),
        )
    return table


def make_turn_table(results: Mapping[str, Any]) -> Table:
    """A row per policy and turn: the best attempt of each trajectory up to there."""
    table = Table(title=f"{results['name']}: by turn, best so far", title_justify="left")
    rows = [(name, turn) for name, policy in results["policies"].items() for turn in policy.get("turns", ())]
    figures = list(rows[0][1]["figures"])
    for column in ("policy", "turn", "attempts", *map(label, figures)):
        table.add_column(column, justify="left" if column == "policy" else "right")
    for name, turn in rows:
        estimates = (format_estimate(figure, turn["figures"][figure]) for figure in figures)
        table.add_row(name, str(turn["turn"]), str(turn["attempts"]), *estimates)
    return table


def caption(results: Mapping[str, Any]) -> str:
    """What the intervals are, over how much, and what was left out."""
    policies = results["policies"].values()
    first = next(iter(policies))
    over = f"{first['num_tasks']} tasks"
    if (num_programs := first.get("num_programs", first["num_tasks"])) < first["num_tasks"]:
        over = f"{num_programs} programs with {over}"
    text = f"95 % intervals over {over}; {first['num_samples']} samples per policy; seed {results['seed']}"
    if partial := results.get("partial"):
        text = f"PARTIAL: the first {partial['num']} of {partial['of']} tasks (eval.limit). {text}"
    if unknown := sum(policy["num_infrastructure"] for policy in policies):
        text = f"{text}; {unknown} samples without a verdict left out"
    few = [
        f"{number} of {name}'s {figure}"
        for name, policy in results["policies"].items()
        for figure, number in policy.get("num_left_out", {}).items()
        if number
    ]
    if skipped := sum(results.get("source_skipped", {}).values()):
        text = f"{text}; {skipped} items that the source could not make a task of"
    return f"{text}; left out for too few verdicts: {', '.join(few)}" if few else text


def is_speedup(figure: str) -> bool:
    """Whether a figure is a factor, whose changes are quotients."""
    return figure in SPEEDUPS or figure.startswith("best@")


def is_rate(figure: str) -> bool:
    """Whether a figure is a share, shown in percent."""
    return figure not in NUMBERS and not is_speedup(figure)


def label(figure: str) -> str:
    """The figure with its unit."""
    if figure.startswith("best@"):
        return f"speedup, best of {figure.removeprefix('best@')}, ×"
    return LABELS.get(figure, f"{figure}, %")


def format_estimate(figure: str, estimate: Estimate) -> str:
    """A value and its interval, e.g. `41.2 [35.0, 47.1]`; a dash for what is not known, e.g. `41.2 [–]`."""
    return _format(figure, estimate, sign="")


def format_value(figure: str, estimate: Estimate) -> str:
    """A value alone with its unit, e.g. `41.2 %`, `1.31×`; a dash where it is not known."""
    value = estimate["value"]
    if value is None:
        return "–"
    return f"{value:.2f}" if figure in NUMBERS else f"{value:.2f}×" if is_speedup(figure) else f"{value:.1%}"


def format_change(figure: str, change: Estimate) -> str:
    """A change and its interval, e.g. `+12.5 [+6.1, +18.8]` points, or `×1.31 [1.20, 1.42]` for speedups."""
    if is_speedup(figure):
        return _format(figure, change, sign="") if change["value"] is None else f"×{_format(figure, change, sign='')}"
    return _format(figure, change, sign="+")


def direction(figure: str, change: Estimate) -> int:
    """1 or -1 where the whole interval of a change lies on the better or the worse side of "no change", else 0.

    An interval without width says nothing: the tasks are too few or too equal to tell how sure the change is.
    """
    nothing = 1.0 if is_speedup(figure) else 0.0
    low, high = change["low"], change["high"]
    if low is None or high is None or low == high:
        return 0
    sign = -1 if figure in LOWER_IS_BETTER else 1
    return sign if low > nothing else -sign if high < nothing else 0


def _format(figure: str, estimate: Estimate, sign: str) -> str:
    value, low, high = (estimate[name] for name in ("value", "low", "high"))
    scale, digits = (1, 2) if figure in NUMBERS or is_speedup(figure) else (100, 1)
    shown = ["–" if number is None else f"{scale * number:{sign}.{digits}f}" for number in (value, low, high)]
    if value is None:
        return "–"
    return f"{shown[0]} [–]" if low is None or high is None else f"{shown[0]} [{shown[1]}, {shown[2]}]"
