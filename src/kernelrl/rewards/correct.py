"""Execution reward: are the outputs right?"""

from kernelrl.candidate import Completion
from kernelrl.rewards import reward
from kernelrl.verdict import Verdict


@reward("correct")
def correct(completion: Completion, verdict: Verdict) -> float:
    """1 if the kernel is legal and its outputs were right in every trial, else 0.

    Source: AutoTriton (arXiv 2507.05687), the execution half of `R = is_triton x tests_pass`.
    """
    return float(verdict.correct)
