"""The card of a data set folder: `README.md` with front matter for the Hugging Face hub, counts and plots."""

from __future__ import annotations

import json
from array import array
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq
from huggingface_hub import DatasetCardData
from rich.table import Table

from kernelrl.data.tables import CONTAMINATION, MATCHES, SFT_TRAIN, Row, iterate_table
from kernelrl.records import write_atomically

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

SIZES = ((1_000, "n<1K"), (10_000, "1K<n<10K"), (100_000, "10K<n<100K"), (1_000_000, "100K<n<1M"))
BLUE = "#2a6fb0"


class _Figures:
    """What the card counts of the rows; 12 bytes of memory for each."""

    def __init__(self) -> None:
        self.categories, self.statuses = Counter[str](), Counter[str]()
        self.dialects: set[str] = set()
        self.tokens = array("I")
        self.speedups = array("d")

    def add(self, row: Row) -> None:
        self.categories[row["category"] or "unknown"] += 1
        self.dialects.add(row["dialect"])
        self.tokens.append(row["reasoning_tokens"])
        self.statuses[row["verdict"]["status"]] += 1
        if row["verdict"]["speedup"]:
            self.speedups.append(row["verdict"]["speedup"]["median"])


def write(folder: Path, name: str, summary: Mapping[str, Any]) -> None:
    """Write `README.md` and `plots/` from the tables that are in the folder.

    Args:
        name: of the data set.
        summary: the counts of `summary.json`; those that it lacks are left out.
    """
    rows = _Figures()
    for row in iterate_table(folder / SFT_TRAIN, ("category", "dialect", "reasoning_tokens", "verdict")):
        rows.add(row)
    plots = _write_plots(folder / "plots", rows, summary)
    tables = {path.stem: pq.ParquetFile(path).metadata.num_rows for path in sorted(folder.glob("*.parquet"))}
    parts = [
        f"---\n{_front_matter(folder, name, rows.dialects, tables)}\n---",
        f"# {name}",
        "PyTorch programs and kernels that replace them, with the reasoning that leads there; both are Python source "
        f"in KernelBench's format. Kernels were judged by kernelrl's executor: {_statuses(rows.statuses)}.",
        "## Splits",
        _markdown(("table", "rows"), tables.items()),
        "`sft_*`: conversational prompt and completion. `tasks_*`: prompts, and the task in JSON for the executor. "
        "Train and heldout share no composition of operators.",
        "## From tasks to rows",
        _markdown(("stage", "", "number"), funnel(summary)),
        *(f"![{title}](plots/{file})" for title, file in plots),
        *_contamination(folder / CONTAMINATION),
        *_provenance(folder, tables),
        "## How it was made",
        "`manifest.json` holds every setting, the seed, versions and digests: the same verdicts and seed give the same "
        "rows." + (" `dropped.jsonl` says what was left out, and why." if (folder / "dropped.jsonl").exists() else ""),
    ]
    write_atomically(folder / "README.md", "\n\n".join(parts) + "\n")


def funnel(summary: Mapping[str, Any]) -> Iterator[tuple[str, str, int]]:
    """The counts as (stage, what, number), in the order in which tasks become rows."""
    if "tasks_drawn" in summary:
        yield "tasks", "drawn", summary["tasks_drawn"]
        yield from (("", f"dropped, {reason}", number) for reason, number in summary["tasks_dropped"].items())
        yield "", "kept for training", summary["tasks_train"]
        yield "", "kept, held out", summary["tasks_heldout"]
    yield "proposals", "judged", summary["proposals"]
    yield from (("", status, number) for status, number in summary["proposals_by_status"].items())
    yield "triples", "verified, for training", summary["verified"]
    yield from (("", f"selected by {criterion}", number) for criterion, number in summary["selected_by"].items())
    yield "rows", "training", summary["triples"]
    yield "", "held out", summary["triples_heldout"]


def terminal_table(summary: Mapping[str, Any]) -> Table:
    """The counts for the terminal."""
    table = Table(title="from tasks to rows", title_justify="left")
    for column in ("stage", "", "number"):
        table.add_column(column, justify="right" if column == "number" else "left")
    for stage, what, number in funnel(summary):
        table.add_row(stage, what, f"{number:,}", style="bold" if stage == "rows" else "")
    return table


def _front_matter(folder: Path, name: str, dialects: set[str], tables: Mapping[str, int]) -> str:
    found = {row["licence"] for table in tables for row in iterate_table(folder / f"{table}.parquet", ("licence",))}
    licences = sorted((licence or "unknown").lower() for licence in found)
    size = next((label for limit, label in SIZES if sum(tables.values()) < limit), "n>1M")
    configs = []
    for kind in ("sft", "tasks", "preferences", "labels", "refinements"):
        files = [
            {"split": split, "path": f"{kind}_{split}.parquet"}
            for split in ("train", "heldout")
            if tables.get(f"{kind}_{split}")
        ]
        if files:
            configs.append({"config_name": kind, "data_files": files} | ({"default": True} if kind == "sft" else {}))
    data = DatasetCardData(
        pretty_name=name,
        license=licences[0] if len(licences) == 1 else licences,
        task_categories=["text-generation"],
        language=["code"],
        tags=["kernelrl", "code", "kernel-generation", *sorted(dialects)],
        size_categories=[size],
        configs=configs,
    )
    return data.to_yaml()


