"""The report stage: one HTML file that needs no network, made from what the other stages left behind.

Completions are hostile text: the template escapes everything, code goes through pygments (which escapes), the page's
own script writes it as text, and the content security policy allows that script alone, by its hash, and no loading.
"""

from __future__ import annotations

import io
import json
import re
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup
from omegaconf import DictConfig
from pygments.formatters import HtmlFormatter
from pygments.lexers import CppLexer, PythonLexer
from pygments.token import String

from kernelrl import __version__
from kernelrl.candidate import Completion
from kernelrl.data.tables import CONTAMINATION
from kernelrl.errors import UserError
from kernelrl.eval import export, plots, table
from kernelrl.eval.explorer import make_explorer
from kernelrl.eval.metrics import RATES
from kernelrl.eval.results import read_results
from kernelrl.eval.stage import RECORDS, RESULTS, STORY
from kernelrl.eval.story import choose_story
from kernelrl.records import Ledger, Record, write_atomically
from kernelrl.stage_folder import LOG, read_log
from kernelrl.training.hacking import alarms

NUM_BEST = 3
NUM_ILLEGAL = 2
MAX_CHARS = 20_000
"""Length at which a shown text is cut off."""
PYTHON, CPP = (lexer(ensurenl=False, stripnl=False) for lexer in (PythonLexer, CppLexer))
TRIPLE_QUOTED = re.compile(r'(r?"""|r?\'\'\')(.*?)("""|\'\'\')', re.DOTALL)


def run(cfg: DictConfig) -> Path:
    """Write the report of a run. Sections whose stage has not run are left out.

    Returns:
        The HTML file, `cfg.report.file`. With `cfg.report.files` a folder beside it, named after it, holds its figures
        as SVG and PDF and its tables as CSV, Markdown and LaTeX.

    Raises:
        UserError: there are no results yet, or they are of another version.
    """
    path = Path(cfg.output_dir) / RESULTS
    if not path.exists():
        raise UserError(f"report: {path} is not there; run kernelrl eval first")
    read_results(path)
    results = json.loads(path.read_text())
    contamination = Path(cfg.curate.folder) / CONTAMINATION
    records = {name: list(Ledger(Path(cfg.eval.folder) / name / RECORDS)) for name in results["policies"]}
    file = Path(cfg.report.file)
    files = file.with_name(f"{file.stem}_files")
    with plots.saving(files) if cfg.report.files else nullcontext():
        page = render(
            results,
            records,
            sft_log=read_log(Path(cfg.sft.folder) / LOG),
            grpo_log=read_log(Path(cfg.grpo.folder) / LOG),
            contamination=json.loads(contamination.read_text()) if contamination.exists() else None,
            story=list(Ledger(Path(cfg.eval.folder) / list(records)[-1] / STORY / RECORDS)),
        )
    if cfg.report.files:
        export.write_tables(results, files)
    write_atomically(file, page)
    return file


def render(
    results: Mapping[str, Any],
    records: Mapping[str, Sequence[Record]],
    sft_log: Sequence[Mapping[str, float]] = (),
    grpo_log: Sequence[Mapping[str, float]] = (),
    contamination: Mapping[str, Any] | None = None,
    story: Sequence[Record] = (),
) -> str:
    """The page.

    Args:
        results: content of `results.json`.
        records: of every policy, by name.
        sft_log, grpo_log: entries of the stages' `log.jsonl`.
        contamination: content of the data set's `contamination.json`.
        story: what the last policy wrote over turns beside its samples (`eval.story`).
    """
    environment = Environment(
        loader=PackageLoader("kernelrl.eval", "."), autoescape=True, undefined=StrictUndefined, trim_blocks=True
    )
    environment.globals.update(table=table, highlight=highlight, shorten=_shorten, cell=_cell)
    figures = {name: policy["figures"] for name, policy in results["policies"].items()}
    return environment.get_template("report.html.jinja").render(
        results=results,
        version=__version__,
        last=next(reversed(results["policies"])),
        categories=sorted({category for policy in results["policies"].values() for category in policy["categories"]}),
        sft_plot=_plot_sft(sft_log),
        grpo_plots=_plot_grpo(grpo_log),
        alarms=[str(alarm) for alarm in alarms(grpo_log)],
        funnel_plot=Markup(plots.funnel(figures, list(RATES))),
        speedup_plot=_plot_speedups(records),
        limit_plot=_plot_limits(records),
        reasoning_plot=_plot_reasoning(results),
        cheats=_count_cheats(records),
        heat=_heat(results),
        explorer=make_explorer(results["tasks"], records),
        contamination=contamination,
        samples=choose_samples(records),
        story=tell_story(story or list(records.values())[-1]),
        code_styles={
            theme: Markup(HtmlFormatter(style=style).get_style_defs(".code"))
            for theme, style in (("light", "friendly"), ("dark", "github-dark"))
        },
    )


