"""Surrogate execution (SURGE, arXiv 2502.11167): the policy predicts what the executor will say of a kernel.

SURGE asks for a program's output and counts exact matches. Here the output is the verdict, of which the policy gives
the probability to be `correct`; so beside the matches there is whether its probabilities are true. No kernel is run:
the verdict of a sample says whether the prediction, at one half, is right (`correct`), wrong (`incorrect`) or missing.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import numpy as np

from kernelrl.candidate import Completion
from kernelrl.eval.calibration import signed_gaps
from kernelrl.eval.figure import Figure, Settings, mean
from kernelrl.records import Record
from kernelrl.task import Task
from kernelrl.verdict import Verdict, Violation

_ANSWER = re.compile(
    r"""^\W*CORRECT\W*?
    (?:p[a-z]*\W*?)?  # p = …, probability: …
    ([-−]?(?:\d+\.?\d*|\.\d+)(?:e[-−+]?\d+)?)
    \s*(%|per\ ?cent\b)?
    [^\d\n]*$  # words, but no other number
    """,
    re.MULTILINE | re.IGNORECASE | re.VERBOSE,
)


def read_prediction(text: str) -> float | None:
    """The probability of a completion's last line `CORRECT: p`; None: there is none, or it is no probability.

    Words may follow the number, e.g. `CORRECT: 0.9 (likely)`; a second number, as in `70/100`, makes it no prediction.
    """
    found = _ANSWER.findall(Completion.parse(text).answer)
    if not found:
        return None
    number, percent = found[-1]
    value = float(number.replace("−", "-")) / (100 if percent else 1)
    return value if 0 <= value <= 1 else None


def accepts(task: Task) -> bool:
    """Whether it is a candidate whose verdict can be predicted, `surge/NUMBER`, as `tasks=surge` names it."""
    return task.id.startswith("surge/")


def judge(task: Task, completion: Completion) -> Verdict:
    """The verdict on a prediction, in place of the executor's."""
    assert task.given is not None  # tasks=surge
    predicted = read_prediction(completion.text)
    about = {
        "task_id": task.id,
        "candidate": None,
        "dialect": task.given.dialect,
        "device": "none",
        "protocol": "surge",
    }
    found: dict[str, Any] = {"status": "correct", "stage": "correct"}
    if predicted is None:
        missing = Violation(rule="no_prediction", evidence="no last line `CORRECT: p` with p from 0 to 1")
        found = {"status": "illegal", "stage": "none", "violations": (missing,)}
    elif (predicted >= 0.5) != _is_right(task):
        said = f"predicted {predicted:g}, and the kernel is {task.given.status}"
        found = {"status": "incorrect", "stage": "ran", "feedback": said}
    return Verdict.model_validate(about | found)


def figures(samples_T: Sequence[Sequence[Record]], tasks: Sequence[Task], settings: Settings) -> dict[str, Figure]:
    """- `answered`: share of samples with a prediction.
    - `accuracy`: share of samples whose prediction, at one half, is right; a missing one is wrong.
    - `brier`: mean squared difference between probability and outcome, of the samples with one.
    - `brier_base`: the same, if every prediction were the share of right kernels among these.
    - `ece`: their expected calibration error, over ten bins; its interval takes the bins' signs as they are.
    """
    predicted_T = [[read_prediction(record.completion) for record in samples] for samples in samples_T]
    right_T = [_is_right(task) for task in tasks]
    known_T = [[p for p in predicted if p is not None] for predicted in predicted_T]
    p_N = np.array([p for known in known_T for p in known])
    y_N = np.array([float(right) for known, right in zip(known_T, right_T, strict=True) for _ in known])
    base_N = (y_N - y_N.mean()) ** 2 if y_N.size else y_N
    return {
        "answered": mean([[p is not None for p in predicted] for predicted in predicted_T], share=True),
        "accuracy": mean([[record.verdict.correct for record in samples] for samples in samples_T], share=True),
        "brier": _mean_of((p_N - y_N) ** 2, known_T),
        "brier_base": _mean_of(base_N, known_T),
        "ece": _mean_of(signed_gaps(p_N, y_N), known_T),
    }


def _is_right(task: Task) -> bool:
    return task.given is not None and task.given.status == "correct"


def _mean_of(values_N: np.ndarray, known_T: Sequence[Sequence[float]]) -> Figure:
    """The mean of N values that belong to the samples of T tasks in order."""
    counts_T = np.array([len(known) for known in known_T], dtype=np.int64)
    starts_T = np.cumsum(counts_T) - counts_T
    parts = [values_N[start : start + count] for start, count in zip(starts_T, counts_T, strict=True)]
    return mean([part.tolist() for part in parts])
