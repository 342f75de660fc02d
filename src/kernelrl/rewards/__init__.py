"""Rewards: what a verdict is worth. One file per reward, composed by config (`configs/reward`).

A reward is a function `(Completion, Verdict, Context, **parameters) -> float`, registered by `@reward(name)`. A run
composes several: `total = sum over terms of weight x value x product of the term's gates`, never below the
composition's `floor`, which is what cheats earn. Rewards read records, run nothing and know nothing of prompts, so they
can be recomputed from a ledger.
"""

from __future__ import annotations

import inspect
import math
from collections import defaultdict
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from functools import partial
from importlib import import_module
from pkgutil import iter_modules
from typing import Annotated, Any, get_type_hints

from omegaconf import DictConfig, OmegaConf
from pydantic import BaseModel, ConfigDict, Discriminator, Field, Tag, TypeAdapter, ValidationError, field_validator

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
    """Value of every term and gate before weighting."""
    plan: float = 0.0
    """What the tokens of the plan earn instead of those of the code, before its weight; a part of the total."""


Sample = tuple[Completion, Verdict]


@dataclass(frozen=True)
class Context:
    """What a reward may know beside the completion and its verdict."""

    group: Sequence[Sample] = ()
    """All completions of the same prompt, this one among them, and their verdicts; empty: not known."""
    progress: float = 1.0
    """Share of the training that is done, 0 to 1."""
    references: Sequence[str] = ()
    """Sources of kernels that are known to be right for the task; empty: none is known."""
    opinion: float | None = None
    """What a model that read the kernel thinks of it, 0 (no genuine kernel) to 1; None: it was not asked."""


ALONE = Context()

EXECUTION = frozenset(
    {"runs", "correct", "speedup", "tiers", "relative_speedup", "standardised_speedup", "coverage", "brevity", "memory"}
)
"""Rewards that cannot be known of a kernel that was compiled and not run: such a sample earns None."""
IN_COMPANY = frozenset({"relative_speedup", "standardised_speedup", "similarity", "judge"})
"""Rewards that say something only beside a group, known kernels or an opinion, see `Context`."""


Weight = Annotated[float, Field(ge=0, allow_inf_nan=False)]


class Schedule(BaseModel):
    """A weight that moves in a straight line over the progress of the training, and stays where it ends."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    start: Weight
    end: Weight
    until: float = Field(default=1.0, gt=0, le=1)
    """Share of the training after which it is `end`."""

    def at(self, progress: float) -> float:
        """The weight when that share of the training is done."""
        return self.start + (self.end - self.start) * min(progress / self.until, 1.0)


class Term(BaseModel):
    """One term of a composed reward; further keys are parameters of the reward function."""

    model_config = ConfigDict(frozen=True, extra="allow")

    weight: Annotated[
        Annotated[Weight, Tag("number")] | Annotated[Schedule, Tag("schedule")],
        Discriminator(lambda value: "number" if not isinstance(value, Mapping | Schedule) else "schedule"),
    ] = 1.0
    gates: tuple[str, ...] = ()
    """Names of rewards that multiply this term."""
    clip: tuple[float, float] | None = None
    """Bounds of the value before it is weighted; None: as it is."""

    @field_validator("clip")
    @classmethod
    def _is_range(cls, clip: tuple[float, float] | None) -> tuple[float, float] | None:
        if clip is not None and not clip[0] <= clip[1]:
            raise ValueError("give [low, high]")
        return clip

    def clipped(self, value: float) -> float:
        """The value within the term's bounds."""
        return value if self.clip is None else min(max(value, self.clip[0]), self.clip[1])

    def weight_at(self, progress: float) -> float:
        """Its weight when that share of the training is done."""
        return self.weight.at(progress) if isinstance(self.weight, Schedule) else self.weight


@dataclass(frozen=True)
class Plan:
    """What the tokens of the plan earn: `J = weight x J_plan + J_code`, each with group advantages of its own.

    Source: TritonRL (arXiv 2510.17891), hierarchical reward decomposition; its alpha is `weight`.
    """

    weight: float
    terms: dict[str, Term]


