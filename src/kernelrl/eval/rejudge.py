"""`kernelrl eval rejudge=RUN output_dir=OTHER`: judge a finished evaluation's completions anew, and say what changed.

On another machine, by another version of the executor, or with other settings of it: nothing is sampled.
"""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from omegaconf import DictConfig, OmegaConf
from rich.table import Table

from kernelrl.errors import UserError
from kernelrl.records import Ledger, Record

MAX_NAMED = 100
"""Samples whose status changed that the results name."""


def prepare(cfg: DictConfig) -> DictConfig:
    """The config of an evaluation whose policies are the records of the run `cfg.rejudge`.

    Tasks, dialect, seed and the number of samples are the run's; how is judged is the config's. `eval.limit` may make
    the tasks fewer.

    Raises:
        UserError: the run has no results, is that of `output_dir`, or its tasks are no longer there.
    """
    run = Path(cfg.rejudge)
    file = run / "results.json"
    if not file.exists():
        raise UserError(f"rejudge={run}: has no results.json; give the folder of a run that was evaluated")
    if run.resolve() == Path(cfg.output_dir).resolve():
        raise UserError(f"output_dir={cfg.output_dir} is the run itself; choose another one for the new verdicts")
    results: dict[str, Any] = json.loads(file.read_text())
    earlier = results["eval"]
    folder = _folder(run)
    tasks = earlier["tasks"]
    if tasks is not None and not Path(tasks).exists():
        inside = run / "data" / Path(tasks).name
        if not inside.exists():
            raise UserError(f"rejudge={run}: its tasks are no longer in {tasks}; give eval.tasks=FILE")
        tasks = str(inside)
    given = str(cfg.eval.tasks) if cfg.eval.tasks is not None and Path(cfg.eval.tasks).exists() else tasks
    policies = {name: {"backend": "records", "folder": str(folder / name)} for name in results["policies"]}
    limit = min((most for most in (cfg.eval.limit, earlier.get("limit")) if most is not None), default=None)
    changed = OmegaConf.merge(
        cfg,
        {
            "dialect": results["dialect"],
            "seed": results["seed"],
            "eval": {"tasks": given, "limit": limit, **{name: earlier[name] for name in ("samples", "k", "fast_p")}},
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
    found = {}
    for name, samples in records.items():
        earlier = {it.id: it.verdict for it in Ledger(_folder(run) / name / "records")}
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


def _folder(run: Path) -> Path:
    """Where the run's evaluation is, also where the run was moved."""
    folder = Path(json.loads((run / "results.json").read_text())["eval"]["folder"])
    return folder if folder.is_dir() else run / "eval"
