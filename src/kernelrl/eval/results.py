"""`results.json`: the published format of what an evaluation found out (docs/results.md, `results.schema.json`).

It holds each figure task by task, so that results can be compared on a machine that has nothing but this file.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

import numpy as np
from pydantic import BaseModel, ConfigDict, ValidationError

from kernelrl.errors import UserError
from kernelrl.eval.figure import Figure

SCHEMA_VERSION = 1
SCHEMA = Path(__file__).with_name("results.schema.json")
"""The format as JSON Schema."""


class Estimate(BaseModel):
    """A figure with its 95 % interval; null: there was nothing to measure; no interval: of fewer than two tasks."""

    value: float | None
    low: float | None
    high: float | None


class TaskEntry(BaseModel):
    """One task of the evaluation."""

    id: str
    digest: str
    """sha256 of the program and its tolerances: equal for equal tasks."""
    category: str
    level: int | None
    case_of: str | None = None
    """Tasks with the same one are cases of one program, and no independent ones; null: the task stands alone."""


class Partial(BaseModel):
    """Only the first tasks were evaluated (`eval.limit`)."""

    num: int
    of: int
    """Number of tasks that there are."""


class ByTask(BaseModel):
    """One figure task by task: its value is sum(totals) / sum(counts), or the exponential of that."""

    totals: list[float]
    counts: list[float]
    geometric: bool
    """The totals are sums of natural logarithms."""
    share: bool = False
    """Between 0 and 1."""
    pooled: bool = False
    """What all tasks cost over what all of them gave."""

    def figure(self) -> Figure:
        totals_T, counts_T = (np.array(values, dtype=np.float64) for values in (self.totals, self.counts))
        return Figure(totals_T, counts_T, self.geometric, self.share, self.pooled)


class Group(BaseModel):
    """The figures over some of the tasks."""

    num_tasks: int
    figures: dict[str, Estimate]


class LengthBin(BaseModel):
    """Samples whose reasoning is about as long."""

    words: float
    samples: int
    correct: float
    """Share of them."""


class Reasoning(BaseModel):
    """How the length of the reasoning goes with correctness."""

    correlation: Estimate
    """Rank correlation over tasks of mean length and share of correct samples."""
    bins: list[LengthBin]


class PolicyResults(Group):
    """What one policy came to."""

    model_config = ConfigDict(extra="allow")  # where it comes from, and how it was sampled

    policy: str
    num_samples: int
    num_infrastructure: int
    """Samples without a verdict; no figure counts them."""
    num_untimed: int
    """Correct samples without a time."""
    num_left_out: dict[str, int] = {}
    """Tasks, or programs, with too few verdicts, by the figure that leaves them out; empty: not known."""
    num_programs: int | None = None
    """Whose cases the tasks are, and over which the intervals are; null: not known."""
    num_solved: int | None = None
    """Programs that a sample solves, in every case; null: not known."""
    categories: dict[str, Group]
    levels: dict[str, Group]
    by_task: dict[str, ByTask]
    """Lists in the order of `tasks`."""
    reasoning: Reasoning | None = None
    """Null: written by a version that did not look."""
    seconds_per_solved: float | None = None
    """Seconds of sampling and judging for each task that a sample solves; null: not known, or nothing was solved."""


class Comparison(BaseModel):
    """The change of each figure from one policy to another: the mean difference, for speedups the mean quotient, of a
    program's two means, over the programs that both policies measure."""

    before: str
    after: str
    figures: dict[str, Estimate]


class Results(BaseModel):
    """The content of `results.json`."""

    model_config = ConfigDict(extra="allow")  # settings, versions and machine: where it comes from

    schema_version: Literal[1]
    name: str
    """Of the run."""
    tasks: list[TaskEntry]
    partial: Partial | None = None
    """Null: every task was evaluated."""
    source_skipped: dict[str, int] = {}
    """Items of the source that are no task here, by reason; empty: none, or the tasks came from a file."""
    policies: dict[str, PolicyResults]
    comparisons: list[Comparison]


def read_results(path: Path) -> Results:
    """Read `results.json`, or that of the run whose folder is given.

    Raises:
        UserError: it is not there, is of another version of the format, or is damaged.
    """
    file = path / "results.json" if path.is_dir() else path
    content = read_content(file, f"{file}: no such file; kernelrl eval writes it (of policies, not of an imported run)")
    version = content.get("schema_version") if isinstance(content, Mapping) else None
    if version is None:
        raise UserError(
            f"{file}: has no schema_version: it is of an earlier version of kernelrl, or no results; judge its "
            f"completions anew, without sampling: kernelrl eval rejudge={file.parent} output_dir=OTHER"
        )
    require_version(file, version)
    try:
        return Results.model_validate(content)
    except ValidationError as error:
        wrong = error.errors()[0]
        raise UserError(f"{file}: {'.'.join(map(str, wrong['loc']))}: {wrong['msg']}") from None


def read_content(file: Path, missing: str) -> Any:
    """What a file of results holds, of whatever version.

    Args:
        missing: what to say where there is no such file.

    Raises:
        UserError: it is not there, or no JSON.
    """
    try:
        return json.loads(file.read_text())
    except FileNotFoundError:
        raise UserError(missing) from None
    except (OSError, ValueError) as error:
        raise UserError(f"{file}: not JSON: {error}") from None


def require_version(file: Path, version: object) -> None:
    """Check the `schema_version` of a file.

    Raises:
        UserError: it is not the one that is read here.
    """
    if version != SCHEMA_VERSION:
        raise UserError(f"{file}: schema_version {version}; this version of kernelrl reads {SCHEMA_VERSION}")


def make_schema() -> dict[str, Any]:
    """The format as JSON Schema (draft 2020-12)."""
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **Results.model_json_schema()}
