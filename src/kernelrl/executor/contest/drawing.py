"""Hidden values at the place where a task draws its inputs.

`get_inputs()` runs while the random operators of PyTorch give values of another distribution. What the task makes of
its draws keeps its structure: triangular, symmetric, positive definite, one-hot, ±1, sorted or masked.
"""

from __future__ import annotations

from typing import Any, Literal

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from kernelrl.executor.api import Distribution
from kernelrl.executor.contest.distributions import redraw

_UNIT = ("rand", "rand_like")
_UNBOUNDED = tuple("randn randn_like normal normal_ exponential_ log_normal_ cauchy_ _standard_gamma".split())
_INTEGERS = ("randint", "randint_like", "random_")


class Drawing(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """While it is active, draws have values of the named distribution, within the range of the operator that draws.

    Permutations, Bernoulli draws and samples without replacement stay as they are: their values are a structure. A
    seed that the task sets itself, or a generator of its own, is without effect.

    Args:
        distribution: its name; `task`: the task's own.
        seed: of the values.
    """

    def __init__(self, distribution: Distribution | Literal["task"], seed: int):
        super().__init__()  # type: ignore[no-untyped-call]
        self._distribution = distribution
        self._state = torch.Generator().manual_seed(seed).get_state()
        self._generator = torch.Generator().manual_seed(seed)
        self.num_drawn = 0
        """Number of draws seen."""
        self.num_redrawn = 0
        """Number of draws that have other values than the task's own."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if torch.Tag.nondeterministic_seeded not in func.tags:
            return func(*args, **kwargs)
        torch.set_rng_state(self._state)
        drawn = func(*args, **{name: None if name == "generator" else value for name, value in kwargs.items()})
        self._state = torch.get_rng_state()
        if not isinstance(drawn, torch.Tensor):
            return drawn
        self.num_drawn += 1
        if self._distribution == "task":
            return drawn
        name = func._schema.name.removeprefix("aten::")
        if name in _UNBOUNDED:
            new = redraw(self._distribution, drawn, self._generator)
        elif name in _INTEGERS:
            new = redraw(self._distribution, drawn.long(), self._generator)
        elif name in _UNIT:
            new = redraw(self._distribution, drawn, self._generator, support=(0.0, 1.0))
        elif name in ("uniform_", "uniform"):
            low = args[1] if len(args) > 1 else kwargs.get("from", 0.0)
            high = args[2] if len(args) > 2 else kwargs.get("to", 1.0)
            support = float(low), float(high)
            new = redraw(self._distribution, drawn, self._generator, support=support)
        else:
            return drawn
        if new is not None:
            self.num_redrawn += 1
            drawn.copy_(new)
        return drawn

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False  # the decorator that keeps torch.compile out would import it, which takes a second
