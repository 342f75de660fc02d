"""What a surrogate came to, for a person: the page with the reliability diagram, and the tables in the terminal."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined
from markupsafe import Markup
from rich.table import Table

from kernelrl import __version__
from kernelrl.eval import diagrams
from kernelrl.eval.calibration import Bin
from kernelrl.records import write_atomically

PAGE = "surrogate.html"


def write(folder: Path, found: Mapping[str, Any]) -> Path:
    """Write the page of what `quality.describe` found, and return its path."""
    environment = Environment(
        loader=ChoiceLoader([PackageLoader("kernelrl.eval.surrogate", "."), PackageLoader("kernelrl.eval", ".")]),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
    )
    bins = {name: [Bin(**each) for each in it["reliability"]] for name, it in found["targets"].items()}
    page = environment.get_template("surrogate.html.jinja").render(
        found=found, plot=Markup(diagrams.calibration(bins)), version=__version__
    )
    write_atomically(folder / PAGE, page)
    return folder / PAGE


def make_table(found: Mapping[str, Any]) -> Table:
    """Calibration of each target."""
    table = Table(
        title=f"surrogate: {found['examples']} candidates, {found['programs']} programs",
        caption="of candidates for programs that the fit had not seen",
        title_justify="left",
    )
    for column in ("target", "base rate", "Brier", "Brier of the base rate", "calibration error", "AUROC"):
        table.add_column(column, justify="left" if column == "target" else "right")
    for name, it in found["targets"].items():
        numbers = (it["brier"], it["brier_base"], it["ece"], it["auroc"])
        table.add_row(name, f"{it['base_rate']:.1%}", *(f"{number:.3f}" for number in numbers))
    return table


def make_filter_table(found: Mapping[str, Any]) -> Table:
    """What the filter would have refused, by the loss that it may cause."""
    table = Table(title="as a filter before hardware", title_justify="left")
    for column in ("may refuse of the right ones", "threshold", "refused", "abstained", "refused of the right ones"):
        table.add_column(column, justify="right")
    for it in found["filter"]:
        shares = (it["refused"], it["abstained"], it["lost"])
        table.add_row(f"{it['max_loss']:.0%}", f"{it['threshold']:.4f}", *(f"{share:.1%}" for share in shares))
    return table
