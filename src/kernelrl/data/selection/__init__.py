"""Selection: which verified triples become training rows. One config for each selector (`configs/selection`).

A selector is a function `(Pool, **parameters) -> Selection`, registered by `@selector(name)`. It reads stored verdicts
and runs nothing, so another selection of the same proposals judges nothing again.
"""

from __future__ import annotations

import inspect
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from importlib import import_module
from pkgutil import iter_modules
from typing import Any, Literal, NamedTuple, get_type_hints

from omegaconf import DictConfig
from pydantic import TypeAdapter, ValidationError

from kernelrl.configs import to_dict
from kernelrl.errors import UserError
from kernelrl.task import Task


class Measured(NamedTuple):
    """A speedup over the reference: the median, and the lower bound of its interval."""

    median: float
    low: float


@dataclass(frozen=True, slots=True)
class Triple:
    """A task, the reasoning and the kernel, with a `correct` verdict. The texts stay on disk: the pool reads them."""

    index: int
    """Row in the table of proposals: the order in which they were made."""
    task_id: str
    category: str
    """Of the task."""
    dialect: str
    tokens: int
    """Length of the reasoning."""
    speedup: Measured | None
    """None: not measured."""
    teacher: str = ""
    level: str | None = None
    """How far the teacher optimised the kernel, in its own words; None: it makes no levels."""

    def speedup_or_zero(self, bound: Literal["median", "low"]) -> float:
        """A figure to rank by: what was not measured comes last."""
        return 0.0 if self.speedup is None else float(getattr(self.speedup, bound))


@dataclass(frozen=True)
class Pool:
    """What a selector chooses from."""

    triples: Sequence[Triple]
    """In order of the tasks, and of the teachers' proposals for each."""
    seed: int
    tasks: Mapping[str, Task]
    """By id; quick where they are asked for in order of the triples, as the kernels are."""
    kernels: Mapping[int, str]
    """By index of the triple."""

    @cached_property
    def questions(self) -> list[list[Triple]]:
        """The triples by what was asked: a task in a dialect."""
        found: defaultdict[tuple[str, str], list[Triple]] = defaultdict(list)
        for triple in self.triples:
            found[triple.task_id, triple.dialect].append(triple)
        return list(found.values())

    def of_best_levels(self) -> Pool:
        """Without the kernels beside which the same teacher wrote a better one, of another level, for the same
        question: one prompt must not ask for a slow kernel as much as for a fast one."""
        best: dict[tuple[str, str, str], str | None] = {}
        for triple in self.triples:  # a teacher's best level comes first
            best.setdefault((triple.task_id, triple.dialect, triple.teacher), triple.level)
        kept = [each for each in self.triples if best[each.task_id, each.dialect, each.teacher] == each.level]
        return replace(self, triples=kept)


@dataclass(frozen=True)
class Selection:
    """What a selector chose."""

    chosen: dict[str, list[Triple]]
    """Criterion -> the triples that it chose; no triple twice."""
    tasks: frozenset[str] | None = None
    """Ids of the tasks that reinforcement learning keeps; None: all."""

    def __len__(self) -> int:
        return sum(map(len, self.chosen.values()))


Select = Callable[[Pool], Selection]
Choose = Callable[..., Selection]


@dataclass(frozen=True)
class _Selector:
    function: Choose
    needs_speedup: bool


_selectors: dict[str, _Selector] = {}


def selector(name: str, *, needs_speedup: bool = False) -> Callable[[Choose], Choose]:
    """Register a function as the selector of that name. Its keyword parameters can be set in the config."""

    def register(function: Choose) -> Choose:
        _selectors[name] = _Selector(function, needs_speedup)
        return function

    return register


def names() -> list[str]:
    """Names of all selectors that the modules of this folder register."""
    for module in iter_modules(__path__):
        import_module(f"{__name__}.{module.name}")
    return sorted(_selectors)


def make_selector(cfg: DictConfig | dict[str, Any], timing: bool) -> Select:
    """The selector that `cfg.name` names, with the config's other keys as its parameters.

    Args:
        cfg: where it has a key `like` (the config of another selector) and its `num_rows` is null, as many rows are
            chosen as that selector would choose: what an ablation needs. Where its key `levels` is `best`, it chooses
            among each teacher's best kernels (`Pool.of_best_levels`); `all`, the default, is for selectors by speed.
        timing: whether the kernels' speedups were measured.

    Raises:
        UserError: unknown selector or parameter, a value that cannot be used, or no speedups where it needs them.
    """
    settings = to_dict(cfg) if isinstance(cfg, DictConfig) else dict(cfg)
    name, like, levels = settings.pop("name", None), settings.pop("like", None), settings.pop("levels", "all")
    if name not in names():
        raise UserError(f"selection.name={name!r} is not known; choose one of {', '.join(names())}")
    if _selectors[name].needs_speedup and not timing:
        raise UserError(
            f"selection {name} needs speedups, and curate.timing=false measures none; set curate.timing=true, or "
            f"choose one of {', '.join(other for other in names() if not _selectors[other].needs_speedup)}"
        )
    if levels not in ("best", "all"):
        raise UserError(f"selection.levels={levels!r} is not known; choose best or all")
    function = _selectors[name].function
    _check_parameters(name, function, settings)
    if like is None or settings.get("num_rows") is not None:
        return lambda pool: function(pool.of_best_levels() if levels == "best" else pool, **settings)
    model = make_selector(like, timing)
    return lambda pool: function(pool, **settings | {"num_rows": len(model(pool))})


def _check_parameters(name: str, function: Choose, settings: dict[str, Any]) -> None:
    parameters = inspect.signature(function).parameters.values()
    known = [parameter.name for parameter in parameters if parameter.kind is parameter.KEYWORD_ONLY]
    types = get_type_hints(function, include_extras=True)
    for key, value in settings.items():
        if key not in known:
            raise UserError(f"selection {name} has no parameter {key!r}; it has {', '.join(known) or 'none'}")
        try:
            TypeAdapter(types[key]).validate_python(value)
        except ValidationError as error:
            raise UserError(f"selection.{key}={value!r}: {error.errors()[0]['msg']}") from None
