"""MultiKernelBench (arXiv 2507.17773): compile@k, pass@k and speedup@k, overall and by category.

`pass@k` is a figure of every evaluation; the other two are estimated in the same way (Chen et al. 2021, eq. 1).
"""

from __future__ import annotations

from collections.abc import Sequence

from kernelrl.eval.figure import Figure, Settings, one_of_k
from kernelrl.eval.metrics import faster_than
from kernelrl.records import Record
from kernelrl.task import Task


def figures(samples_T: Sequence[Sequence[Record]], tasks: Sequence[Task], settings: Settings) -> dict[str, Figure]:
    """For each k of the settings:

    - `compile@k`: chance that one of k samples compiles.
    - `speedup_1@k`: chance that one of k samples is correct and faster than the reference.
    """
    verdicts_T = [[record.verdict for record in samples] for samples in samples_T]
    compiled_T = [[it.legal and it.reached("compiled") for it in verdicts] for verdicts in verdicts_T]
    return {
        f"{name}@{k}": one_of_k(passed_T, k)
        for name, passed_T in (("compile", compiled_T), ("speedup_1", faster_than(1, verdicts_T)))
        for k in settings.k
    }
