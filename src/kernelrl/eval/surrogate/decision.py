"""What to do with a candidate, given what a surrogate expects of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

MODEL = "surrogate.pickle"
"""File of a surrogate in its folder."""
Decision = Literal["judge", "abstain", "refuse"]


@dataclass(frozen=True)
class Prediction:
    """What is expected of one candidate."""

    compiled: float
    """Probability that it compiles and breaks no rule seen until then."""
    correct: float
    """Probability that it is right."""
    correct_most: float
    """That of the forest that thinks best of it."""
    novelty: float
    """Share of its words that no kernel of the fit has; 1 for a dialect of which the fit has none."""
    speedup: float | None
    """Median speedup, if it is right; None: the fit had too few times."""


@dataclass(frozen=True)
class Rule:
    """Refuse a candidate where every forest of the surrogate gives it less than `threshold`.

    Where the mean of the forests is below it and one of them is not, or the candidate is newer than what the surrogate
    was tested on, it abstains: the candidate is judged.
    """

    threshold: float
    max_novelty: float

    def __call__(self, prediction: Prediction) -> Decision:
        return self.decide(prediction.correct, prediction.correct_most, prediction.novelty)

    def decide(self, correct: float, correct_most: float, novelty: float) -> Decision:
        """The decision for the fields of a `Prediction`."""
        if correct >= self.threshold:
            return "judge"
        return "refuse" if correct_most < self.threshold and novelty <= self.max_novelty else "abstain"
