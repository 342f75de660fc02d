"""Figures of a policy against hand-computed values."""

from dataclasses import replace
from itertools import combinations, count
from math import exp, log

import pytest

from kernelrl.eval import table
from kernelrl.eval.figure import Settings
from kernelrl.eval.metrics import RATES, best_of_k, compare, compute_figures, summarize
from kernelrl.records import Record
from kernelrl.stats import ratio_interval
from kernelrl.task import Task
from kernelrl.verdict import Speedup, Verdict, Violation

SETTINGS = Settings(k=(1, 2), fast_p=(0, 1, 1.5, 2), bootstrap=500, seed=0)
A, B = (Task(id=id, source="", category=category) for id, category in (("a", "softmax"), ("b", "matmul")))
LIBRARY_CALL = (Violation(rule="library_call", evidence="torch.relu"),)
_ids = count()


def record(task, status, stage, speedup=None, reward=0.0):
    measured = None if speedup is None else Speedup(median=speedup, low=0.9 * speedup, high=1.1 * speedup, pairs=9)
    verdict = Verdict(
        task_id=task.id,
        candidate=None,
        status=status,
        fault="executor" if status == "infrastructure" else None,
        stage=stage,
        dialect="cpp",
        device="cpu",
        speedup=measured,
        candidate_ms=None if speedup is None else 5.0,
        bound_ms=None if speedup is None else speedup,
        violations=LIBRARY_CALL if status == "illegal" else (),
    )
    id = f"eval/p/{task.id}/{next(_ids)}"
    return Record.of(
        id=id,
        policy="p",
        prompt="",
        completion="",
        verdict=verdict,
        reward=reward,
    )


def right(task, speedup=None, reward=1.0):
    return record(task, "correct", "correct", speedup, reward)


RECORDS = [
    right(A, speedup=2.5, reward=1.4),
    right(A, speedup=1.2),
    record(A, "incorrect", "ran", speedup=None),
    record(A, "illegal", "ran", speedup=9.0),
    right(B, speedup=0.5),
    record(B, "compile_error", "legal"),
    record(B, "runtime_error", "compiled"),
    record(B, "illegal", "none"),
    record(B, "infrastructure", "parsed", reward=None),
]


def values(records, tasks=(A, B)):
    return {
        name: figure.estimate(SETTINGS)["value"] for name, figure in compute_figures(records, tasks, SETTINGS).items()
    }


def test_figures():
    assert values(RECORDS) == pytest.approx(
        {
            "parsed": 7 / 8,
            "legal": 6 / 8,
            "compiled": 5 / 8,
            "ran": 4 / 8,
            "correct": 3 / 8,
            "pass@1": (2 / 4 + 1 / 4) / 2,
            "pass@2": ((1 - 1 / 6) + (1 - 3 / 6)) / 2,
            "fast_0": 3 / 8,
            "fast_1": 2 / 8,
            "fast_1.5": 1 / 8,
            "fast_2": 1 / 8,
            "fast_1@2": ((1 - 1 / 6) + 0) / 2,
            "fast_1.5@2": ((1 - 3 / 6) + 0) / 2,
            "fast_2@2": ((1 - 3 / 6) + 0) / 2,
            "best@2": exp(((0 * 1 + log(1.2) * 2 + log(2.5) * 3) / 6 + 0) / 2),
            "speedup": exp((log(2.5) + log(1.2) + log(0.5)) / 3),
            "speedup_all": exp((log(2.5) + log(1.2) + log(0.5)) / 8),
            "of_limit": (2.5 / 5 + 1.2 / 5 + 0.5 / 5) / 3,
            "reward": 3.4 / 8,
            "truncated": None,
            "tokens": None,
            "tokens_per_solved": None,
        }
    )


def test_the_best_of_k_is_the_mean_over_all_choices_of_k():
    values = [3.0, 0.0, 1.0, 7.0]
    for k in (1, 2, 3, 4):
        choices = list(combinations(values, k))
        assert best_of_k(values, k) == pytest.approx(sum(map(max, choices)) / len(choices))
    with pytest.raises(ValueError, match="n=4, k=5"):
        best_of_k(values, 5)


