"""What changes a completion's reward beside the kernel itself: its length, and how much of the work its kernel does.

Both are choices of `grpo.adjust`. The ledger keeps the composed reward as it is, and these beside it, in `rewards`.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from statistics import fmean

from pydantic import BaseModel, ConfigDict, Field, PositiveInt, model_validator
from trl.rewards.other_rewards import get_soft_overlong_punishment

from kernelrl.verdict import Verdict


class Adjust(BaseModel):
    """The node `grpo.adjust` of the config."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    overlong: PositiveInt | None = None
    """Tokens before the longest completion from which on its reward falls in a straight line, by 1 in all (DAPO's soft
    overlong punishment, arXiv 2503.14476, equation 13; TRL's function); None: it does not."""
    coverage: tuple[float, float] | None = Field(default=None)
    """Profiling-based rejection sampling (Dr. Kernel, arXiv 2602.05885): a right kernel that does the share PR of the
    work is learnt from with probability `clip((PR - low) / (high - low), 0, 1)`; None: always."""

    @model_validator(mode="after")
    def _is_range(self) -> Adjust:
        if self.coverage is not None and not 0 <= self.coverage[0] < self.coverage[1] <= 1:
            raise ValueError("coverage: give [low, high] with 0 <= low < high <= 1")
        return self


@dataclass(frozen=True)
class Adjusted:
    """What becomes of one reward."""

    reward: float | None
    """None: left out."""
    parts: dict[str, float] = field(default_factory=dict)
    """`overlong`: what was added; `kept`: 0 where the sample was rejected, else 1."""


def adjusted(
    reward: float | None, verdict: Verdict, num_tokens: int, max_tokens: int, settings: Adjust, name: str
) -> Adjusted:
    """A reward with the changes that the settings ask for.

    Args:
        num_tokens: of the completion.
        max_tokens: at which a completion is cut off.
        name: seeds the draw: the same sample is always kept, or never.
    """
    if reward is None:
        return Adjusted(None)
    parts: dict[str, float] = {}
    if settings.overlong is not None:
        punish = get_soft_overlong_punishment(max_tokens, settings.overlong)
        parts["overlong"] = punish(completion_ids=[range(num_tokens)])[0]
        reward += parts["overlong"]
    if settings.coverage is not None and verdict.correct and verdict.coverage is not None:
        low, high = settings.coverage
        kept = random.Random(name).random() < (verdict.coverage - low) / (high - low)
        parts["kept"] = float(kept)
        if not kept:
            return Adjusted(None, parts)
    return Adjusted(reward, parts)


def adjustment_figures(changed: Sequence[Adjusted]) -> dict[str, float]:
    """Means over a batch of what was changed, for the trainer's log."""
    names = sorted({name for each in changed for name in each.parts})
    return {f"adjust/{name}": fmean(each.parts[name] for each in changed if name in each.parts) for name in names}
