"""Rule reward: is it a genuine kernel?"""

from collections.abc import Mapping
from typing import Annotated

from pydantic import Field

from kernelrl.candidate import Completion
from kernelrl.rewards import Context, reward
from kernelrl.verdict import Verdict

Penalty = Annotated[float, Field(gt=0, le=1)]
NO_PENALTIES: Mapping[str, Penalty] = {}


@reward("rule")
def rule(
    completion: Completion, verdict: Verdict, context: Context, *, penalties: Mapping[str, Penalty] = NO_PENALTIES
) -> float:
    """1 if the completion holds a kernel that breaks no rule of its dialect, else 0.

    A rule in `penalties` is no hard zero: each kind of violation that it names costs so much of the 1.

    Source: AutoTriton (arXiv 2507.05687), the rule-based half of `R = is_triton x tests_pass`.

    Args:
        penalties: rule -> what breaking it costs, 0 to 1.
    """
    broken = {violation.rule for violation in verdict.violations}
    if broken and broken <= penalties.keys():
        return max(0.0, 1.0 - sum(penalties[name] for name in broken))
    return float(verdict.legal)
