"""Draws by Python's own `random` that have the values which they seldom have."""

from __future__ import annotations

import contextlib
import random
from collections.abc import Iterator
from types import ModuleType
from typing import Any

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