@dataclass(frozen=True)
class Reward:
    """A composed reward; picklable. Build it with `make_reward`."""

    name: str
    terms: dict[str, Term]
    measures: dict[str, Measure]
    """Reward functions of all terms and gates, parameters bound."""
    floor: float = 0.0
    """What a cheat earns; nothing earns less."""
    plan: Plan | None = None
    """What the tokens of the plan earn instead of `terms`; None: all tokens earn the same."""

    def __call__(self, completion: Completion, verdict: Verdict, context: Context = ALONE) -> Score:
        """Score a completion by its verdict.

        An illegal kernel earns exactly `floor` whatever the terms say, and nothing earns less: cheating never pays more
        than an honest failure. The one exception is a kernel that only breaks rules for which the composition's `rule`
        names a penalty.
        """
        if verdict.status == "infrastructure" or (verdict.status == "not_run" and EXECUTION & self.measures.keys()):
            return Score(total=None)
        parts = {name: measure(completion, verdict, context) for name, measure in self.measures.items()}
        for name, value in parts.items():
            if not math.isfinite(value):
                raise ValueError(f"reward {name} returned {value}; a reward is a finite number")
        if verdict.status == "illegal" and parts.get("rule", 0.0) <= 0:
            return Score(total=self.floor, parts=parts)
        total = max(_sum(self.terms, parts, context.progress), self.floor)
        if self.plan is None:
            return Score(total=total, parts=parts)
        plan = _sum(self.plan.terms, parts, context.progress)
        return Score(total=total + self.plan.weight * plan, parts=parts, plan=plan)

    def alone(self, completion: Completion, verdict: Verdict) -> Score:
        """Score a completion of whose group nothing is known; None where the reward is known only beside others."""
        return Score(total=None) if IN_COMPANY & self.measures.keys() else self(completion, verdict)

    def of_groups(
        self,
        samples: Sequence[Sample],
        groups: Sequence[Hashable],
        progress: float,
        references: Mapping[Any, Sequence[str]] | None = None,
        opinions: Sequence[float | None] | None = None,
    ) -> list[Score]:
        """Score completions together.

        Args:
            samples: N completions and their verdicts.
            groups: N keys; completions with the same key answer the same prompt.
            progress: share of the training that is done.
            references: key -> sources of right kernels for that prompt, where some are known.
            opinions: N opinions of a model (see `Context`), where one was asked.
        """
        members: defaultdict[Hashable, list[Sample]] = defaultdict(list)
        for key, sample in zip(groups, samples, strict=True):
            members[key].append(sample)
        return [
            self(*sample, Context(members[key], progress, (references or {}).get(key, ()), opinion))
            for key, sample, opinion in zip(groups, samples, opinions or [None] * len(samples), strict=True)
        ]


def _sum(terms: Mapping[str, Term], parts: Mapping[str, float], progress: float) -> float:
    return float(
        sum(
            term.weight_at(progress) * term.clipped(parts[name]) * math.prod(parts[gate] for gate in term.gates)
            for name, term in terms.items()
        )
    )


def make_reward(cfg: Mapping[str, Any] | DictConfig) -> Reward:
    """Compose a reward from its config: `{name, floor, terms: {reward name: {weight, gates, parameters...}}}`.

    `plan: {weight, terms}` gives the tokens before the kernel a reward of their own (see `Plan`).

    Raises:
        UserError: names the unknown reward or parameter, or the value that cannot be used.
    """
    settings: Any = OmegaConf.to_container(cfg, resolve=True) if isinstance(cfg, DictConfig) else cfg
    if not settings.get("terms"):
        raise UserError(f"reward {settings.get('name')!r} has no terms; give at least one of {', '.join(names())}")
    plan = settings.get("plan") or {"weight": 0.0, "terms": {}}
    terms, plan_terms = (
        {name: _make_term(name, options or {}) for name, options in part["terms"].items()} for part in (settings, plan)
    )
    if twice := terms.keys() & plan_terms.keys():
        raise UserError(f"reward.plan.terms.{min(twice)}: a reward is a term of the plan or of the code, not of both")
    measures = {name: _bind(name, term.model_extra or {}) for name, term in (terms | plan_terms).items()}
    for term in (terms | plan_terms).values():
        measures |= {gate: _bind(gate, {}) for gate in term.gates if gate not in measures}
    return Reward(
        name=settings.get("name", "unnamed"),
        terms=terms,
        measures=measures,
        floor=_finite("reward.floor", settings.get("floor", 0.0)),
        plan=Plan(_finite("reward.plan.weight", plan["weight"]), plan_terms) if plan_terms else None,
    )


def _finite(name: str, value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise UserError(f"{name}={value!r} is not a finite number")
    return float(value)


def _make_term(name: str, options: Mapping[str, Any]) -> Term:
    try:
        return Term.model_validate(options)
    except ValidationError as error:
        wrong = error.errors()[0]
        place = [part for part in wrong["loc"] if part not in ("number", "schedule")]
        where = ".".join(map(str, ("reward.terms", name, *place)))
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
