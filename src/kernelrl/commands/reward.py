"""`kernelrl reward replay RUN reward=[…]`: what other rewards would have paid for the records of a run.

Nothing is run: rewards and group advantages are computed again from the ledger, so a hundred thousand records take
seconds. Not covered: how another reward would have changed what the policy wrote.
"""

from __future__ import annotations

import argparse
import json
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from omegaconf import OmegaConf
from rich.table import Table

from kernelrl.candidate import Completion
from kernelrl.commands.arguments import Parser
from kernelrl.commands.records import read
from kernelrl.configs import config_dir
from kernelrl.console import make_console, set_up_logging
from kernelrl.data.tables import SFT_HELDOUT, SFT_TRAIN, read_references
from kernelrl.errors import UserError
from kernelrl.records import Record
from kernelrl.rewards import Reward, Sample, make_reward
from kernelrl.stage_folder import SETTINGS, read_settings

USAGE = (
    "kernelrl reward replay RUN [reward=[NAME,…]] [--stage grpo|eval|curate] [--scale none|group|batch] "
    "[--references FILE] [--json]"
)
EPILOG = """\
RUN is the folder of a run, a stage or a ledger. The first reward is the one that the others are compared with.

  mean, sd         of the rewards of all samples that have one
  silent groups    share of groups (samples of one prompt at one step) in which all earn the same: nothing is learnt
  rank             Spearman's correlation of the advantages with those of the first reward
  sign             share of samples whose advantage has the opposite sign of the first reward's (--json names them)
  best cheat       the most that an illegal kernel earns, less the least that an honest failure does: never above 0

An advantage is reward - mean of the group; --scale divides it by the standard deviation of the group or of the batch of
its step, as grpo.trainer.scale_rewards does. Rewards that compare with known kernels find them in RUN/data, or in the
file that --references names.

examples:
  kernelrl reward replay outputs/demo reward=[kernelrl,kevin,cuda_l1,drkernel]
  kernelrl reward replay outputs/demo --json > replay.json"""


MAX_CHANGED = 100
"""Records whose advantage changes its sign that the JSON names."""


@dataclass(frozen=True)
class Replayed:
    """One reward's scores of N records."""

    totals: NDArray[np.float64]
    """(N,) NaN: no reward (the executor learnt nothing)."""
    advantages: NDArray[np.float64]
    """(N,) NaN where there is no reward."""
    silent: float
    """Share of groups of two or more samples in which all rewards are equal."""


def main(arguments: list[str]) -> int:
    """Run the command; returns its exit code."""
    options = _parse(arguments)
    overrides = [word.partition("=") for word in options.words if "=" in word]
    folders = [word for word in options.words if "=" not in word]
    for key, _, value in overrides:
        if key != "reward":
            instead = f"--{key} {value}" if key in vars(options) else "reward=[NAME,…]"
            raise UserError(f"{key}={value}: no override of this command; write {instead}")
    if len(folders) != 1:
        raise UserError(f"{len(folders)} folders of runs were given, not one: {' '.join(folders) or 'none'}")
    set_up_logging()
    rewards = [_load(name) for name in _names([value for _, _, value in overrides])]
    records = read(Path(folders[0]), options.stage)
    samples = [(Completion.parse(record.completion), record.verdict) for record in records]
    found = options.references or _find_references(Path(folders[0]), options.stage)
    references = read_references(found, needed=any("similarity" in reward.measures for reward in rewards))
    max_steps = _max_steps(Path(folders[0]), options.stage)
    replayed = {
        reward.name: replay(records, samples, reward, references, max_steps, options.scale) for reward in rewards
    }
    summary = summarise(records, replayed)
    print(json.dumps(summary, indent=2)) if options.json else _print(summary)
    return 0


