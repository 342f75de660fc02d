"""Evaluation through a strategy: each sample is a trajectory, and the best attempt of it counts.

What is recorded are all attempts, `eval/POLICY/TASK/SAMPLE/N`. Figures are made of one record per trajectory: its best
attempt, of all turns or of the turns up to some number.
"""

from __future__ import annotations

import logging
import random
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from kernelrl.console import track
from kernelrl.eval import metrics
from kernelrl.eval.figure import Settings
from kernelrl.executor import Executor
from kernelrl.policies.prompts import Message
from kernelrl.policies.protocol import Policy
from kernelrl.records import Ledger, Record
from kernelrl.rewards import Reward
from kernelrl.strategies import runner
from kernelrl.strategies.budget import Budget
from kernelrl.strategies.journal import Journal
from kernelrl.strategies.protocol import CODER, Problem, Strategy
from kernelrl.strategies.trajectory import best
from kernelrl.task import Task

PER_TURN = ("correct", "speedup", "speedup_all", "reward")
"""Figures that are given for each turn, beside pass@k."""

log = logging.getLogger(__name__)


def sample(
    strategy: Strategy,
    name: str,
    policy: Policy,
    executor: Executor,
    reward: Reward,
    problems: Sequence[Problem],
    ledger: Ledger,
    seed: int,
    batch_size: int,
) -> dict[str, Any]:
    """Fill the ledger of one policy with the attempts of all trajectories, or go on where that was interrupted.

    Args:
        name: of the policy, in the records.
        problems: one per trajectory.
        batch_size: trajectories that are worked on at a time.

    Returns:
        How many answers were there before, judged or not, the seconds that this took, and the earlier turns that were
        dropped.
    """
    started = time.monotonic()
    journal = Journal(_journal(ledger))
    kept = {record.id for record in ledger} | {entry.id for entry in journal}
    if ledger.skipped:
        log.warning("%s: %d torn or corrupt line(s) skipped; judging them again", ledger.folder, ledger.skipped)
    setting = runner.Setting(
        strategy=strategy,
        policies={CODER: policy},
        names={CODER: name},
        executor=executor,
        reward=reward,
        budget=Budget(),
        seed=seed,
        concurrency=batch_size,
        resumable=True,
    )
    num_correct = 0
    with track(len(problems), f"eval {name}") as progress:
        for outcome in runner.run(setting, problems, journal, ledger):
            num_correct += outcome.best is not None
            progress.advance(note=f"{num_correct} correct")
    cached = {entry.id for entry in journal if entry.answer.cached}
    return {
        "num_resumed": len(kept | cached),
        "seconds": round(time.monotonic() - started, 1),
        "dropped_turns": sum(problem.dropped for problem in problems),
    }


def make_problems(
    name: str, tasks: Sequence[Task], prompts: Mapping[str, list[Message]], dialect: str, samples: int, seed: int
) -> list[Problem]:
    """A problem per trajectory: `samples` for each task."""
    return [
        Problem(id, task, dialect, prompts[task.id], random.Random(f"{seed}/{id}"))
        for task in tasks
        for id in (f"eval/{name}/{task.id}/{number}" for number in range(samples))
    ]


def by_turn(records: Sequence[Record], tasks: Sequence[Task], settings: Settings) -> list[dict[str, Any]]:
    """Figures after each turn, of the best attempts so far; empty where nothing has turns."""
    turns = Counter(record.turn for record in records if record.turn is not None)
    found = []
    for turn in sorted(turns) if len(turns) > 1 else ():
        figures = metrics.summarize(best(records, turn), tasks, settings)["figures"]
        kept = {key: value for key, value in figures.items() if key in PER_TURN or key.startswith("pass@")}
        found.append({"turn": turn, "attempts": turns[turn], "figures": kept})
    return found


def _journal(ledger: Ledger) -> Path:
    return ledger.folder.parent / f"answers-{ledger.path.stem}.jsonl"
