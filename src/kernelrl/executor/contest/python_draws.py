"""Draws by Python's own `random` that have the values which they seldom have, and generators with other seeds."""

from __future__ import annotations

import contextlib
import random
from collections.abc import Iterator
from types import ModuleType
from typing import Any

import numpy as np

ONE_IN = 3
"""Of so many draws one is at an end of its range."""
FIRST = 16
"""Draws of one call of `get_inputs()` that may be: those of whole lists stay typical."""
SMALLEST = 2.0**-20
"""The end of `random()` below, and its distance to 1 above: a float32 that is made of it is within the range, too."""


@contextlib.contextmanager
def at_their_ends(module: ModuleType, seed: int) -> Iterator[None]:
    """While this is active, some draws by functions of `random` are the smallest or the largest that they can be.

    So a flag that is seldom set is set, and an integer has the values at its limits. `getrandbits` and generators that
    the task makes itself draw as they do.

    Args:
        module: the task's, which may have `random.random` under a name of its own.
        seed: of what is chosen.
    """
    chooser = random.Random(seed)
    generator: Any = random._inst
    number, integer = random.random, generator._randbelow
    names = [name for name, value in vars(module).items() if value is number]
    left = FIRST

    def draw(drawn: Any, *ends: Any) -> Any:
        nonlocal left
        left -= 1
        return chooser.choice(ends) if left >= 0 and chooser.randrange(ONE_IN) == 0 else drawn

    generator.random = lambda: draw(number(), SMALLEST, 1.0 - SMALLEST)
    generator._randbelow = lambda count: draw(integer(count), 0, count - 1)
    random.random = generator.random
    vars(module).update(dict.fromkeys(names, generator.random))
    try:
        yield
    finally:
        del generator.random, generator._randbelow
        random.random = number
        vars(module).update(dict.fromkeys(names, number))


@contextlib.contextmanager
def reseeded(module: ModuleType, salt: int) -> Iterator[None]:
    """While this is active, the task's own seeds of NumPy's and Python's generators are others.

    So it shows what these have drawn, though the seeds are drawn by PyTorch.

    Args:
        module: the task's, which may have the functions under names of its own.
        salt: changes them.
    """
    make = random.Random

    def salted(given: tuple[Any, ...]) -> int:
        return make(repr((given, salt))).getrandbits(32)

    class OfNumpy(np.random.RandomState):
        def __init__(self, *given: Any):
            super().__init__(salted(given))

    class OfPython(random.Random):
        def __init__(self, *given: Any):
            super().__init__(salted(given))

    default_rng, seed_numpy, seed_python = np.random.default_rng, np.random.seed, random.seed
    before: list[tuple[Any, str, Any, Any]] = [
        (np.random, "default_rng", default_rng, lambda *given: default_rng(salted(given))),
        (np.random, "seed", seed_numpy, lambda *given: seed_numpy(salted(given))),
        (np.random, "RandomState", np.random.RandomState, OfNumpy),
        (random, "seed", seed_python, lambda *given: seed_python(salted(given))),
        (random, "Random", random.Random, OfPython),
    ]
    replaced = {id(function): other for _, _, function, other in before}
    names = {name: value for name, value in vars(module).items() if id(value) in replaced}
    for owner, name, _, other in before:
        setattr(owner, name, other)
    vars(module).update({name: replaced[id(value)] for name, value in names.items()})
    try:
        yield
    finally:
        for owner, name, function, _ in before:
            setattr(owner, name, function)
        vars(module).update(names)