def replay(
    records: Sequence[Record],
    samples: Sequence[Sample],
    reward: Reward,
    references: Mapping[str, Sequence[str]] | None = None,
    max_steps: int | None = None,
    scale: str = "none",
) -> Replayed:
    """Score N records anew, in their groups: same policy, step and task.

    Args:
        records: (N,) of one stage.
        samples: (N,) their completions, parsed, and verdicts.
        reward: what scores them.
        references: sources of right kernels by task id, where some are known.
        max_steps: of the training; None: the last step of the records.
        scale: `none`, `group` or `batch`: by whose standard deviation advantages are divided (population's).
    """
    keys = [(record.policy, record.step, record.task_id) for record in records]
    last = max_steps or max(record.step for record in records)
    known = {key: (references or {}).get(key[2], ()) for key in keys}
    totals = np.full(len(records), np.nan)
    by_step: defaultdict[int, list[int]] = defaultdict(list)
    for index, record in enumerate(records):
        by_step[record.step].append(index)
    for step, indices in by_step.items():
        progress = step / last if last else 1.0
        opinions = [records[i].opinion for i in indices]
        group = [samples[i] for i in indices], [keys[i] for i in indices]
        scores = reward.of_groups(*group, progress, known, opinions)
        for index, score in zip(indices, scores, strict=True):
            totals[index] = np.nan if score.total is None else score.total
    frame = pd.DataFrame({"total": totals, "group": pd.factorize(pd.Series(keys))[0]})
    grouped = frame.groupby("group")["total"]
    mean, spread, count = (grouped.transform(kind) for kind in ("mean", lambda x: x.std(ddof=0), "count"))
    # a sum of equal numbers need not be that number times their count: such a spread is none
    alike = spread <= 1e-12 * frame["total"].abs().clip(lower=1.0)
    if scale == "batch":
        frame["batch"] = pd.factorize(pd.Series([(record.policy, record.step) for record in records]))[0]
        spread = frame.groupby("batch")["total"].transform(lambda x: x.std(ddof=0))
    divisor = 1.0 if scale == "none" else spread.where(~alike, 1.0)
    advantages = ((frame["total"] - mean) / divisor).where(~alike, 0.0)
    several = frame[count > 1].assign(alike=alike).groupby("group")["alike"].all()
    return Replayed(
        totals=totals,
        advantages=advantages.where(frame["total"].notna()).to_numpy(),
        silent=float(several.mean()) if len(several) else 0.0,
    )


def summarise(records: Sequence[Record], replayed: dict[str, Replayed]) -> dict[str, Any]:
    """Figures per reward, the rank correlation of every two, and what each cheat would have been paid."""
    advantages = pd.DataFrame({name: each.advantages for name, each in replayed.items()})
    first = next(iter(replayed))
    ranks = advantages.rank().corr()
    opposite = {name: _are_opposite(each.advantages, replayed[first].advantages) for name, each in replayed.items()}
    rules = sorted({violation.rule for record in records for violation in record.verdict.violations})
    illegal = np.array([record.verdict.status == "illegal" for record in records])
    failed = np.array([record.verdict.legal and not record.verdict.correct for record in records])
    return {
        "records": len(records),
        "rewards": {
            name: {
                "mean": _or_none(float(np.nanmean(each.totals))),
                "sd": _or_none(float(np.nanstd(each.totals))),
                "left_out": int(np.isnan(each.totals).sum()),
                "silent_groups": each.silent,
                "rank": _or_none(ranks.loc[first, name]),
                "sign": float(opposite[name].sum() / max((~np.isnan(each.advantages)).sum(), 1)),
                "changed": [records[i].id for i in np.flatnonzero(opposite[name])[:MAX_CHANGED]],
                "best_cheat": _best_cheat(each.totals, illegal, failed),
                "paid_by_rule": {
                    rule: _or_none(float(np.nanmean(each.totals[[_breaks(record, rule) for record in records]])))
                    for rule in rules
                },
            }
            for name, each in replayed.items()
        },
        "rank_correlation": {
            name: {other: _or_none(ranks.loc[name, other]) for other in replayed} for name in replayed
        },
    }


def _find_references(run: Path, stage: str) -> Path | None:
    """The run's file of known kernels, where it lies at its usual place."""
    path = run / "data" / (SFT_HELDOUT if stage == "eval" else SFT_TRAIN)
    return path if path.exists() else None