def test_speedups_over_the_compiled_reference():
    """A's compiled reference takes half the time of the eager one; B does not compile, and its reference runs eager."""
    compiled = [
        each.model_copy(update={"verdict": each.verdict.model_copy(update={"speedup_compiled": halved(each)})})
        for each in RECORDS
    ]
    settings = replace(SETTINGS, compiled=True)
    figures = compute_figures(compiled, [A, B], settings)
    found = {name: figure.estimate(settings)["value"] for name, figure in figures.items() if "compiled_" in f"{name}_"}
    assert {name: value for name, value in found.items() if name != "compiled"} == pytest.approx(
        {
            "fast_1_compiled": 1 / 8,
            "fast_1.5_compiled": 0,
            "fast_2_compiled": 0,
            "speedup_compiled": exp((log(1.25) + log(0.6) + log(0.5)) / 3),
        }
    )


def halved(record):
    speedup = record.verdict.speedup
    if speedup is None or record.task_id == "b":
        return None
    return speedup.model_copy(update={"median": speedup.median / 2})


def test_figures_by_level_and_by_task():
    levelled = [task.model_copy(update={"level": level}) for task, level in ((A, 1), (B, 2))]
    summary = summarize(RECORDS, levelled, SETTINGS)
    assert {name: group["figures"]["correct"]["value"] for name, group in summary["levels"].items()} == {
        "1": 2 / 4,
        "2": 1 / 4,
    }
    counted = {"totals": [2.0, 1.0], "counts": [4.0, 4.0]}
    assert summary["by_task"]["correct"] == counted | {"geometric": False, "share": True, "pooled": False}


def test_length_and_truncation():
    """A is solved with 300 tokens in all, B costs 500 and is not, C was sampled by a server that counts nothing."""
    c = Task(id="c", source="")
    samples = [
        right(A).model_copy(update={"finish": "stop", "completion_tokens": 100}),
        record(A, "incorrect", "ran").model_copy(update={"finish": "length", "completion_tokens": 200}),
        record(B, "illegal", "none").model_copy(update={"finish": "length", "completion_tokens": 500}),
        right(c),
    ]
    found = values(samples, (A, B, c))
    assert found["truncated"] == pytest.approx(2 / 3)
    assert found["tokens"] == pytest.approx(800 / 3)
    assert found["tokens_per_solved"] == pytest.approx(800 / 1)
    interval = compute_figures(samples, (A, B, c), SETTINGS)["tokens_per_solved"].estimate(SETTINGS)
    assert interval["low"] is not None and interval["high"] is None, "three in ten resamples hold no solved task"


def test_where_no_correct_sample_was_timed_nothing_is_said_of_speed():
    settings = replace(SETTINGS, compiled=True)
    figures = compute_figures([right(A), right(B), right(B)], [A, B], settings)
    found = {name: figure.estimate(settings)["value"] for name, figure in figures.items()}
    assert found["correct"] == 1 and found["fast_0"] == 1
    assert {found[name] for name in found if "speedup" in name or "best" in name or "fast" in name} == {1, None}
    assert found["fast_1_compiled"] is None and found["speedup_compiled"] is None


def test_the_funnel_only_narrows():
    rates = [values(RECORDS)[name] for name in RATES]
    assert rates == sorted(rates, reverse=True)


def test_summary_counts_and_categories():
    summary = summarize(RECORDS, [A, B], SETTINGS)
    assert (summary["num_tasks"], summary["num_samples"], summary["num_infrastructure"]) == (2, 9, 1)
    assert summary["num_untimed"] == 0, "of the correct ones"
    assert {name: each["num_tasks"] for name, each in summary["categories"].items()} == {"matmul": 1, "softmax": 1}
    assert list(summary["categories"]) == ["matmul", "softmax"]
    correct = summary["categories"]["softmax"]["figures"]["correct"]
    assert correct == {"value": 0.5, "low": None, "high": None}, "of one task there is no interval"
    low, value, high = (summary["figures"]["correct"][name] for name in ("low", "value", "high"))
    assert low <= value <= high


