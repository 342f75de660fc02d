"""Speed rewards: how much faster than the reference?"""

import math
from collections.abc import Sequence
from statistics import fmean, median, pstdev
from typing import Annotated, Literal

from pydantic import Field

from kernelrl.candidate import Completion
from kernelrl.rewards import Context, reward
from kernelrl.verdict import Verdict

Bound = Literal["low", "median"]


def measured(verdict: Verdict, bound: Bound) -> float | None:
    """The speedup of a correct kernel, or the lower end of its 95 % interval; None: wrong, or not timed."""
    if not verdict.correct or verdict.speedup is None:
        return None
    return verdict.speedup.low if bound == "low" else verdict.speedup.median


def rounded(speedup: float) -> float:
    """To two decimals, towards 1: 1.118 -> 1.11, 0.992 -> 1.00. What noise may have made earns nothing.

    Source: CUDA-L1 (arXiv 2507.14111), conservative rounding.
    """
    hundredths = round(speedup * 100, 6)
    return (math.floor(hundredths) if speedup >= 1 else math.ceil(hundredths)) / 100


@reward("speedup")
def speedup(
    completion: Completion,
    verdict: Verdict,
    context: Context,
    *,
    form: Literal["log", "raw", "rounded"] = "log",
    bound: Bound = "low",
    cap: Annotated[float, Field(gt=1)] | None = 8.0,
    dead_band: Annotated[float, Field(ge=0)] = 0.0,
) -> float:
    """How fast a correct kernel is; 0 for one that is wrong or was not timed.

    `log`: `clip(log(s) / log(cap), 0, 1)`: 0 at the reference's speed or slower, 1 at `cap` times its speed or faster;
    each doubling is worth the same. `raw`: `min(s, cap)`, as in Kevin (arXiv 2507.11948; no cap) and Dr. Kernel (arXiv
    2602.05885; cap 3). `rounded`: `min(s, cap)` of s rounded towards 1 (CUDA-L1, arXiv 2507.14111).

    Args:
        form: the function of s.
        bound: which number of the 95 % interval s is. `low` pays only for what timing noise cannot explain.
        cap: speedup above which nothing more is paid; None: `raw` and `rounded` have no cap.
        dead_band: s is the level of the kernel's group, see `level`; 0: its own.
    """
    s = measured(verdict, bound)
    if s is None or s <= 0:
        return 0.0
    s = level(s, [each for _, each in context.group], bound, dead_band)
    if form == "log":
        return min(max(math.log(s) / math.log(cap or 8.0), 0.0), 1.0)
    return min(rounded(s) if form == "rounded" else s, cap or math.inf)


def level(s: float, group: Sequence[Verdict], bound: Bound, dead_band: float) -> float:
    """The smallest speedup of the group from which measurement does not tell this one apart; never more than s.

    Speedups are taken in order. The slowest makes the first level; one that exceeds its level by more than the dead
    band makes the next. All of a level are paid alike, so that a group of equally fast kernels earns equal rewards, and
    nothing is learnt from the noise of their times. The order of the kernels stays as it was.

    The band is `dead_band` times the typical width of a 95 % interval in the group, `median(log(high / low))`: 3.92
    standard errors of one kernel. Of eight equally fast kernels, the fastest and the slowest measurement are further
    apart than that in one group of ten (studentized range, Tukey 1949). The median keeps one kernel with noisy times
    from hiding the differences between all others.

    Args:
        s: of one kernel of the group, above 0.
        group: its verdicts, this kernel's among them; those that are wrong or not timed do not count.
    """
    timed = [each.speedup for each in group if each.correct and each.speedup is not None and each.speedup.low > 0]
    if not dead_band or not timed:
        return s
    band = math.exp(dead_band * median(math.log(each.high / each.low) for each in timed))
    base = math.inf
    for other in sorted(each.low if bound == "low" else each.median for each in timed):
        if other > s:
            break
        if base == math.inf or other > base * band:
            base = other
    return min(base, s)


@reward("relative_speedup")
def relative_speedup(
    completion: Completion,
    verdict: Verdict,
    context: Context,
    *,
    bound: Bound = "median",
    k: Annotated[float, Field(gt=0)] = 1.0,
) -> float:
    """`clip(log(s / m), -k, k)` of a correct kernel, m the median of the speedups of its group's correct kernels.

    The correct kernels of a group earn about 0 in the mean, however fast all of them are. So beside `correct` it makes
    being right worth about the same in every group, and what tells a fast kernel from a slow one is not drowned by what
    tells a right kernel from a wrong one. A wrong kernel, one that was not timed and the only one of its group earn 0.
    With a weight above `1 / k` a slow right kernel would earn no more than a wrong one.

    Args:
        bound: which number of the 95 % interval a speedup is.
        k: where it is clipped.
    """
    group = [s for _, each in context.group if (s := measured(each, bound)) is not None and s > 0]
    s = measured(verdict, bound)
    if s is None or s <= 0 or not group:
        return 0.0
    return min(max(math.log(s / median(group)), -k), k)


@reward("standardised_speedup")
def standardised_speedup(
    completion: Completion,
    verdict: Verdict,
    context: Context,
    *,
    bound: Bound = "median",
    k: Annotated[float, Field(gt=0)] = 1.5,
) -> float:
    """`clip((r - mean) / std, -k, k)` of the rounded speedups r in the group; a wrong kernel has r = 0.

    Source: CUDA-L1 (arXiv 2507.14111), smoothed reward with k = 1.5. In a group of one, or where all are alike, nothing
    is told from anything: 0.

    Args:
        bound: which number of the 95 % interval the speedup is.
        k: where it is clipped.
    """
    group = [rounded(measured(each, bound) or 0.0) for _, each in context.group if each.status != "infrastructure"]
    spread = pstdev(group) if len(group) > 1 else 0.0
    if spread == 0:
        return 0.0
    return min(max((rounded(measured(verdict, bound) or 0.0) - fmean(group)) / spread, -k), k)


@reward("tiers")
def tiers(
    completion: Completion,
    verdict: Verdict,
    context: Context,
    *,
    wrong: float = -1.0,
    right: float = 1.0,
    faster: float = 2.0,
    fastest: float = 3.0,
    margin: Annotated[float, Field(ge=0)] = 0.05,
    bound: Bound = "median",
) -> float:
    """A step for each thing achieved: wrong, right, faster than eager, faster than eager and `torch.compile`.

    Source: CUDA-Agent (2026), rewards {-1, 1, 2, 3} with a margin of 5 %. The last step needs
    `executor.compile_baseline=default`; where `torch.compile` was not measured, nobody reaches it.

    Args:
        wrong, right, faster, fastest: the steps.
        margin: share by which a kernel must be faster.
        bound: which number of the 95 % interval decides.
    """
    if not verdict.correct:
        return wrong
    s, compiled = measured(verdict, bound), verdict.speedup_compiled
    if s is None or s <= 1 + margin:
        return right
    against_compiled = None if compiled is None else compiled.low if bound == "low" else compiled.median
    return fastest if against_compiled is not None and against_compiled > 1 + margin else faster
