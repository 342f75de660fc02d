"""Speed reward: how much faster than the reference?"""

import math
from typing import Annotated, Literal

from pydantic import Field

from kernelrl.candidate import Completion
from kernelrl.rewards import reward
from kernelrl.verdict import Verdict


@reward("speedup")
def speedup(
    completion: Completion,
    verdict: Verdict,
    *,
    bound: Literal["low", "median"] = "low",
    cap: Annotated[float, Field(gt=1)] = 8.0,
) -> float:
    """`clip(log s / log cap, 0, 1)`: 0 at the reference's speed or slower, 1 at `cap` times its speed or faster.

    The logarithm makes each doubling worth the same; the cap keeps one lucky sample from outweighing a group, as
    `min(speedup, 3)` does in Dr. Kernel (arXiv 2602.05885). A speedup that was not measured earns 0.

    Args:
        bound: which number of the 95 % interval s is. `low` pays only for what timing noise cannot explain.
        cap: speedup that earns 1; a ratio above 1.
    """
    if verdict.speedup is None:
        return 0.0
    s = verdict.speedup.low if bound == "low" else verdict.speedup.median
    return min(max(math.log(s) / math.log(cap), 0.0), 1.0) if s > 0 else 0.0
