"""Proficiency in high-performance computing: how good a model's first ten suggestions for a kernel are.

Source: Godoy et al. 2023, "Evaluation of OpenAI Codex for HPC Parallel Programming Models Kernel Generation".
"""

from __future__ import annotations

from collections.abc import Sequence

from kernelrl.eval.figure import Figure, Settings, mean
from kernelrl.records import Record
from kernelrl.task import Task

MIN_SAMPLES = 10
"""Suggestions that the metric is of: of one alone, a right kernel would be an expert's."""


def figures(samples_T: Sequence[Sequence[Record]], tasks: Sequence[Task], settings: Settings) -> dict[str, Figure]:
    """`proficiency`: mean of the `score` over the kernels of which ten samples have a verdict."""
    enough_T = [len(samples) >= MIN_SAMPLES for samples in samples_T]
    scores_T = [
        [score(samples[:MIN_SAMPLES])] if enough else [] for samples, enough in zip(samples_T, enough_T, strict=True)
    ]
    return {"proficiency": mean(scores_T)}


def score(suggestions: Sequence[Record]) -> float:
    """The metric of one kernel.

    0 non-knowledge: no suggestion is right. 0.25 novice: one is, beside some in another programming model (here: that
    break a rule, or are no kernel). 0.5 learner: one is, beside wrong ones, all in the model that was asked for.
    0.75 proficient: all are right. 1 expert: all are the same kernel, and it is right.
    """
    verdicts = [record.verdict for record in suggestions]
    if not any(verdict.correct for verdict in verdicts):
        return 0.0
    if not all(verdict.legal for verdict in verdicts):
        return 0.25
    if not all(verdict.correct for verdict in verdicts):
        return 0.5
    return 1.0 if len({verdict.candidate for verdict in verdicts}) == 1 else 0.75
