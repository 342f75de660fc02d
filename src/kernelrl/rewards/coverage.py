"""Attribution reward: whose work was it?"""

from kernelrl.candidate import Completion
from kernelrl.rewards import Context, reward
from kernelrl.verdict import Verdict


@reward("coverage")
def coverage(completion: Completion, verdict: Verdict, context: Context) -> float:
    """Share of a correct kernel's work that its own kernels do, 0 to 1; 0 where it is wrong or this is not known.

    Source: Dr. Kernel (arXiv 2602.05885), the ratio PR of `R = C + C min(speedup, 3) + C PR`.
    """
    return (verdict.coverage or 0.0) if verdict.correct else 0.0
