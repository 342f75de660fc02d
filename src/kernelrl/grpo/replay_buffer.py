"""A buffer of groups in which a hard task was solved: they are learnt from again where a group teaches nothing.

A group whose rewards are all alike has no advantages. Such a place in a batch goes to a group of the buffer, whose
log-probabilities were noted when it was written: the loss corrects and clips their ratio, as for any old sample.
Each rank has a buffer of its own, which is part of every checkpoint.
"""

from __future__ import annotations

import random
from itertools import chain
from pathlib import Path
from typing import Any

import torch
from pydantic import BaseModel, ConfigDict, Field, PositiveInt

from kernelrl.grpo.batches import Batch, join
from kernelrl.training import ranks


class ReplaySettings(BaseModel):
    """The node `grpo.groups.replay` of the config."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    capacity: PositiveInt = 32
    """Groups that are kept on each rank; the oldest goes."""
    solved: float = Field(default=0.5, gt=0, le=1)
    """Largest share of a group's kernels that are right for the task to count as hard."""
    max_age: PositiveInt = 20
    """Steps after which a group is too old to be learnt from."""


class ReplayBuffer:
    """Groups, the oldest first."""

    def __init__(self, settings: ReplaySettings, seed: int):
        self.settings = settings
        self._seed = seed
        self._groups: list[tuple[int, Batch]] = []
        """With the step at which it was written."""

    def __len__(self) -> int:
        return len(self._groups)

    def add(self, step: int, group: Batch, pass_rate: float) -> None:
        """Keep a group, if its task was hard and solved."""
        if 0 < pass_rate <= self.settings.solved:
            self._groups.append((step, {name: values.detach().cpu() for name, values in group.items()}))
            del self._groups[: -self.settings.capacity]

    def draw(self, step: int, num: int) -> tuple[int, Batch | None]:
        """Up to `num` different groups of earlier steps: how many, and their rows; None: there is none."""
        young = [group for written, group in self._groups if 0 < step - written <= self.settings.max_age]
        rng = random.Random(f"replay/{self._seed}/{step}/{ranks.rank()}")
        drawn = rng.sample(young, min(num, len(young)))
        return len(drawn), join(drawn) if drawn else None

    def save(self, checkpoint: Path) -> None:
        """Write this rank's buffer into the folder of a checkpoint."""
        torch.save(self._groups, checkpoint / _file(ranks.rank()))

    def load(self, checkpoint: Path) -> None:
        """Go on from a checkpoint, also of another number of ranks: then each takes its share of the buffers."""
        files = sorted(checkpoint.glob(_file("*")))
        mine = [file for file in files if int(file.stem.split("-")[1]) % ranks.num_ranks() == ranks.rank()]
        found: list[list[tuple[int, dict[str, Any]]]] = [torch.load(file, weights_only=True) for file in mine]
        self._groups = sorted(chain(*found), key=lambda each: each[0])


def _file(rank: int | str) -> str:
    return f"replay-{rank}.pt"
