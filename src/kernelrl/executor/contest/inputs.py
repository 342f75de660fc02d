"""Drawing of inputs by a task's own `get_inputs()`."""

from __future__ import annotations

import contextlib
import math
import random
from types import ModuleType
from typing import Any, Literal

import numpy as np
import torch

from kernelrl.executor import trees
from kernelrl.executor.api import Distribution
from kernelrl.executor.contest.drawing import Drawing, Further
from kernelrl.executor.contest.leaving import Leaving
from kernelrl.executor.contest.python_draws import at_their_ends, reseeded
from kernelrl.executor.contest.seeding import seed_torch
from kernelrl.executor.contest.text_module import import_again

MORE_DRAWS = 32
"""By so much more hidden inputs may draw than the task's own."""


class Inputs:
    """Draws the inputs of one task.

    Where the task keeps what it has drawn (a data set at the level of its module, or one that its first inputs make),
    it runs anew for each inputs, so that these are others each time.

    Args:
        module: of the task.
        draws: what it has drawn when it was imported.
    """

    def __init__(self, module: ModuleType, draws: bool):
        self._module = module
        self._keeps = draws
        self._num_drawn: int | None = None  # for the first inputs
        self._shown: dict[str, Any] = {}  # the module's constants as written, of those that have had other values

    def draw(
        self,
        seed: int,
        sizes: dict[str, int],
        distribution: Distribution | Literal["task"],
        keyed: bool,
        further: Further,
        other_seed: int | None = None,
    ) -> tuple[tuple[Any, ...], Drawing]:
        """Inputs, and what was drawn for them; see `Contestant.do_inputs`."""
        for name in sizes:
            self._shown.setdefault(name, vars(self._module)[name])
        seed_torch(seed)
        _seed_others(seed if other_seed is None else other_seed)
        most = math.inf if self._num_drawn is None or distribution == "task" else MORE_DRAWS * (1 + self._num_drawn)
        drawing = Drawing(distribution, seed, further, most)
        nothing = contextlib.nullcontext()
        with drawing if keyed else nothing, Leaving(drawing.plain.leave):
            module = import_again(self._module) if self._keeps else self._module
            vars(module).update(self._shown | sizes)
            ends = at_their_ends(module, seed) if further.python_ends else nothing
            with ends, nothing if other_seed is None else reseeded(module, other_seed):
                inputs = _call(module)
        if self._num_drawn is None:
            self._num_drawn = drawing.num_drawn
        self._keeps |= drawing.num_drawn < self._num_drawn
        return inputs, drawing

    def draw_as_shown(self, seed: int) -> tuple[Any, ...]:
        """Inputs of the sizes that the task shows."""
        seed_torch(seed)
        _seed_others(seed)
        module = import_again(self._module) if self._keeps else self._module
        vars(module).update(self._shown)
        return _call(module)


def _call(module: ModuleType) -> tuple[Any, ...]:
    given = module.get_inputs()
    if isinstance(given, torch.Tensor | dict):
        kind = type(given).__name__
        raise TypeError(f"get_inputs() must return a list of what forward takes, and returns a {kind}")
    inputs: tuple[Any, ...] = trees.map_tensors(tuple(given), torch.Tensor.cpu)
    return inputs


def _seed_others(seed: int) -> None:
    """Seed the generators beside PyTorch's."""
    random.seed(seed)
    np.random.seed(seed % 2**32)
