"""Rule reward: is it a genuine kernel?"""

from kernelrl.candidate import Completion
from kernelrl.rewards import reward
from kernelrl.verdict import Verdict


@reward("rule")
def rule(completion: Completion, verdict: Verdict) -> float:
    """1 if the completion holds a kernel that breaks no rule of its dialect, else 0.

    Source: AutoTriton (arXiv 2507.05687), the rule-based half of `R = is_triton x tests_pass`.
    """
    return float(verdict.legal)
