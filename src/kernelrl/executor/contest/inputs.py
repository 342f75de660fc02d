"""Drawing of inputs by a task's own `get_inputs()`."""

from __future__ import annotations

import contextlib
import math
import random
from collections.abc import Iterator
from types import ModuleType
from typing import Any, Literal

import numpy as np
import torch

from kernelrl.executor import trees
from kernelrl.executor.api import Distribution
from kernelrl.executor.contest.drawing import Drawing, Further
from kernelrl.executor.contest.seeding import seed_torch

_ENDS = 4
"""See `_python_draws_ends`."""


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
        with drawing if keyed else contextlib.nullcontext():
            with _python_draws_ends(seed) if keyed and distribution != "task" else contextlib.nullcontext():
                return self._call(), drawing

    def draw_as_shown(self, seed: int) -> tuple[Any, ...]:
        """Inputs of the sizes that the task shows."""
        vars(self._module).update(self._shown)
        seed_torch(seed)
        _seed_others(seed)
        return self._call()

    def _call(self) -> tuple[Any, ...]:
        inputs: tuple[Any, ...] = trees.map_tensors(tuple(self._module.get_inputs()), torch.Tensor.cpu)
        return inputs


@contextlib.contextmanager
def _python_draws_ends(seed: int) -> Iterator[None]:
    """Of what is drawn by functions of `random`, one draw in `_ENDS` is the smallest or the largest that there is.

    So a flag that is seldom set is set, and an integer has the values at its limits.
    """
    chooser = random.Random(seed)
    own = random.random, random._inst._randbelow  # type: ignore[attr-defined]

    def draw(ends: tuple[Any, Any], value: Any) -> Any:
        return chooser.choice(ends) if chooser.randrange(_ENDS) == 0 else value

    def randbelow(count: int) -> int:
        return draw((0, count - 1), own[1](count))

    def uniform() -> float:
        return draw((0.0, math.nextafter(1.0, 0.0)), own[0]())

    random._inst._randbelow = randbelow  # type: ignore[attr-defined]
    random._inst.random = random.random = uniform  # type: ignore[attr-defined]
    try:
        yield
    finally:
        del random._inst._randbelow, random._inst.random  # type: ignore[attr-defined]
        random.random = own[0]


def _seed_others(seed: int) -> None:
    """Seed the generators beside PyTorch's."""
    random.seed(seed)
    np.random.seed(seed % 2**32)
