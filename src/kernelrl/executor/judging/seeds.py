"""The seeds of all that is drawn for a task."""

from __future__ import annotations

import hashlib
import random
import secrets

import torch

from kernelrl.executor.api import ExecutorSettings
from kernelrl.executor.judging.arena import Draw
from kernelrl.task import Task

KERNELBENCH_SEED = 42
_TRIES = 20
"""Sizes that are drawn in search of one that is no multiple of eight."""


class Seeds:
    """Seeds that a candidate cannot guess from the task or from each other.

    Args:
        task: the task.
        settings: seeds, draws, number of hidden shapes.
        secret: makes the seeds impossible to guess for who knows the task and the settings.
    """

    def __init__(self, task: Task, settings: ExecutorSettings, secret: str):
        self._task = task
        self._settings = settings
        self._secret = secret
        self.name_of_draws = settings.draws or secrets.token_hex(4)

    def renew(self) -> bool:
        """From now on all draws are others, unless the settings name them; whether they are."""
        if self.are_renewed:
            self.name_of_draws = secrets.token_hex(4)
        return self.are_renewed

    @property
    def of_construction(self) -> int:
        """Seed of the model's construction: the candidate's is built from the same, and so has the same weights."""
        return KERNELBENCH_SEED if self._settings.seeds == "kernelbench" else self._settings.seed

    def of(self, draw: Draw, purpose: str = "inputs") -> int:
        """Seed of a draw."""
        if self._settings.seeds == "kernelbench" and purpose == "inputs":
            return _kernelbench_seed(draw.index)
        parts = (self._secret, self._settings.seed, self._task.digest, self.name_of_draws, draw, purpose)
        return int.from_bytes(hashlib.sha256(repr(parts).encode()).digest()[:6], "big")

    @property
    def are_renewed(self) -> bool:
        """Whether `renew` makes others of them."""
        return self._settings.draws is None

    @property
    def largest_sizes(self) -> dict[str, int]:
        """Of hidden shapes; empty: there are none."""
        return {name: high for name, (_, high) in self._task.shape_ranges.items()} if self._settings.shapes else {}

    def hidden_sizes(self) -> list[dict[str, int]]:
        """Sizes within the task's `SHAPE_RANGES`.

        Of five in turn each dimension is the smallest in one of the first three, the largest in one, and anything in
        one: by itself, or (in one of three such turns) together with the others. In the fourth every dimension is
        anything that is no multiple of eight, if there is such a size, and in the fifth anything small.
        """
        chooser = random.Random(self.of(Draw(0), "shapes"))
        count = self._settings.shapes if self._task.shape_ranges else 0
        found: list[dict[str, int]] = []
        for _ in range(0, count, 5):
            order = [0, 1, 2]
            together = chooser.randrange(3) == 0
            turn: list[dict[str, int]] = [{} for _ in range(5)]
            for name, (low, high) in self._task.shape_ranges.items():
                if not together:
                    chooser.shuffle(order)
                drawn = (chooser.randint(low, high) for _ in range(_TRIES))
                with_rest = next((size for size in drawn if size % 8), low)
                small = low - 1 + int((high - low + 2) ** chooser.random())
                ends = (low, high, chooser.randint(low, high))
                sizes = [*(ends[place] for place in order), with_rest, small]
                for each, size in zip(turn, sizes, strict=True):
                    each[name] = size
            found += turn
        return found[:count]


def _kernelbench_seed(index: int) -> int:
    """KernelBench's seed of trial `index`: the draws of a generator seeded with 42 (its `eval_kernel_against_ref`)."""
    generator = torch.Generator().manual_seed(KERNELBENCH_SEED)
    return int(torch.randint(0, 2**32 - 1, (index + 1,), generator=generator)[index])
