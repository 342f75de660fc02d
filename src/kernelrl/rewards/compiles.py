"""Shaping reward: does the kernel build?"""

from kernelrl.candidate import Completion
from kernelrl.rewards import Context, reward
from kernelrl.verdict import Verdict


@reward("compiles")
def compiles(completion: Completion, verdict: Verdict, context: Context) -> float:
    """1 if the kernel was built, whatever came of running it, else 0.

    Source: the first stage of QiMeng-Kernel's compile, correct, faster (arXiv 2511.20100).
    """
    return float(verdict.reached("compiled"))
