"""Execution reward: are the outputs right?"""

from kernelrl.candidate import Completion
from kernelrl.rewards import Context, reward
from kernelrl.verdict import Verdict


@reward("correct")
def correct(completion: Completion, verdict: Verdict, context: Context, *, partial: bool = False) -> float:
    """1 if the kernel is legal and its outputs were right in every trial, else 0.

    Source: AutoTriton (arXiv 2507.05687), the execution half of `R = is_triton x tests_pass`. Kevin (arXiv 2507.11948)
    reports that partial credit hurts.

    Args:
        partial: a legal kernel that is wrong earns the share of its trials in which its outputs were right.
    """
    if partial and verdict.status == "incorrect" and verdict.trials:
        return 1.0 - len({error.trial for error in verdict.errors}) / verdict.trials
    return float(verdict.correct)
