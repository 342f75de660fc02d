"""Rewards: what a verdict is worth. One file per reward, composed by config (`configs/reward`).

A reward is a function `(Completion, Verdict, **parameters) -> float` in [0, 1], registered by `@reward(name)`. A run
composes several: `total = sum over terms of weight x value x product of the term's gates`. Rewards read records, run
nothing and know nothing of prompts, so they can be recomputed from a ledger.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from functools import partial
from importlib import import_module
from pkgutil import iter_modules
from typing import Any, get_type_hints

from omegaconf import DictConfig, OmegaConf
from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from kernelrl.candidate import Completion
from kernelrl.errors import UserError
from kernelrl.verdict import Verdict

Measure = Callable[..., float]

_measures: dict[str, Measure] = {}


def reward(name: str) -> Callable[[Measure], Measure]:
    """Register a function as the reward of that name. Its keyword parameters can be set in the config."""

    def register(measure: Measure) -> Measure:
        _measures[name] = measure
        return measure

    return register


def names() -> list[str]:
    """Names of all rewards that the modules of this folder register."""
    for module in iter_modules(__path__):
        import_module(f"{__name__}.{module.name}")
    return sorted(_measures)


@dataclass(frozen=True)
class Score:
    """What one completion earned."""

    total: float | None
    """The composed reward; None: the executor learnt nothing (status `infrastructure`), so leave the sample out."""
    parts: dict[str, float] = field(default_factory=dict)
    """Value of every term and gate before weighting, in [0, 1]."""


EXECUTION = frozenset({"runs", "correct", "speedup"})
"""Rewards that cannot be known of a kernel that was compiled and not run: such a sample earns None."""


class Term(BaseModel):
    """One term of a composed reward; further keys are parameters of the reward function."""

    model_config = ConfigDict(frozen=True, extra="allow")

    weight: float = Field(default=1.0, ge=0, allow_inf_nan=False)
    gates: tuple[str, ...] = ()
    """Names of rewards that multiply this term."""


@dataclass(frozen=True)
class Reward:
    """A composed reward; picklable. Build it with `make_reward`."""

    name: str
    terms: dict[str, Term]
    measures: dict[str, Measure]
    """Reward functions of all terms and gates, parameters bound."""

    def __call__(self, completion: Completion, verdict: Verdict) -> Score:
        """Score a completion by its verdict.

        An illegal kernel earns exactly 0 whatever the terms say, and nothing earns less: cheating never pays more than
        an honest failure.
        """
        if verdict.status == "infrastructure" or (verdict.status == "not_run" and EXECUTION & self.measures.keys()):
            return Score(total=None)
        parts = {name: measure(completion, verdict) for name, measure in self.measures.items()}
        for name, value in parts.items():
            if not 0 <= value <= 1:
                raise ValueError(f"reward {name} returned {value}; a reward lies in [0, 1]")
        if verdict.status == "illegal":
            return Score(total=0.0, parts=parts)
        total = sum(
            term.weight * parts[name] * math.prod(parts[gate] for gate in term.gates)
            for name, term in self.terms.items()
        )
        return Score(total=float(total), parts=parts)


def make_reward(cfg: Mapping[str, Any] | DictConfig) -> Reward:
    """Compose a reward from its config: `{name: ..., terms: {reward name: {weight, gates, parameters...}}}`.

    Raises:
        UserError: names the unknown reward or parameter, or the value that cannot be used.
    """
    settings: Any = OmegaConf.to_container(cfg, resolve=True) if isinstance(cfg, DictConfig) else cfg
    if not settings.get("terms"):
        raise UserError(f"reward {settings.get('name')!r} has no terms; give at least one of {', '.join(names())}")
    terms = {name: _make_term(name, options or {}) for name, options in settings["terms"].items()}
    measures = {name: _bind(name, term.model_extra or {}) for name, term in terms.items()}
    for term in terms.values():
        measures |= {gate: _bind(gate, {}) for gate in term.gates if gate not in measures}
    return Reward(name=settings.get("name", "unnamed"), terms=terms, measures=measures)


def _make_term(name: str, options: Mapping[str, Any]) -> Term:
    try:
        return Term.model_validate(options)
    except ValidationError as error:
        wrong = error.errors()[0]
        where = ".".join(map(str, ("reward.terms", name, *wrong["loc"])))
        raise UserError(f"{where}={wrong['input']!r}: {wrong['msg']}") from None


def _bind(name: str, parameters: Mapping[str, Any]) -> Measure:
    if name not in names():
        raise UserError(f"reward {name!r} is not known{_suggest(name, names())}")
    measure = _measures[name]
    known = [p.name for p in inspect.signature(measure).parameters.values() if p.kind is p.KEYWORD_ONLY]
    types = get_type_hints(measure, include_extras=True)
    for parameter, value in parameters.items():
        if parameter not in known:
            raise UserError(f"reward {name} has no parameter {parameter!r}{_suggest(parameter, known)}")
        try:
            TypeAdapter(types[parameter]).validate_python(value)
        except ValidationError as error:
            raise UserError(f"reward.terms.{name}.{parameter}={value!r}: {error.errors()[0]['msg']}") from None
    return partial(measure, **parameters) if parameters else measure


def _suggest(word: str, known: list[str]) -> str:
    close = get_close_matches(word, known, n=1)
    return f"; did you mean {close[0]!r}?" if close else f"; choose one of: {', '.join(known) or 'none'}"
