"""`kernelrl eval checkpoints=RUN output_dir=OTHER`: every checkpoint of a run on the same tasks, and which is best.

Checkpoints are policies like others: they are sampled one after the other, or shared out by `launcher.array` on Slurm,
and judged here or on Ray (`executor=ray`). The best one is that with the highest lower bound of the 95 % interval: the
highest value of many is mostly luck.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup
from omegaconf import DictConfig
from rich.table import Table
from rich.text import Text

from kernelrl import __version__
from kernelrl.console import make_console
from kernelrl.data.tables import TASKS_HELDOUT
from kernelrl.errors import UserError
from kernelrl.eval import diagrams, table
from kernelrl.records import write_atomically, write_json
from kernelrl.stage_folder import is_done, read_figures
from kernelrl.training.seals import CHECKPOINTS, FINAL, SEAL

JSON, PAGE = "checkpoints.json", "checkpoints.html"
STAGES = ("sft", "grpo")
FIGURES = ("correct", "fast_1", "speedup_all", "reward")
"""Those that nobody measured are left out."""
_NAME = re.compile(r"(\w+)-(\d+)")


def prepare(cfg: DictConfig) -> DictConfig:
    """The config of an evaluation whose policies are the checkpoints of `cfg.checkpoints`.

    That is the folder of a run, or of one of its training stages. Each policy is named STAGE-STEP. Step 0 is the base
    of SFT; that of the last step is the stage's `final`, also where an earlier one was the best in validation. A
    checkpoint without a seal is half written, and left out.

    Raises:
        UserError: there are none, or they are in `output_dir` itself.
    """
    given = Path(cfg.checkpoints)
    run, stages = (given.parent, (given.name,)) if given.name in STAGES else (given, STAGES)
    policies = {name: str(folder) for stage in stages for name, folder in _find(run / stage).items()}
    if not policies:
        raise UserError(
            f"checkpoints={given}: no sealed checkpoint in {' or '.join(f'{run / stage}' for stage in stages)}; "
            "give the folder of a run that was trained, or of its stage"
        )
    if run.resolve() == Path(cfg.output_dir).resolve():
        raise UserError(f"output_dir={cfg.output_dir} is the run itself, whose results would be lost; choose another")
    cfg = cfg.copy()
    cfg.eval.policies = policies
    tasks = run / "data" / TASKS_HELDOUT
    if cfg.eval.tasks is not None and not Path(cfg.eval.tasks).exists() and tasks.exists():
        cfg.eval.tasks = str(tasks)
    return cfg


def _find(stage: Path) -> dict[str, Path]:
    """The checkpoints of a stage by name, the earliest first."""
    found = {int(seal.parent.name.rpartition("-")[2]): seal.parent for seal in stage.glob(f"{CHECKPOINTS}/*-*/{SEAL}")}
    if (stage / "base").is_dir():
        found[0] = stage / "base"
    if is_done(stage):
        found[int(read_figures(stage)["steps"])] = stage / FINAL
    return {f"{stage.name}-{step}": found[step] for step in sorted(found)}


def summarize(results: Mapping[str, Any]) -> dict[str, Any]:
    """Each figure of each checkpoint with its step, and the best checkpoint of each figure by lower bound, as JSON.

    Where no interval is known, because one task alone was evaluated, a figure has no best checkpoint.
    """
    policies = results["policies"]
    names = [
        name
        for name in FIGURES
        if any(policy["figures"].get(name, {}).get("value") is not None for policy in policies.values())
    ]
    checkpoints = []
    for name, policy in policies.items():
        stage, step = _NAME.fullmatch(name).groups()  # type: ignore[union-attr]  # `prepare` has named them
        figures = {figure: policy["figures"][figure] for figure in names}
        checkpoints.append({"name": name, "stage": stage, "step": int(step), "folder": policy["folder"], **figures})
    best = {}
    for figure in names:
        measured = [each for each in checkpoints if each[figure]["low"] is not None]
        if measured:
            best[figure] = max(measured, key=lambda each: each[figure]["low"])["name"]
    return {"name": results["name"], "figures": names, "checkpoints": checkpoints, "best": best, "version": __version__}


def write(folder: Path, results: Mapping[str, Any]) -> Path:
    """Write `checkpoints.json` and `checkpoints.html`, and print the table. Returns the page."""
    summary = summarize(results)
    write_json(folder / JSON, summary)
    environment = Environment(
        loader=PackageLoader("kernelrl.eval", "."), autoescape=True, undefined=StrictUndefined, trim_blocks=True
    )
    environment.globals.update(table=table)
    page = environment.get_template("checkpoints.html.jinja").render(
        summary=summary, caption=table.caption(results), plot=Markup(_plot(summary))
    )
    write_atomically(folder / PAGE, page)
    make_console().print(make_table(summary))
    return folder / PAGE


def make_table(summary: Mapping[str, Any]) -> Table:
    """A row per checkpoint; the best of each figure is marked."""
    caption = "*: highest lower bound of the 95 % interval"
    shown = Table(title=f"{summary['name']}: checkpoints", caption=caption, title_justify="left")
    shown.add_column("checkpoint")
    for figure in summary["figures"]:
        shown.add_column(table.label(figure), justify="right")
    for each in summary["checkpoints"]:
        cells = []
        for figure in summary["figures"]:
            best = summary["best"].get(figure) == each["name"]
            cells.append(Text(table.format_estimate(figure, each[figure]) + " *" * best, "green" if best else ""))
        shown.add_row(each["name"], *cells)
    return shown


def _plot(summary: Mapping[str, Any]) -> str:
    stages = list(dict.fromkeys(each["stage"] for each in summary["checkpoints"]))
    panels = [
        (
            figure,
            table.label(figure),
            {
                stage: [(each["step"], each[figure]) for each in summary["checkpoints"] if each["stage"] == stage]
                for stage in stages
            },
            summary["best"].get(figure),
        )
        for figure in summary["figures"]
    ]
    return diagrams.by_step(panels)
