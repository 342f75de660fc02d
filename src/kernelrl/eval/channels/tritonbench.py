"""TritonBench-T (arXiv 2502.14752): call and execution accuracy of operators, speedup, similarity of code.

An operator of the benchmark is a file with several cases, each of them a task here, and passes where one kernel passes
in all of its cases. Where the cases of a file do not fit one signature, each is asked for by itself, and the operator
passes where the kernels of the same number all do. TritonBench measures similarity by CodeBLEU; here it is the reward
term `similarity`, BLEU on tokens, where the reward has it (`+reward.terms.similarity={weight:0}` and
`eval.references`).
"""

from __future__ import annotations

from collections.abc import Sequence

from kernelrl.eval.channels import by_program, mean
from kernelrl.eval.metrics import Figure, Settings
from kernelrl.records import Record
from kernelrl.task import Task


def accepts(task: Task) -> bool:
    """Whether it is `tritonbench-t/OPERATOR/CASE`, as `tasks=tritonbench` names it."""
    return task.id.startswith("tritonbench-t/") and task.id.count("/") == 2


def figures(samples_T: Sequence[Sequence[Record]], tasks: Sequence[Task], settings: Settings) -> dict[str, Figure]:
    """- `call_accuracy`: share of operators whose kernel runs in every case without an error.
    - `execution_accuracy`: share of operators whose kernel is right in every case.
    - `mean_speedup`: arithmetic mean of the speedups of the correct samples that were timed.
    - `similarity`: mean of the similarity to a known right kernel.
    """
    operators_T = [task.id.rpartition("/")[0] for task in tasks]
    return {
        "call_accuracy": by_program(operators_T, samples_T, lambda verdict: verdict.legal and verdict.reached("ran")),
        "execution_accuracy": by_program(operators_T, samples_T, lambda verdict: verdict.correct),
        "mean_speedup": mean(
            [
                [it.verdict.speedup.median for it in samples if it.verdict.correct and it.verdict.speedup]
                for samples in samples_T
            ]
        ),
        "similarity": mean(
            [[it.rewards["similarity"] for it in samples if "similarity" in it.rewards] for samples in samples_T]
        ),
    }
