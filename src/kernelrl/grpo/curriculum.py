"""Which tasks come next while a policy trains: those that it solves sometimes, and not always or never.

A task's pass rate decides whether it is drawn: one between `low` and `high` is; one above is solved, one below hard,
and both rest for a number of steps before they are tried again. Beside that, tasks may come by difficulty, which is the
length of the reasonings that they took (ConCuR, arXiv 2510.07356, section 6), and evenly from all categories. The state
is part of every checkpoint.
"""

from __future__ import annotations

import json
import random
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, PositiveFloat, PositiveInt, model_validator

from kernelrl.records import write_json

STATE = "curriculum.json"
"""In the folder of a checkpoint."""
DIFFICULTIES = ("easy", "medium", "hard")


class CurriculumSettings(BaseModel):
    """The node `curriculum` of the config (`configs/curriculum`)."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    low: float = Field(ge=0, le=1)
    high: float = Field(ge=0, le=1)
    """Pass rates between which a task is drawn, ends included."""
    memory: float = Field(ge=0, lt=1)
    """Share of the earlier pass rate in the new one: 0 counts the last group alone."""
    hard_rests: PositiveInt
    solved_rests: PositiveInt
    """Steps for which a task below, and above, is left out."""
    by_difficulty: PositiveFloat | None = Field(le=1)
    """Share of the training by which all tasks may come: easy ones alone in the first third of it, those of medium
    difficulty too in the second. None: all come from the start."""
    by_category: bool
    """Whether a category is drawn first, each as likely, and then a task of it."""

    @model_validator(mode="after")
    def _is_range(self) -> CurriculumSettings:
        if self.low > self.high:
            raise ValueError(f"low={self.low} is above high={self.high}")
        return self


@dataclass(frozen=True)
class Seen:
    """What is known of a task."""

    pass_rate: float
    step: int
    """At which it was tried last."""


class Curriculum:
    """Draws tasks, and hears what became of them.

    Args:
        rows: of `tasks_train.parquet`, with `task_id`, `difficulty` and `category`.
    """

    def __init__(self, settings: CurriculumSettings, rows: Sequence[Mapping[str, Any]], seed: int):
        self.settings = settings
        self.seen: dict[str, Seen] = {}
        """By task id."""
        self._rows = rows
        self._seed = seed
        self._step = -1
        self._num_draws = 0
        """Draws at that step so far."""

    def choose(self, step: int, progress: float, num: int) -> list[int]:
        """Numbers of the rows of the next tasks: those that are ready at random, then those that rested longest.

        Args:
            progress: share of the training that is done, 0 to 1.
            num: how many; a task is drawn again only where there are not so many.
        """
        self._num_draws = self._num_draws + 1 if step == self._step else 0
        self._step = step
        rng = random.Random(f"curriculum/{self._seed}/{step}/{self._num_draws}")
        allowed = [index for index in range(len(self._rows)) if self._is_due(index, progress)]
        allowed = allowed or list(range(len(self._rows)))
        ready = [index for index in allowed if self._is_ready(index, step)]
        drawn = self._by_category(ready, num, rng) if self.settings.by_category else _sample(ready, num, rng)
        resting = sorted(set(allowed) - set(ready), key=lambda index: (self.seen[self._id(index)].step, index))
        drawn += resting[: num - len(drawn)]
        return (drawn * -(-num // len(drawn)))[:num]

    def observe(self, step: int, ids: Sequence[str], solved: Sequence[bool]) -> None:
        """Count attempts, which the executor has judged.

        Args:
            ids: of the task of each attempt.
            solved: whether its kernel was right.
        """
        found: defaultdict[str, list[bool]] = defaultdict(list)
        for id, right in zip(ids, solved, strict=True):
            found[id].append(right)
        for id, results in found.items():
            rate, memory = fmean(results), self.settings.memory
            if id in self.seen:
                rate = memory * self.seen[id].pass_rate + (1 - memory) * rate
            self.seen[id] = Seen(rate, step)

    def figures(self) -> dict[str, float]:
        """Shares of the tasks, for the trainer's log."""
        rates = [seen.pass_rate for seen in self.seen.values()]
        total, settings = len({row["task_id"] for row in self._rows}), self.settings
        hard, solved = sum(rate < settings.low for rate in rates), sum(rate > settings.high for rate in rates)
        return {
            "curriculum/new": 1 - len(rates) / total,
            "curriculum/hard": hard / total,
            "curriculum/solved": solved / total,
        }

    def save(self, checkpoint: Path) -> None:
        """Write the state into the folder of a checkpoint."""
        write_json(checkpoint / STATE, {id: asdict(seen) for id, seen in self.seen.items()})

    def load(self, checkpoint: Path) -> None:
        """Go on from a checkpoint."""
        self.seen = {id: Seen(**each) for id, each in json.loads((checkpoint / STATE).read_text()).items()}

    def _id(self, index: int) -> str:
        return str(self._rows[index]["task_id"])

    def _is_due(self, index: int, progress: float) -> bool:
        """Whether tasks of its difficulty may come yet; one whose difficulty is not known always may."""
        difficulty, until = self._rows[index]["difficulty"], self.settings.by_difficulty
        if until is None or difficulty is None:
            return True
        return DIFFICULTIES.index(difficulty) <= progress / until * len(DIFFICULTIES)

    def _is_ready(self, index: int, step: int) -> bool:
        seen, settings = self.seen.get(self._id(index)), self.settings
        if seen is None or settings.low <= seen.pass_rate <= settings.high:
            return True
        rest = settings.hard_rests if seen.pass_rate < settings.low else settings.solved_rests
        return step - seen.step >= rest

    def _by_category(self, ready: Sequence[int], num: int, rng: random.Random) -> list[int]:
        left: defaultdict[str, list[int]] = defaultdict(list)
        for index in rng.sample(ready, len(ready)):
            left[str(self._rows[index]["category"])].append(index)
        drawn: list[int] = []
        while left and len(drawn) < num:
            category = rng.choice(sorted(left))
            drawn.append(left[category].pop())
            if not left[category]:
                del left[category]
        return drawn


def _sample(ready: Sequence[int], num: int, rng: random.Random) -> list[int]:
    return rng.sample(ready, min(num, len(ready)))