def _max_steps(run: Path, stage: str) -> int | None:
    """How long the training was meant to be, where a stage's folder or its run's is given; weights may follow that."""
    for folder in (run / stage, run):
        if stage == "grpo" and (folder / SETTINGS).exists():
            steps = read_settings(folder).get("trainer", {}).get("max_steps", -1)
            return int(steps) if steps > 0 else None
    return None


def _are_opposite(advantages: NDArray[np.float64], other_advantages: NDArray[np.float64]) -> NDArray[np.bool_]:
    """(N,) where two advantages are known and point in opposite directions."""
    with np.errstate(invalid="ignore"):
        opposite: NDArray[np.bool_] = advantages * other_advantages < 0
    return opposite


def _best_cheat(totals: NDArray[np.float64], illegal: NDArray[np.bool_], failed: NDArray[np.bool_]) -> float | None:
    """The most that a cheat earns beyond the least that an honest failure does; None: one of the two is not there."""
    cheats, honest = totals[illegal & ~np.isnan(totals)], totals[failed & ~np.isnan(totals)]
    return float(cheats.max() - honest.min()) if cheats.size and honest.size else None


def _breaks(record: Record, rule: str) -> bool:
    return any(violation.rule == rule for violation in record.verdict.violations)


def _or_none(value: float) -> float | None:
    return None if np.isnan(value) else float(value)


def _names(values: list[str]) -> list[str]:
    names = [name.strip() for value in values for name in value.strip("[]").split(",") if name.strip()]
    return names or sorted(path.stem for path in (config_dir() / "reward").glob("*.yaml"))


def _load(name: str) -> Reward:
    path = config_dir() / "reward" / f"{name}.yaml"
    if not path.is_file():
        known = ", ".join(sorted(other.stem for other in path.parent.glob("*.yaml")))
        raise UserError(f"reward={name}: there is no such config; choose from {known}")
    return make_reward(OmegaConf.load(path))  # type: ignore[arg-type]


def _print(summary: dict[str, Any]) -> None:
    table = Table(title=f"{summary['records']} records, rewarded again")
    for column in ("reward", "mean", "sd", "left out", "silent groups", "rank", "sign", "best cheat"):
        table.add_column(column, justify="left" if column == "reward" else "right")
    for name, row in summary["rewards"].items():
        table.add_row(
            name,
            _figure(row["mean"]),
            _figure(row["sd"]),
            str(row["left_out"]),
            f"{row['silent_groups']:.0%}",
            _figure(row["rank"]),
            f"{row['sign']:.1%}",
            _figure(row["best_cheat"]),
        )
    console = make_console()
    console.print(table)
    for line in _cheats(summary):
        console.print(line, highlight=False)


def _cheats(summary: dict[str, Any]) -> Iterator[str]:
    rules = next(iter(summary["rewards"].values()))["paid_by_rule"]
    for rule in rules:
        paid = ", ".join(f"{name} {_figure(row['paid_by_rule'][rule])}" for name, row in summary["rewards"].items())
        yield f"{rule} earned on average: {paid}"


def _figure(value: float | None) -> str:
    return "–" if value is None else f"{value:.3f}"


def _parse(arguments: list[str]) -> argparse.Namespace:
    parser = Parser(
        prog="kernelrl reward",
        usage=USAGE,
        description="Compute rewards again from the records of a run.",
        epilog=EPILOG,
    )
    parser.add_argument("what", choices=["replay"], metavar="replay")
    parser.add_argument("words", nargs="+", metavar="RUN", help="the run's folder, and reward=[NAME,…]")
    parser.add_argument("--stage", default="grpo", help="whose records (default grpo)")
    parser.add_argument("--scale", choices=["none", "group", "batch"], default="none", help="of advantages")
    parser.add_argument("--references", type=Path, metavar="FILE", help="right kernels (columns task_id, kernel)")
    parser.add_argument("--json", action="store_true", help="print one JSON object and nothing else")
    return parser.parse_intermixed_args(arguments)
