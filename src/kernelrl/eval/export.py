"""The tables of a report as files: CSV for programs, Markdown and LaTeX for papers."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from kernelrl.eval import table
from kernelrl.records import write_atomically

LATEX = {"\\": r"\textbackslash{}", "&": r"\&", "%": r"\%", "_": r"\_", "#": r"\#", "$": r"\$", "×": r"$\times$"}
LATEX |= {"{": r"\{", "}": r"\}", "–": "--", "→": r"$\to$", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}"}
Rows = Sequence[Sequence[str]]


def write_tables(results: Mapping[str, Any], folder: Path) -> None:
    """Write `policies`, `categories` and, where tasks have levels, `levels`, each as .csv, .md and .tex."""
    policies = results["policies"]
    figures = list(next(iter(policies.values()))["figures"])
    header = ["", *policies]
    rows = [
        [table.label(it), *(table.format_estimate(it, p["figures"][it]) for p in policies.values())] for it in figures
    ]
    _write(folder / "policies", header, rows)
    for kind, title in (("categories", "category"), ("levels", "level")):
        groups = sorted({name for policy in policies.values() for name in policy[kind]})
        header = [title, *(f"{name}: {figure}" for name in policies for figure in ("correct, %", "speedup, ×"))]
        rows = [
            [group, *(cell for policy in policies.values() for cell in _cells(policy[kind][group]["figures"]))]
            for group in groups
        ]
        if rows:
            _write(folder / kind, header, rows)


def to_markdown(header: Sequence[str], rows: Rows) -> str:
    """A table in Markdown; the first column is text, the others are numbers."""
    rule = ["---", *["---:"] * (len(header) - 1)]
    return "".join(f"| {' | '.join(cell.replace('|', '&#124;') for cell in row)} |\n" for row in (header, rule, *rows))


def to_latex(header: Sequence[str], rows: Rows) -> str:
    """A table in LaTeX, with the rules of the package booktabs."""

    def line(row: Sequence[str]) -> str:
        return " & ".join("".join(LATEX.get(letter, letter) for letter in cell) for cell in row) + r" \\"

    begin = rf"\begin{{tabular}}{{l{'r' * (len(header) - 1)}}}"
    lines = [begin, r"\toprule", line(header), r"\midrule", *map(line, rows), r"\bottomrule", r"\end{tabular}"]
    return "\n".join(lines) + "\n"


def _cells(figures: Mapping[str, Any]) -> list[str]:
    return [table.format_estimate(name, figures[name]) for name in ("correct", "speedup")]


def _write(path: Path, header: Sequence[str], rows: Rows) -> None:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows([header, *rows])
    write_atomically(path.with_suffix(".csv"), text.getvalue())
    write_atomically(path.with_suffix(".md"), to_markdown(header, rows))
    write_atomically(path.with_suffix(".tex"), to_latex(header, rows))
