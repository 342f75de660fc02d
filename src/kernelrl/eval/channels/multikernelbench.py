"""MultiKernelBench (arXiv 2507.17773): compile@k, pass@k and speedup@k, overall and by category.

`pass@k` is a figure of every evaluation; the other two are estimated in the same way (Chen et al. 2021, eq. 1).
"""

from __future__ import annotations

from collections.abc import Sequence

from kernelrl.eval.channels import mean
from kernelrl.eval.metrics import Figure, Settings
from kernelrl.records import Record
from kernelrl.stats import is_fast, pass_at_k
from kernelrl.task import Task


def figures(samples_T: Sequence[Sequence[Record]], tasks: Sequence[Task], settings: Settings) -> dict[str, Figure]:
    """For each k of the settings:

    - `compile@k`: chance that one of k samples compiles.
    - `speedup_1@k`: chance that one of k samples is correct and faster than the reference.
    """
    verdicts_T = [[record.verdict for record in samples] for samples in samples_T]
    compiled_T = [[it.legal and it.reached("compiled") for it in verdicts] for verdicts in verdicts_T]
    fast_T = [
        is_fast([it.correct for it in verdicts], [it.speedup.median if it.speedup else None for it in verdicts], 1)
        for verdicts in verdicts_T
    ]
    return {
        f"{name}@{k}": mean([[pass_at_k(len(it), sum(it), k)] if len(it) >= k else [] for it in passed_T])
        for name, passed_T in (("compile", compiled_T), ("speedup_1", fast_T))
        for k in settings.k
    }