def highlight(source: str) -> Markup:
    """Python source as HTML; its triple-quoted strings, where native kernels are, are shown as C++."""
    source = _shorten(source)
    tokens: list[tuple[Any, str]] = []
    position = 0
    for native in TRIPLE_QUOTED.finditer(source):
        tokens += PYTHON.get_tokens(source[position : native.start()])
        tokens += [(String, native[1]), *CPP.get_tokens(native[2]), (String, native[3])]
        position = native.end()
    tokens += PYTHON.get_tokens(source[position:])
    lines = io.StringIO()
    HtmlFormatter(nowrap=True).format(tokens, lines)
    return Markup('<pre class="code">{}</pre>').format(Markup(lines.getvalue()))


@dataclass(frozen=True)
class Sample:
    """A completion that the report shows."""

    title: str
    record: Record
    completion: Completion


def choose_samples(records: Mapping[str, Sequence[Record]]) -> list[Sample]:
    """The last policy's best kernels and one of each of its failures, most frequent first, and kernels that cheat."""
    *_, last = records.values()
    shown = [("Best", record) for record in _best(last)]
    told = [record for record in last if record.verdict.status not in ("correct", "infrastructure")]
    failures = [record for record in told if not _is_cheat(record)]
    for status, count in Counter(record.verdict.status for record in failures).most_common():
        record = next(record for record in failures if record.verdict.status == status)
        shown.append((f"Typical failure ({count} of {len(last)} samples)", record))
    shown += [("Illegal", record) for record in _illegal(records)]
    return [Sample(title, record, Completion.parse(record.completion)) for title, record in shown]


def tell_story(records: Sequence[Record]) -> list[Sample]:
    """The turns of one trajectory of a strategy."""
    turns = choose_story(records)
    return [Sample(f"Turn {turn}", record, Completion.parse(record.completion)) for turn, record in enumerate(turns, 1)]


def _best(records: Sequence[Record]) -> list[Record]:
    """The fastest correct kernel, by lower bound, of each of the tasks where it is fastest."""
    best: dict[str, tuple[float, Record]] = {}
    for record in records:
        speedup = record.verdict.speedup
        if record.verdict.correct and speedup and speedup.low > best.get(record.task_id, (0.0, record))[0]:
            best[record.task_id] = (speedup.low, record)
    ranked = sorted(best.values(), key=lambda pair: pair[0], reverse=True)
    return [record for _, record in ranked[:NUM_BEST]]


def _illegal(records: Mapping[str, Sequence[Record]]) -> list[Record]:
    """One kernel per broken rule, of the latest policy that broke it."""
    found: dict[str, Record] = {}
    for samples in reversed(list(records.values())):
        for record in samples:
            if _is_cheat(record):
                found.setdefault(record.verdict.violations[0].rule, record)
    return list(found.values())[:NUM_ILLEGAL]


def _is_cheat(record: Record) -> bool:
    """A kernel that breaks a rule; a completion without a kernel is illegal too, but no cheat."""
    return record.verdict.status == "illegal" and record.verdict.candidate is not None


def _plot_sft(entries: Sequence[Mapping[str, float]]) -> Markup | None:
    losses = _curve(entries, "loss")
    if not losses:
        return None
    panels = [("Loss of the completions", {"loss": losses}, False)]
    if accuracy := _curve(entries, "mean_token_accuracy"):
        panels.append(("Tokens predicted right", {"accuracy": accuracy}, True))
    return Markup(plots.curves(panels, "SFT by step"))