def _markdown(header: Sequence[str], rows: Any) -> str:
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join(
        f"| {' | '.join(f'{cell:,}' if isinstance(cell, int) else cell for cell in line)} |" for line in lines
    )


def _statuses(counts: Counter[str]) -> str:
    return ", ".join(f"{number:,} {status}" for status, number in counts.most_common()) or "none is in this set"


def _provenance(folder: Path, tables: Iterable[str]) -> list[str]:
    """Under which licences the rows' tasks are, and where and from which revision they come; the largest first."""
    licences: Counter[tuple[str, str]] = Counter()
    origins: Counter[tuple[str, str]] = Counter()
    for table in sorted(tables):
        named = pq.read_schema(folder / f"{table}.parquet").names
        columns = [name for name in ("licence", "origin", "revision") if name in named]
        for row in iterate_table(folder / f"{table}.parquet", columns):
            licences[table, row["licence"] or "unknown"] += 1
            if table.startswith("tasks_"):
                origins[row["origin"].partition(":")[0], row.get("revision") or ""] += 1
    by_licence = [(licence, table, number) for (table, licence), number in licences.most_common()]
    by_origin = [(origin, revision or "made here", number) for (origin, revision), number in origins.most_common(50)]
    return [
        "## Licences",
        "Of the programs that the rows are made from, as their origins publish them (SPDX).",
        _markdown(("licence", "table", "rows"), by_licence),
        "## Origins",
        _markdown(("origin", "revision", "tasks"), by_origin),
    ]


def _contamination(path: Path) -> list[str]:
    if not path.exists():
        return []
    report = json.loads(path.read_text())
    kinds = list(dict.fromkeys(kind for entry in report["benchmarks"] for kind in entry["matched_by_kind"]))
    rows = [
        (entry["name"], entry["tasks"], *(entry["matched_by_kind"][kind] for kind in kinds), entry["dropped"])
        for entry in report["benchmarks"]
    ]
    return [
        "## Contamination",
        f"{report['tasks']:,} training tasks were compared. Those that match, by the strongest kind of match:",
        _markdown(("benchmark", "its tasks", *kinds, "dropped"), rows),
        f"`{MATCHES}` lists the matches. " + ". ".join(note[0].upper() + note[1:] for note in report["notes"]) + ".",
    ]


def _write_plots(folder: Path, rows: _Figures, summary: Mapping[str, Any]) -> list[tuple[str, str]]:
    """(title, file name) of every plot for which there is something to show."""
    folder.mkdir(parents=True, exist_ok=True)
    dropped = Counter(summary.get("tasks_dropped", {}))
    dropped.update({status: n for status, n in summary["proposals_by_status"].items() if status != "correct"})
    dropped["not selected"] = summary["verified"] - summary["triples"]
    plots = {
        "categories": ("Rows by category", _bars(rows.categories)),
        "reasoning": ("Length of the reasoning (in tokens)", _histogram(rows.tokens)),
        "speedups": ("Speedup over eager PyTorch (median)", _histogram(rows.speedups)),
        "dropped": ("What was dropped, and why", _bars(+dropped)),
    }
    written = []
    for name, (title, figure) in plots.items():
        if figure is not None:
            figure.axes[0].set_title(title, loc="left", fontsize=10, fontweight="bold")
            figure.savefig(folder / f"{name}.png", dpi=120, metadata={"Software": None})
            written.append((title, f"{name}.png"))
    return written


def _bars(counts: Mapping[str, int]) -> Figure | None:
    if not counts:
        return None
    ordered = sorted(counts.items(), key=lambda item: item[1])
    figure, axes = _plot(height=0.9 + 0.28 * len(ordered))
    axes.bar_label(axes.barh(*zip(*ordered, strict=True), color=BLUE), padding=3, fontsize=8)
    return figure


def _histogram(values: Sequence[float]) -> Figure | None:
    if not values:
        return None
    figure, axes = _plot(height=2.6)
    axes.hist(values, bins=30, color=BLUE)
    axes.set_ylabel("rows", fontsize=8)
    return figure


def _plot(height: float) -> tuple[Figure, Axes]:
    from matplotlib.figure import Figure  # here: it takes longer to import than the rest, and few commands write a card

    figure = Figure(figsize=(7, height), layout="constrained")
    axes = figure.subplots()
    axes.spines[["top", "right"]].set_visible(False)
    axes.tick_params(labelsize=8)
    return figure, axes
