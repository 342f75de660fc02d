"""`kernelrl eval rejudge=RUN output_dir=OTHER`: judge a finished evaluation's completions anew, and say what changed.

On another machine, by another version of the executor, or with other settings of it: nothing is sampled.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from omegaconf import DictConfig, OmegaConf
from pydantic import BaseModel, ValidationError
from rich.table import Table

from kernelrl.errors import UserError
from kernelrl.eval.results import read_content, require_version
from kernelrl.records import Ledger, Record

TASKS = "tasks.parquet"
"""In the folder of an evaluation: its tasks and prompts, of which `eval.limit` may have evaluated the first alone."""

MAX_NAMED = 100
"""Samples whose status changed that the results name."""


class _Evaluation(BaseModel):
    """The node `eval` of an evaluated run, as its results tell it."""

    folder: Path
    tasks: Path | None
    limit: int | None = None
    samples: int
    k: list[int]
    fast_p: list[float]
    channel: str | None = None


class _Run(BaseModel):
    """What the results of an evaluated run say that judging anew needs; those of the first version say it too."""

    dialect: str
    seed: int
    eval: _Evaluation
    policies: dict[str, Any]


def prepare(cfg: DictConfig) -> DictConfig:
    """The config of an evaluation whose policies are the records of the run `cfg.rejudge`.

    Tasks, dialect, seed, channel and the number of samples are the run's; how is judged is the config's. `eval.limit`
    may make the tasks fewer.

    Raises:
        UserError: the run has no results that can be read, is that of `output_dir`, or its tasks are no longer there.
    """
    run = Path(cfg.rejudge)
    if run.resolve() == Path(cfg.output_dir).resolve():
        raise UserError(f"output_dir={cfg.output_dir} is the run itself; choose another one for the new verdicts")
    results = _read(run)
    earlier, folder = results.eval, _folder(run, results)
    tasks = folder / TASKS
    policies = {name: {"backend": "records", "folder": str(folder / name)} for name in results.policies}
    limit = min((most for most in (cfg.eval.limit, earlier.limit) if most is not None), default=None)
    changed = OmegaConf.merge(
        cfg,
        {
            "dialect": results.dialect,
            "seed": results.seed,
            "eval": {
                "tasks": str(tasks) if tasks.exists() else _tasks_of_earlier(cfg, run, earlier.tasks),
                "limit": limit,
                "samples": earlier.samples,
                "k": earlier.k,
                "fast_p": earlier.fast_p,
                "channel": cfg.eval.channel or earlier.channel,
            },
        },
    )
    assert isinstance(changed, DictConfig)
    changed.eval.policies = policies
    return changed


def changes(run: Path, records: Mapping[str, Sequence[Record]]) -> dict[str, Any]:
    """What became of each policy's samples.

    Returns:
        By policy: `samples` judged both times, `transitions` (from one status to another, counted), `changed` (the
        first of the samples whose status changed), `speedup_ratio` (geometric mean of the new speedup over the old one,
        of the samples that were timed both times), and the machines.
    """
    folder = _folder(run, _read(run))
    found = {}
    for name, samples in records.items():
        earlier = {it.id: it.verdict for it in Ledger(folder / name / "records")}
        pairs = [(it.id, earlier[it.id], it.verdict) for it in samples if it.id in earlier]
        moved = [(id, before.status, after.status) for id, before, after in pairs if before.status != after.status]
        logs = [
            math.log(after.speedup.median / before.speedup.median)
            for _, before, after in pairs
            if before.correct and after.correct and before.speedup and after.speedup
        ]
        transitions = Counter(f"{before} → {after}" for _, before, after in moved)
        found[name] = {
            "samples": len(pairs),
            "transitions": dict(transitions.most_common()),
            "changed": [{"id": id, "before": before, "after": after} for id, before, after in moved[:MAX_NAMED]],
            "speedup_ratio": math.exp(sum(logs) / len(logs)) if logs else None,
            "machines": {
                "before": sorted({before.machine for _, before, _ in pairs}),
                "after": sorted({after.machine for _, _, after in pairs}),
            },
        }
    return found


def make_table(rejudged: Mapping[str, Any]) -> Table:
    """The changes as a person reads them."""
    table = Table(title="judged anew: what changed", title_justify="left")
    for column in ("policy", "samples", "other status", "speedup, new over old", "from → to"):
        table.add_column(column, justify="left" if column in ("policy", "from → to") else "right")
    for name, policy in rejudged.items():
        moved, ratio = policy["transitions"], policy["speedup_ratio"]
        table.add_row(
            name,
            str(policy["samples"]),
            str(sum(moved.values())),
            "–" if ratio is None else f"×{ratio:.2f}",
            ", ".join(f"{count} {what}" for what, count in moved.items()) or "none",
        )
    return table


def _read(run: Path) -> _Run:
    file = run / "results.json"
    content = read_content(file, f"rejudge={run}: has no results.json; give the folder of a run that was evaluated")
    if isinstance(content, dict) and "schema_version" in content:  # the first version wrote none
        require_version(file, content["schema_version"])
    try:
        return _Run.model_validate(content)
    except ValidationError as error:
        wrong = error.errors()[0]
        where = ".".join(map(str, wrong["loc"]))
        raise UserError(f"{file}: these are no results that can be judged anew: {where}: {wrong['msg']}") from None


def _folder(run: Path, results: _Run) -> Path:
    """Where the run's evaluation is, also where the run was moved."""
    return results.eval.folder if results.eval.folder.is_dir() else run / "eval"


def _tasks_of_earlier(cfg: DictConfig, run: Path, tasks: Path | None) -> str | None:
    """The task file of a run whose evaluation kept no tasks of its own; None: those of the source `cfg.tasks`.

    Raises:
        UserError: the file is no longer there.
    """
    if cfg.eval.tasks is not None and Path(cfg.eval.tasks).exists():
        return str(cfg.eval.tasks)
    if tasks is None:
        return None
    for file in (tasks, run / "data" / tasks.name):
        if file.exists():
            return str(file)
    raise UserError(f"rejudge={run}: its tasks are no longer in {tasks}; give eval.tasks=FILE")
