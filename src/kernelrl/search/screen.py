"""`search.filter=surrogate`: candidates that a surrogate expects to be wrong are not judged; what it saves and loses.

A share of what it refuses is judged all the same (`audit`), drawn by the draft's id: that is how the loss is measured.
All choices follow from the surrogate and the draft, so that a search that was killed makes the same ones again.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from pydantic import BaseModel, ConfigDict, Field
from rich.table import Table

from kernelrl.data.judged import Text, normalize
from kernelrl.eval.surrogate.decision import MODEL, Prediction
from kernelrl.records import digest
from kernelrl.strategies.protocol import Attempt, Draft, Problem
from kernelrl.strategies.runner import REFUSED, Outcome
from kernelrl.verdict import Verdict


class ScreenSettings(BaseModel):
    """The node `search.surrogate` of the config."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    folder: Path
    """Of the surrogate (`kernelrl surrogate`)."""
    max_loss: float = Field(gt=0, lt=1)
    """Share of the right candidates that may be refused."""
    audit: float = Field(gt=0, le=1)
    """Share of the refused candidates that are judged all the same."""

    @property
    def identity(self) -> dict[str, Any]:
        """What decides its choices."""
        return {"max_loss": self.max_loss, "audit": self.audit, "model": digest(self.folder / MODEL)}


class SurrogateScreen:
    """Refuses drafts by a surrogate.

    Raises:
        UserError: there is no surrogate in the folder, or one of other versions.
    """

    def __init__(self, settings: ScreenSettings):
        from kernelrl.eval.surrogate.model import Surrogate  # scikit-learn: seconds that no other search waits for

        self._settings = settings
        self._surrogate = Surrogate.load(settings.folder)
        self._rule = self._surrogate.unseen.rule(settings.max_loss)

    def refusals(self, drafts: Sequence[tuple[Problem, Draft]]) -> list[str | None]:
        """Why each is not judged; None: it is, because it may be right, or to measure the loss."""
        return [
            _say(prediction) if self._refuses(prediction) and not self._is_audited(draft.id) else None
            for (_, draft), prediction in zip(drafts, self._predict(drafts), strict=True)
        ]

    def report(self, outcomes: Iterable[Outcome]) -> dict[str, Any]:
        """What it saved and what it lost, from what became of the audited ones.

        - `refused_right`: share of the refused candidates that are right, of the `audited` ones, with its exact 95 %
          interval (Clopper and Pearson 1934); null: none was audited.
        - `lost`: right candidates that were not judged, as many as that share says.
        - `saved_seconds`: of the executor, at what an audited one took; null: none was audited.
        - `brier`: of the probability to be right, over all that were judged; null: none was predicted and judged.
        """
        pairs = [(outcome.problem, attempt) for outcome in outcomes for attempt in outcome.attempts]
        predictions = self._predict([(problem, attempt.draft) for problem, attempt in pairs])
        known = [(attempt, it) for (_, attempt), it in zip(pairs, predictions, strict=True) if it is not None]
        decided = [(attempt, self._rule(prediction)) for attempt, prediction in known]
        refused = [attempt for attempt, decision in decided if decision == "refuse"]
        unjudged = [attempt for attempt in refused if attempt.verdict.protocol == REFUSED]
        audited = [attempt.verdict for attempt in refused if _is_known(attempt)]
        right = sum(verdict.correct for verdict in audited)
        share = None
        if audited:
            from scipy.stats import binomtest  # here, as in `stats.mean_interval`

            interval = binomtest(right, len(audited)).proportion_ci(0.95)
            share = {"value": right / len(audited), "low": float(interval.low), "high": float(interval.high)}
        judged = [(attempt, prediction) for attempt, prediction in known if _is_known(attempt)]
        return {
            "max_loss": self._settings.max_loss,
            "threshold": self._rule.threshold,
            "candidates": len(known),
            "abstained": sum(decision == "abstain" for _, decision in decided),
            "refused": len(refused),
            "not_judged": len(unjudged),
            "audited": len(audited),
            "refused_right": share,
            "lost": None if share is None else {name: value * len(unjudged) for name, value in share.items()},
            "saved_seconds": float(np.mean([_seconds(it) for it in audited])) * len(unjudged) if audited else None,
            "brier": float(np.mean([(it.correct - attempt.verdict.correct) ** 2 for attempt, it in judged]))
            if judged
            else None,
        }

    def _predict(self, drafts: Sequence[tuple[Problem, Draft]]) -> list[Prediction | None]:
        """A prediction per draft; None: it holds no kernel, which the executor finds out for nothing."""
        sources = [draft.completion.source for _, draft in drafts]
        with_kernel = [index for index, source in enumerate(sources) if source is not None]
        texts = [
            Text(normalize(drafts[index][0].task.source), drafts[index][0].dialect, sources[index] or "")
            for index in with_kernel
        ]
        found: dict[int, Prediction] = dict(zip(with_kernel, self._surrogate.predict(texts), strict=True))
        return [found.get(index) for index in range(len(drafts))]

    def _refuses(self, prediction: Prediction | None) -> bool:
        return prediction is not None and self._rule(prediction) == "refuse"

    def _is_audited(self, id: str) -> bool:
        drawn = int.from_bytes(hashlib.sha256(f"audit\0{id}".encode()).digest()[:8], "big") / 2**64
        return drawn < self._settings.audit


def make_table(found: Mapping[str, Any]) -> Table:
    """The report of a search's filter, for the terminal and the page."""
    table = Table(title="surrogate as a filter: what it saved, and what it lost", title_justify="left")
    for column, _ in cells(found):
        table.add_column(column, justify="right")
    table.add_row(*(cell for _, cell in cells(found)))
    return table


def cells(found: Mapping[str, Any]) -> list[tuple[str, str]]:
    """(column, cell) of the report."""
    counts = ("candidates", "abstained", "refused", "audited", "not_judged")
    return [
        *((name.replace("_", " "), str(found[name])) for name in counts),
        ("right of the audited, %", _interval(found["refused_right"], 100)),
        ("right ones not judged", _interval(found["lost"], 1)),
        ("executor saved, s", "–" if found["saved_seconds"] is None else f"{found['saved_seconds']:.1f}"),
        ("Brier score", "–" if found["brier"] is None else f"{found['brier']:.3f}"),
    ]


def _interval(estimate: Mapping[str, float] | None, scale: float) -> str:
    if estimate is None:
        return "–"
    value, low, high = (scale * estimate[name] for name in ("value", "low", "high"))
    return f"{value:.1f} [{low:.1f}, {high:.1f}]"


def _say(prediction: Prediction | None) -> str:
    assert prediction is not None
    return f"Not judged: the surrogate gives it a chance of {prediction.correct:.1%} to be right."


def _is_known(attempt: Attempt) -> bool:
    return attempt.verdict.status != "infrastructure"


def _seconds(verdict: Verdict) -> float:
    """Time of the executor, without waiting (in seconds)."""
    return max(verdict.seconds - (verdict.spent.waiting if verdict.spent else 0.0), 0.0)