def _plot_grpo(entries: Sequence[Mapping[str, float]]) -> list[Markup]:
    names = sorted({name for entry in entries for name in entry})
    parts = [name for name in names if name.startswith("reward/")]
    broken = [name for name in names if name.startswith("broke/")]
    rows: list[list[tuple[str, dict[str, str], bool]]] = [
        [
            ("Reward", {"reward": "reward"}, False),
            ("Parts of the reward", {name.removeprefix("reward/"): name for name in parts}, True),
            ("Share of completions", {name: name for name in RATES}, True),
        ],
        [
            ("Speedup of correct kernels, lower bound", {"speedup": "speedup_low"}, False),
            ("Entropy", {"entropy": "entropy"}, False),
            (
                "Groups without signal",
                {"none at all": "frac_reward_zero_std", "next to none": "nearly_silent_groups"},
                True,
            ),
        ],
        [
            ("Completions that broke a rule", {name.removeprefix("broke/"): name for name in broken}, True),
            ("Share of a correct kernel's work in its own kernels", {"coverage": "coverage"}, True),
            (
                "Speedups that are doubtful",
                {"below 1.05": "tiny_speedups", "measured again": "retested", "contradicted": "retest_disagreed"},
                True,
            ),
        ],
    ]
    plotted = []
    for row in rows:
        panels = [
            (title, {label: curve for label, key in keys.items() if (curve := _curve(entries, key))}, is_rate)
            for title, keys, is_rate in row
        ]
        panels = [panel for panel in panels if panel[1]]
        if panels:
            plotted.append(Markup(plots.curves(panels, f"GRPO by step: {', '.join(panel[0] for panel in panels)}")))
    return plotted


def _plot_speedups(records: Mapping[str, Sequence[Record]]) -> Markup | None:
    measured = {
        name: (
            [record.verdict.speedup.median for record in samples if record.verdict.correct and record.verdict.speedup],
            sum(record.verdict.status != "infrastructure" for record in samples),
        )
        for name, samples in records.items()
    }
    return Markup(plots.speedups(measured)) if any(values for values, _ in measured.values()) else None


def _plot_limits(records: Mapping[str, Sequence[Record]]) -> Markup | None:
    points = {
        name: [
            (it.verdict.bound_ms / it.verdict.candidate_ms, it.verdict.speedup.median)
            for it in samples
            if it.verdict.correct and it.verdict.speedup and it.verdict.bound_ms and it.verdict.candidate_ms
        ]
        for name, samples in records.items()
    }
    return Markup(plots.limits(points)) if any(points.values()) else None


def _plot_reasoning(results: Mapping[str, Any]) -> Markup | None:
    points = {}
    for name, policy in results["policies"].items():
        bins = policy.get("reasoning", {}).get("bins", [])
        varies = bool(bins) and bins[0]["words"] < bins[-1]["words"]
        points[name] = [(it["words"], it["correct"]) for it in bins] if varies else []
    return Markup(plots.lengths(points)) if any(points.values()) else None


def _count_cheats(records: Mapping[str, Sequence[Record]]) -> dict[str, list[int]]:
    """How many samples of each policy broke each rule first, most frequent first."""
    counts = [Counter(it.verdict.violations[0].rule for it in samples if _is_cheat(it)) for samples in records.values()]
    return {rule: [count[rule] for count in counts] for rule, _ in sum(counts, Counter()).most_common()}


def _heat(results: Mapping[str, Any]) -> dict[str, Any]:
    """Share of correct samples of the last policy by category and level, `None` where there is no sample."""
    correct = next(reversed(results["policies"].values()))["by_task"]["correct"]
    sums: dict[tuple[str, int | None], list[float]] = defaultdict(lambda: [0.0, 0.0])
    for task, total, count in zip(results["tasks"], correct["totals"], correct["counts"], strict=True):
        for key in {(task["category"], task["level"]), (task["category"], None)}:
            sums[key][0] += total
            sums[key][1] += count
    levels = sorted({task["level"] for task in results["tasks"]} - {None})
    shares = {key: total / count for key, (total, count) in sums.items() if count}
    categories = sorted({task["category"] for task in results["tasks"]})
    rows = {category: [shares.get((category, level)) for level in (*levels, None)] for category in categories}
    return {"levels": levels, "rows": rows}


def _curve(entries: Sequence[Mapping[str, float]], key: str) -> list[tuple[float, float]]:
    return [(entry["step"], entry[key]) for entry in entries if key in entry]


def _cell(text: str) -> Markup:
    """An estimate with its interval in small print."""
    value, _, interval = text.partition(" ")
    return Markup("{} <small>{}</small>").format(value, interval)


def _shorten(text: str) -> str:
    return text if len(text) <= MAX_CHARS else f"{text[:MAX_CHARS]}\n… {len(text) - MAX_CHARS} more characters"
