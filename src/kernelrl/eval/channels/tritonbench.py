"""TritonBench-T (arXiv 2502.14752): call and execution accuracy of operators, speedup, similarity of code.

An operator of the benchmark is a file with several cases, each of them a task here, and passes where one kernel passes
in all of its cases. Where the cases of a file do not fit one signature, each is asked for by itself, and the operator
passes where the kernels of the same number all do.

What differs from the benchmark's scripts: a kernel has to be legal; execution accuracy is a share of all operators, not
of those that pass the call; and similarity, there CodeBLEU, is the reward term `similarity`, BLEU on tokens, where the
reward has it (`+reward.terms.similarity={weight:0}` and `eval.references`).
"""

from __future__ import annotations

from collections.abc import Sequence

from kernelrl.eval.figure import Figure, Settings, mean, samples_of_programs, share_of_programs
from kernelrl.records import Record
from kernelrl.task import Task

RATIOS = (0.1, 10.0)
"""Between which TritonBench believes a speedup."""


def accepts(task: Task) -> bool:
    """Whether it is `tritonbench-t/OPERATOR/CASE`, as `tasks=tritonbench` names it."""
    return task.id.startswith("tritonbench-t/") and task.id.count("/") == 2


def figures(samples_T: Sequence[Sequence[Record]], tasks: Sequence[Task], settings: Settings) -> dict[str, Figure]:
    """- `call_accuracy`: share of operators whose kernel runs in every case without an error.
    - `execution_accuracy`: share of operators whose kernel is right in every case.
    - `mean_speedup`: arithmetic mean, over the operators' kernels that are right in every case, of the reference's time
      for all cases over the kernel's (the benchmark's `2_efficiency.py`, with its limits of plausible ratios).
    - `similarity`: mean of the similarity to a known right kernel.
    """
    operators_T = [task.id.rpartition("/")[0] for task in tasks]
    return {
        "call_accuracy": share_of_programs(operators_T, samples_T, lambda it: it.legal and it.reached("ran")),
        "execution_accuracy": share_of_programs(operators_T, samples_T, lambda it: it.correct),
        "mean_speedup": _mean_speedup(operators_T, samples_T),
        "similarity": mean(
            [[it.rewards["similarity"] for it in samples if "similarity" in it.rewards] for samples in samples_T]
        ),
    }


def _mean_speedup(operators_T: Sequence[str], samples_T: Sequence[Sequence[Record]]) -> Figure:
    ratios_T: list[list[float]] = [[] for _ in operators_T]
    for first, samples in samples_of_programs(operators_T, samples_T).items():
        for verdicts in samples:
            times = [(it.reference_ms, it.candidate_ms) for it in verdicts if it is not None and it.correct]
            if len(times) == len(verdicts) and all(reference and candidate for reference, candidate in times):
                reference_ms, candidate_ms = (sum(filter(None, column)) for column in zip(*times, strict=True))
                if RATIOS[0] < (ratio := reference_ms / candidate_ms) < RATIOS[1]:
                    ratios_T[first].append(ratio)
    return mean(ratios_T)
