"""Shaping reward: does the kernel run?"""

from kernelrl.candidate import Completion
from kernelrl.rewards import Context, reward
from kernelrl.verdict import Verdict


@reward("runs")
def runs(completion: Completion, verdict: Verdict, context: Context) -> float:
    """1 if the kernel ran to its end, whatever its outputs were, else 0."""
    return float(verdict.reached("ran"))