def test_what_was_not_measured_is_none():
    untimed = [right(A), right(A)]
    summary = summarize(untimed, [A], SETTINGS)
    assert summary["num_untimed"] == 2
    assert summary["figures"]["speedup"] == {"value": None, "low": None, "high": None}
    assert values(untimed, [A])["speedup_all"] is None
    assert values(untimed, [A])["fast_0"] == 1 and values(untimed, [A])["fast_1"] is None
    assert set(values([], [A]).values()) == {None}


def test_tasks_with_fewer_than_k_known_samples_are_left_out_of_pass_at_k():
    assert values([right(A), right(A), right(B)])["pass@2"] == 1
    assert values([right(A)])["pass@2"] is None
    assert values([right(A, 2.0), right(A, 4.0)])["best@2"] == pytest.approx(4)
    assert values([right(A, 2.0), right(A, 4.0)])["fast_2@2"] == 1


def test_tasks_that_pass_at_k_leaves_out_are_counted_and_said():
    lost = record(B, "infrastructure", "none")
    summary = summarize([right(A), right(A), right(B), lost], [A, B], SETTINGS)
    assert summary["num_left_out"] == {"pass@1": 0, "pass@2": 1}
    said = table.caption({"seed": 0, "policies": {"mine": summary}})
    assert said.endswith("1 samples without a verdict left out; left out for too few verdicts: 1 of mine's pass@2")
    whole = summarize([right(A), right(A), right(B), right(B)], [A, B], SETTINGS)
    assert "left out" not in table.caption({"seed": 0, "policies": {"mine": whole}})


def test_intervals_are_of_the_settings_draws():
    settings = Settings(k=(), fast_p=(), bootstrap=7, seed=3)
    tasks = [Task(id=f"t{index}", source="") for index in range(5)]
    samples = [right(task, reward=index * index) for index, task in enumerate(tasks)]
    expected = ratio_interval([0, 1, 4, 9, 16], [1] * 5, resamples=7, seed=3)
    reward = summarize(samples, tasks, settings)["figures"]["reward"]
    assert (reward["low"], reward["high"]) == pytest.approx(expected)
    nothing = [right(task, reward=0.0) for task in tasks]
    change = compare(samples, nothing, tasks, settings)["reward"]
    assert (change["low"], change["high"]) == pytest.approx(expected)


def test_changes_are_paired_by_task():
    tasks = [Task(id=f"t{index}", source="") for index in range(8)]
    before = [sample for task in tasks[:4] for sample in (right(task, 1.0), right(task, 1.0))]
    before += [sample for task in tasks[4:] for sample in (right(task, 4.0), record(task, "incorrect", "ran"))]
    after = [sample for task in tasks[:4] for sample in (right(task, 2.0), right(task, 2.0))]
    after += [sample for task in tasks[4:] for sample in (right(task, 8.0), right(task, 8.0))]
    changes = compare(after, before, tasks, SETTINGS)
    assert changes["correct"]["value"] == pytest.approx(0.25)
    assert 0 < changes["correct"]["low"] < changes["correct"]["high"] <= 0.5
    same = compare(before, before, tasks, SETTINGS)
    assert same["correct"] == {"value": 0, "low": 0, "high": 0}
    assert same["speedup"] == {"value": 1, "low": 1, "high": 1}
    assert changes["speedup"]["value"] == pytest.approx(2), "every task twice as fast, whichever are solved oftener"


def test_speedups_are_compared_where_both_policies_solve_the_task():
    """The second policy writes the same kernel for A, oftener, and solves B too, where there is less to gain."""
    before = [right(A, 2.0), record(A, "incorrect", "ran"), record(B, "incorrect", "ran")]
    after = [right(A, 2.0), right(A, 2.0), right(B, 1.0)]
    changes = compare(after, before, [A, B], SETTINGS)
    assert changes["speedup"] == {"value": 1, "low": None, "high": None}, "of one task"
    assert compare(before, after, [A, B], SETTINGS)["speedup"] == {"value": 1, "low": None, "high": None}
    assert changes["speedup_all"]["value"] == pytest.approx(exp(log(2) / 4)), "failures count as 1, tasks alike"
    alone = compare([right(B, 1.0)], [right(A, 2.0)], [A, B], SETTINGS)
    assert alone["speedup"] == {"value": None, "low": None, "high": None}


