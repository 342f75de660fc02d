"""How strategies rank attempts."""

from __future__ import annotations

from kernelrl.verdict import Verdict

CORRECT = 0.3
"""What being right is worth by itself."""


def score(verdict: Verdict) -> float:
    """`0.3 correct + speedup x correct`, the score of a turn in Kevin (arXiv 2507.11948).

    Here the speedup is the lower bound of its 95 % interval: the best of many noisy times is mostly luck. A right
    kernel that was not timed has 0.3, so that it ranks above wrong ones and below timed ones.
    """
    if not verdict.correct:
        return 0.0
    return CORRECT + (verdict.speedup.low if verdict.speedup else 0.0)
