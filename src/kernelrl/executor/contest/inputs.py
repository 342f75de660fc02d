"""Drawing of inputs by a task's own `get_inputs()`."""

from __future__ import annotations

import contextlib
import random
from types import ModuleType
from typing import Any, Literal

import numpy as np
import torch

from kernelrl.executor import trees
from kernelrl.executor.api import Distribution
from kernelrl.executor.contest.drawing import Drawing, Further
from kernelrl.executor.contest.leaving import Leaving
from kernelrl.executor.contest.python_draws import at_their_ends
from kernelrl.executor.contest.seeding import seed_torch


class Inputs:
    """Draws the inputs of one task.

    Args:
        module: of the task.
    """

    def __init__(self, module: ModuleType):
        self._module = module
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
        namespace = vars(self._module)
        for name in sizes:
            self._shown.setdefault(name, namespace[name])
        namespace.update(self._shown | sizes)
        seed_torch(seed)
        _seed_others(seed if other_seed is None else other_seed)
        drawing = Drawing(distribution, seed, further)
        nothing = contextlib.nullcontext()
        ends = at_their_ends(self._module, seed) if further.python_ends else nothing
        with drawing if keyed else nothing, Leaving(drawing.plain.leave), ends:
            return self._call(), drawing

    def draw_as_shown(self, seed: int) -> tuple[Any, ...]:
        """Inputs of the sizes that the task shows."""
        vars(self._module).update(self._shown)
        seed_torch(seed)
        _seed_others(seed)
        return self._call()

    def _call(self) -> tuple[Any, ...]:
        given = self._module.get_inputs()
        if isinstance(given, torch.Tensor | dict):
            kind = type(given).__name__
            raise TypeError(f"get_inputs() must return a list of what forward takes, and returns a {kind}")
        inputs: tuple[Any, ...] = trees.map_tensors(tuple(given), torch.Tensor.cpu)
        return inputs


def _seed_others(seed: int) -> None:
    """Seed the generators beside PyTorch's."""
    random.seed(seed)
    np.random.seed(seed % 2**32)
