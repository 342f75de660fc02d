"""How good a surrogate is on programs that it had not seen, as JSON."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import asdict
from typing import Any

import numpy as np
from scipy.stats import spearmanr
from sklearn.metrics import roc_auc_score

from kernelrl.eval.calibration import brier, calibration_error, reliability
from kernelrl.eval.surrogate.model import TARGETS, Unseen

LOSSES = (0.01, 0.02, 0.05, 0.1)


def describe(unseen: Unseen) -> dict[str, Any]:
    """Figures of each target, of the speedup, and of the filter at several `max_loss`.

    - `brier`, `ece`: of the calibrated probabilities; `brier_base`: of the base rate as the only prediction.
    - `auroc`: chance that a candidate with the outcome has a higher probability than one without.
    - `speedup`: `factor`, the median of by how much a prediction is off; `spearman`, the rank correlation; null where
      too few were timed.
    """
    targets = {}
    for name in TARGETS:
        p_N, y_N = getattr(unseen, f"p_{name}_N"), getattr(unseen, f"{name}_N")
        targets[name] = {
            "base_rate": float(y_N.mean()),
            "brier": brier(p_N, y_N),
            "brier_base": brier(np.full(len(y_N), y_N.mean()), y_N),
            "ece": calibration_error(p_N, y_N),
            "auroc": float(roc_auc_score(y_N, p_N)),
            "reliability": [asdict(each) for each in reliability(p_N, y_N)],
        }
    return {
        "examples": len(unseen.correct_N),
        "targets": targets,
        "speedup": _speedup(unseen),
        "filter": [_filter(unseen, loss) for loss in LOSSES],
    }


def _speedup(unseen: Unseen) -> dict[str, float | int] | None:
    if unseen.log_speedup_M.size < 2:
        return None
    off_M = np.abs(unseen.log_speedup_M - unseen.predicted_M)
    rank = float(spearmanr(unseen.log_speedup_M, unseen.predicted_M).statistic)
    known = {} if math.isnan(rank) else {"spearman": rank}
    return {"timed": int(off_M.size), "factor": math.exp(float(np.median(off_M)))} | known


def _filter(unseen: Unseen, max_loss: float) -> dict[str, float]:
    """What the filter would have done to these candidates."""
    rule = unseen.rule(max_loss)
    decisions = [rule.decide(*each) for each in zip(unseen.p_correct_N, unseen.most_N, unseen.novelty_N, strict=True)]
    refused_N = np.array([decision == "refuse" for decision in decisions])
    counts = Counter(decisions)
    return {
        "max_loss": max_loss,
        "threshold": rule.threshold,
        "refused": counts["refuse"] / len(decisions),
        "abstained": counts["abstain"] / len(decisions),
        "lost": float(refused_N[unseen.correct_N].mean()),
    }
