"""The status of a run as a person reads it: in the terminal, and as one HTML file that loads nothing.

Errors and logs are hostile text: the template escapes everything, the terminal gets it as plain text.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import timedelta

from jinja2 import Environment, PackageLoader, StrictUndefined
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from kernelrl import __version__
from kernelrl.commands.status.read import NodeReport, RunStatus, StageStatus

STYLES = {"done": "green", "running": "bold cyan", "stopped": "bold red", "waiting": "dim"}
COLUMNS = {"reward": "reward", "correct": "correct", "loss": "loss", "step_time": "seconds"}
"""Of the last steps: key of the log, and its name on the page."""


def render(status: RunStatus, refresh_s: float | None = None) -> str:
    """The HTML page; a browser loads it again every `refresh_s` seconds."""
    environment = Environment(
        loader=PackageLoader("kernelrl", "."),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
    )
    for function in (progress, rates, facts, step_columns, step_rows, node_row, job_rows, log_rows, duration, clock):
        environment.globals[function.__name__] = function
    template = environment.get_template("commands/status/status.html.jinja")
    return template.render(status=status, node_columns=NODE_COLUMNS, refresh_s=refresh_s, version=__version__)


def show(status: RunStatus) -> RenderableType:
    """The page for the terminal."""
    return Group(*_parts(status))


def _parts(status: RunStatus) -> Iterator[RenderableType]:
    stages = Table(title=f"{status.run} at {clock(status.time)}", title_justify="left")
    for column in ("stage", "state", "progress", "left", "rates", ""):
        stages.add_column(column, overflow="fold")
    for stage in status.stages:
        left = "" if stage.progress is None or stage.progress.left_s is None else duration(stage.progress.left_s)
        state = Text(stage.state, STYLES[stage.state])
        stages.add_row(stage.name, state, progress(stage), left, rates(stage), Text(facts(stage)))
    yield stages
    for stage in status.stages:
        if stage.steps:
            yield _table(f"{stage.name}: last steps", ["step", *step_columns(stage)], step_rows(stage))
        if stage.nodes:
            rows = [node_row(node, status.time) for node in stage.nodes]
            yield _table(f"{stage.name}: executor", NODE_COLUMNS, rows)
        if stage.error:
            yield Text(f"{stage.name}: {stage.error}", "red")
    if status.jobs:
        yield _table("jobs", ["job", "name", "state", "submitted"], job_rows(status))
    if status.logs:
        yield _table("logs", ["file", "written", "last error"], log_rows(status))


def _table(title: str, columns: list[str], rows: list[list[str]]) -> Table:
    table = Table(*columns, title=title, title_justify="left")
    for row in rows:
        table.add_row(*map(Text, row))
    return table


NODE_COLUMNS = ["node", "by", "state", "queued", "running", "judged", "retried", "last error"]


def node_row(node: NodeReport, now: float) -> list[str]:
    """The cells of `NODE_COLUMNS`."""
    state = f"stale, reported {ago(node.time, now)}" if node.is_stale(now) else "alive" if node.alive else "not alive"
    numbers = [f"{number:,}" for number in (node.queued, node.running, node.judged, node.retried)]
    return [node.node, node.rank, state, *numbers, node.last_error or "–"]


def job_rows(status: RunStatus) -> list[list[str]]:
    """Number, name, state and time of submission."""
    return [[job.id, job.name, job.state, job.submitted] for job in status.jobs]


def log_rows(status: RunStatus) -> list[list[str]]:
    """File, age of its last line, last error."""
    return [[log.name, ago(log.written, status.time), log.error or "–"] for log in status.logs]


def step_rows(stage: StageStatus) -> list[list[str]]:
    """The last steps, with the columns that the stage's log has."""
    keys = [key for key, name in COLUMNS.items() if name in step_columns(stage)]
    return [
        [f"{step['step']:g}", *(f"{step[key]:.4g}" if key in step else "–" for key in keys)] for step in stage.steps
    ]


def step_columns(stage: StageStatus) -> list[str]:
    """Names of the figures that the stage's log has."""
    return [name for key, name in COLUMNS.items() if any(key in step for step in stage.steps)]


def progress(stage: StageStatus) -> str:
    """E.g. `12 of 60 steps (20 %)`."""
    if (made := stage.progress) is None:
        return ""
    if made.of is None:
        return f"{made.done:,g} {made.unit}"
    return f"{made.done:,g} of {made.of:,g} {made.unit} ({made.share:.0%})"


def rates(stage: StageStatus) -> str:
    """E.g. `1.2 steps/min, 8.4 completions/s`."""
    return ", ".join(f"{rate:.3g} {unit}" for unit, rate in stage.rates.items())


def facts(stage: StageStatus) -> str:
    """Which process works on a stage, or the figures of one that has finished."""
    return stage.who or ", ".join(f"{name} {value:g}" for name, value in stage.figures.items())


def duration(seconds: float) -> str:
    """E.g. `1:02:03`."""
    return str(timedelta(seconds=round(seconds)))


def ago(then: float, now: float) -> str:
    """E.g. `0:00:07 ago`."""
    return f"{duration(max(now - then, 0.0))} ago"


def clock(seconds: float) -> str:
    """A Unix time (in seconds) on this machine's clock."""
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(seconds))