@pytest.mark.parametrize(
    ("figure", "change", "shown", "colour"),
    [
        ("correct", (0.5, 0.25, 0.75), "+50.0 [+25.0, +75.0]", 1),
        ("correct", (-0.5, -0.75, -0.25), "-50.0 [-75.0, -25.0]", -1),
        ("correct", (0.5, None, None), "+50.0 [–]", 0),
        ("correct", (0.5, 0.5, 0.5), "+50.0 [+50.0, +50.0]", 0),
        ("speedup", (2.0, None, None), "×2.00 [–]", 0),
        ("speedup", (2.0, 1.5, 2.5), "×2.00 [1.50, 2.50]", 1),
        ("tokens", (5.0, 4.0, 6.0), "+5.00 [+4.00, +6.00]", -1),
        ("correct", (None, None, None), "–", 0),
    ],
)
def test_a_change_is_coloured_where_its_interval_is_known_and_excludes_no_change(figure, change, shown, colour):
    """One task has no interval, and equal changes on all tasks have one without width: neither is sure."""
    estimate = dict(zip(("value", "low", "high"), change, strict=True))
    assert table.format_change(figure, estimate) == shown
    assert table.direction(figure, estimate) == colour


def of_cases(solved, num_cases):
    """A task for each case of ten programs, and verdicts of one kernel a program, which solves all cases or none."""
    tasks = [
        Task(id=f"{program}/{case}", source="", case_of=program)
        for program in "abcdefghij"
        for case in range(num_cases)
    ]
    right_or_wrong = [right(task) if task.case_of in solved else record(task, "incorrect", "ran") for task in tasks]
    numbered = [each.model_copy(update={"id": f"eval/p/{each.task_id}/0"}) for each in right_or_wrong]
    return numbered, tasks


def test_cases_of_one_program_are_no_independent_tasks():
    """What is known of ten programs does not grow with the number of cases that one kernel is tried in."""
    one, five = (of_cases("abcd", num_cases) for num_cases in (1, 5))
    once, often = (summarize(*each, SETTINGS) for each in (one, five))
    assert often["num_tasks"] == 50 and often["num_programs"] == 10 and often["num_solved"] == 4
    assert often["figures"]["correct"] == once["figures"]["correct"]
    changes = [
        compare(of_cases("abcdefg", num_cases)[0], before, tasks, SETTINGS)["correct"]
        for num_cases, (before, tasks) in ((1, one), (5, five))
    ]
    assert changes[0] == changes[1] and changes[0]["value"] == pytest.approx(0.3)


def test_where_no_sample_or_every_one_is_right_the_interval_is_the_exact_one():
    tasks = [Task(id=str(index), source="") for index in range(20)]
    none, every = ([record(task, "incorrect", "ran") for task in tasks], [right(task) for task in tasks])
    low, high = (summarize(samples, tasks, SETTINGS)["figures"]["correct"] for samples in (none, every))
    assert low == {"value": 0.0, "low": 0.0, "high": pytest.approx(0.1684, abs=1e-4)}, (
        "the share that gives 0 of 20 in 2.5 %"
    )
    assert high == {"value": 1.0, "low": pytest.approx(0.8316, abs=1e-4), "high": 1.0}


def test_a_policy_that_pays_for_failures_is_not_the_cheaper_one():
    """All ten tasks for 100 tokens each; three of them for 90 each: 300 tokens for a solved one."""
    tasks = [Task(id=str(index), source="") for index in range(10)]
    solid = [right(task).model_copy(update={"completion_tokens": 100}) for task in tasks]
    terse = [
        (right(task) if index < 3 else record(task, "incorrect", "ran")).model_copy(update={"completion_tokens": 90})
        for index, task in enumerate(tasks)
    ]
    change = compare(terse, solid, tasks, SETTINGS)["tokens_per_solved"]
    assert change["value"] == pytest.approx(300 - 100) and change["low"] > 0
