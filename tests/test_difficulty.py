"""Correctness by the length of the reasoning, against values computed by hand and by scipy."""

import pytest
from scipy.stats import spearmanr

from kernelrl.eval.difficulty import by_reasoning_length
from kernelrl.records import Record
from kernelrl.verdict import Verdict


def record(task, words, status):
    fields = {"fault": "executor" if status == "infrastructure" else None, "dialect": "cpp", "device": "cpu"}
    stage = "correct" if status == "correct" else "ran"
    verdict = Verdict(task_id=task, candidate=None, status=status, stage=stage, **fields)
    completion = f"<think>{'word ' * words}</think>\n```python\nclass ModelNew: pass\n```\n"
    fields = {"id": f"{task}/{words}/{status}", "stage": "eval", "step": 0, "policy": "p", "prompt": ""}
    return Record(task_id=task, completion=completion, verdict=verdict, **fields)


def test_the_correlation_is_spearmans_over_tasks():
    lengths = {"a": [10, 20], "b": [30, 30], "c": [5, 7], "d": [100, 90], "e": [40, 60]}
    correct = {"a": 2, "b": 2, "c": 1, "d": 0, "e": 0}
    records = [
        record(task, words, "correct" if index < correct[task] else "incorrect")
        for task, all_words in lengths.items()
        for index, words in enumerate(all_words)
    ]
    found = by_reasoning_length(records, resamples=500, seed=0)["correlation"]
    expected = spearmanr([15, 30, 6, 95, 50], [1, 1, 0.5, 0, 0]).statistic
    assert found["value"] == pytest.approx(expected)
    assert -1 <= found["low"] < found["value"] < found["high"] <= 1


def test_bins_hold_equally_many_samples_from_the_shortest_to_the_longest():
    records = [record(f"t{words}", words, "correct" if words <= 4 else "incorrect") for words in range(10, 0, -1)]
    records.append(record("t", 1000, "infrastructure"))
    assert by_reasoning_length(records, resamples=10, seed=0)["bins"] == [
        {"words": 1.5, "samples": 2, "correct": 1.0},
        {"words": 3.5, "samples": 2, "correct": 1.0},
        {"words": 5.5, "samples": 2, "correct": 0.0},
        {"words": 7.5, "samples": 2, "correct": 0.0},
        {"words": 9.5, "samples": 2, "correct": 0.0},
    ]


@pytest.mark.parametrize(
    "records",
    [
        [],
        [record("a", 5, "correct"), record("b", 9, "incorrect")],
        [record(task, 5, status) for task, status in zip("abc", ("correct", "incorrect", "correct"), strict=True)],
        [record(task, words, "incorrect") for words, task in enumerate("abc")],
    ],
    ids=["nothing", "two tasks", "one length", "none solved"],
)
def test_there_is_no_correlation_where_nothing_varies(records):
    correlation = by_reasoning_length(records, resamples=10, seed=0)["correlation"]
    assert correlation == {"value": None, "low": None, "high": None}
