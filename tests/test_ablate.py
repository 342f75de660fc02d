"""An ablation: what is refused early, what is concluded from the arms, and a real one at toy scale."""

import json

import numpy as np
import pyarrow as pa
import pytest

from conftest import TOY_CACHE, TOY_DATA
from kernelrl.data.tables import write_table
from kernelrl.errors import UserError
from kernelrl.eval.ablation import ARM, Variant, compare_arms, difference, make_table, write
from kernelrl.eval.metrics import Figure, Settings
from kernelrl.records import Ledger, write_json
from kernelrl.runs import ablation
from kernelrl.task import Task
from test_report import REFERENCE, make_record

TASKS = [Task(id=f"t{index}", source=REFERENCE) for index in range(30)]
TASK_ROWS = [{"task": task.model_dump_json()} for task in TASKS]


def leave_policy(folder, policy, rate, seed, speedup=1.5):
    """What an evaluation leaves behind: 8 samples of each task, right with a probability around `rate`."""
    tasks_file = folder.parent / "tasks.parquet"
    write_table(tasks_file, TASK_ROWS, pa.schema([("task", pa.string())]))
    rng, ledger = np.random.default_rng(seed), Ledger(folder / "eval" / policy / "records")
    hard = np.random.default_rng(0).uniform(-0.15, 0.15, len(TASKS))
    ledger.append(
        make_record(policy, task, sample, "correct" if rng.random() < rate + hard[index] else "incorrect", speedup)
        for index, task in enumerate(TASKS)
        for sample in range(8)
    )
    results = {"name": "made up", "policies": {policy: {}}, "eval": {"tasks": str(tasks_file)}}
    write_json(folder / "results.json", results)


def leave_arm(folder, reward, seed, rate, speedup=1.5):
    arm = folder / f"reward={reward},seed={seed}"
    leave_policy(arm, "grpo", rate, seed + 1, speedup)
    (arm / "grpo").mkdir()
    lines = [{"step": step, "seconds": step, "correct": rate * step / 10, "reward": rate} for step in range(1, 11)]
    (arm / "grpo" / "log.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    write_json(arm / ARM, {"overrides": ["recipe=demo", f"reward={reward}"], "seed": seed, "reward": reward})


@pytest.fixture(scope="module")
def summary(tmp_path_factory):
    folder = tmp_path_factory.mktemp("ablation")
    leave_policy(folder / "start", "sft", 0.4, seed=0)
    for reward, rate in (("good", 0.8), ("same", 0.8), ("bad", 0.4)):
        for seed in range(4):
            leave_arm(folder, reward, seed, rate)
    found = compare_arms(folder, "start")
    write(folder, found)
    return found | {"folder": folder}


def compared(summary, before, after, figure="correct"):
    wanted = [{before, after}, figure]
    return next(each for each in summary["comparisons"] if [{each["before"], each["after"]}, each["figure"]] == wanted)


def test_arms_that_differ_in_the_seed_are_runs_of_one_variant(summary):
    assert {name: variant["seeds"] for name, variant in summary["variants"].items()} == {
        "sft": [],
        "reward=bad": [0, 1, 2, 3],
        "reward=good": [0, 1, 2, 3],
        "reward=same": [0, 1, 2, 3],
    }
    good = summary["variants"]["reward=good"]["figures"]["correct"]
    assert good["low"] < good["value"] < good["high"] and good["value"] == pytest.approx(0.8, abs=0.05)
    assert summary["variants"]["reward=good"]["curves"]["correct"][-1] == pytest.approx((10, 0.8, 0.8, 0.8))


def test_what_is_different_is_told_from_what_is_not(summary):
    assert compared(summary, "reward=good", "reward=bad")["p_corrected"] < 0.05
    assert compared(summary, "sft", "reward=good")["p_corrected"] < 0.05
    assert compared(summary, "reward=good", "reward=same")["p_corrected"] > 0.2
    assert compared(summary, "sft", "reward=bad")["p_corrected"] > 0.2
    assert all(each["p"] <= each["p_corrected"] <= 1 for each in summary["comparisons"])


def variant(name, *rates, tasks=40, samples=10, seeds=None):
    """Runs that are right in the given shares of the samples, on every task alike."""
    counts_T = np.full(tasks, float(samples))
    runs = [Figure(rate * counts_T, counts_T) for rate in rates]
    return Variant(name, list(range(len(rates))) if seeds is None else seeds, {"correct": runs}, [])


SETTINGS = Settings(k=(1,), fast_p=(), bootstrap=200, seed=0)


def test_a_difference_is_welchs_over_runs_by_hand():
    """Standard deviations of 0.1 and means 0.3 apart: t of 3.674 with four degrees of freedom, quantile 2.776."""
    found = difference(variant("a", 0.1, 0.2, 0.3), variant("b", 0.4, 0.5, 0.6), "correct", SETTINGS)
    assert found["value"] == pytest.approx(0.3) and found["p"] == pytest.approx(0.02131, abs=1e-5)
    margin = 2.7764 * 0.1 * np.sqrt(2 / 3)
    assert (found["low"], found["high"]) == pytest.approx((0.3 - margin, 0.3 + margin), rel=1e-4)


def test_where_tasks_differ_more_than_runs_the_wider_interval_counts():
    """On half of the tasks one variant is always right, on the others never; all its runs are the same."""
    right_T = np.repeat([10.0, 0.0], 20)
    split = Variant("split", [0, 1], {"correct": [Figure(right_T, np.full(40, 10.0))] * 2}, [])
    found = difference(variant("a", 0.4, 0.4), split, "correct", SETTINGS)
    assert found["low"] < 0 < found["value"] < found["high"] and found["p"] > 0.1


def test_a_task_without_a_verdict_in_some_run_is_left_out_of_all():
    some = variant("a", 0.5, 0.7, tasks=2)
    totals_T, counts_T = np.array([0.0, 2.0]), np.array([0.0, 10.0])
    found = difference(some, Variant("b", [0], {"correct": [Figure(totals_T, counts_T)]}, []), "correct", SETTINGS)
    assert found["value"] == pytest.approx(0.2 - 0.6)
    nothing = Variant("c", [0], {"correct": [Figure(np.zeros(2), np.zeros(2))]}, [])
    assert difference(some, nothing, "correct", SETTINGS) is None


def test_false_alarms_are_as_rare_as_they_say_with_three_seeds():
    """Equal variants whose runs spread by five points; a bootstrap of three runs is wrong in one of eight cases."""
    rng = np.random.default_rng(0)
    alarms = [
        difference(*(variant(name, *rng.normal(0.5, 0.05, 3).clip(0, 1)) for name in "ab"), "correct", SETTINGS)["p"]
        < 0.05
        for _ in range(400)
    ]
    assert np.mean(alarms) < 0.08


def test_one_run_has_no_interval_and_no_p_value(tmp_path):
    leave_policy(tmp_path / "start", "sft", 0.4, seed=0)
    for reward, rate, seeds in (("good", 0.8, (0, 1, 2)), ("once", 0.8, (0,))):
        for seed in seeds:
            leave_arm(tmp_path, reward, seed, rate)
    found = compare_arms(tmp_path, "start")
    for other in ("sft", "reward=good"):
        against = compared(found, other, "reward=once")
        assert against["value"] is not None
        assert {against[key] for key in ("low", "high", "p", "p_corrected")} == {None}
    assert compared(found, "sft", "reward=good")["p"] < 0.05
    estimates = {name: each["figures"]["correct"] for name, each in found["variants"].items()}
    assert estimates["reward=once"]["low"] is None and estimates["reward=once"]["value"] is not None
    assert estimates["sft"]["low"] < estimates["sft"]["value"] < estimates["sft"]["high"], "one policy: over tasks"
    page = write(tmp_path, found).read_text()
    needed = "reward=once: one run says nothing about other seeds, so no interval and no p-value; several seeds"
    assert needed in page and needed in make_table(found).caption and "<td>–</td><td>–</td>" in page
    tests = sum(each["p"] is not None for each in found["comparisons"])
    assert f"corrected for all {tests} tests" in page and tests < len(found["comparisons"])


def test_the_page_shows_every_variant_and_comparison(summary):
    page = (summary["folder"] / "ablation.html").read_text()
    for name in summary["variants"]:
        assert name in page
    assert page.count("→") == len(summary["comparisons"]) + 1 and page.count("<svg") == 2
    assert json.loads((summary["folder"] / "ablation.json").read_text())["tasks"] == 30
    assert make_table(summary).row_count == 4


def test_what_nobody_measured_is_left_out(tmp_path):
    leave_policy(tmp_path / "start", "sft", 0.4, seed=0, speedup=None)
    for seed in (0, 1):
        leave_arm(tmp_path, "good", seed, 0.8, speedup=None)
    summary = compare_arms(tmp_path, "start")
    assert summary["figures"] == ["legal", "correct"]
    assert {each["figure"] for each in summary["comparisons"]} == {"legal", "correct"}
    write(tmp_path, summary)
    assert "nan" not in (tmp_path / "ablation.json").read_text().lower().replace("variant", "")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["recipe=toy"], "ablate: nothing is varied; give several values"),
        (["recipe=toy", "reward=kernelrl,nonsense"], "no option 'nonsense' in config group 'reward'"),
        (["recipe=toy", "executor.trials=0,1"], "executor.trials=0: Input should be greater than 0"),
        (["recipe=toy", "executor.retest_above=1,2"], "executor.retest_above=1: Input should be greater than 1"),
    ],
)
def test_an_arm_that_cannot_work_is_found_before_anything_runs(tmp_path, words, message):
    with pytest.raises(UserError) as error:
        ablation.prepare([*words, f"output_dir={tmp_path / 'out'}", "tracker=none"])
    assert message in str(error.value) and "\n" not in str(error.value)
    assert not (tmp_path / "out").exists()


def test_without_arms_there_is_nothing_to_compare(tmp_path):
    with pytest.raises(UserError, match="no arm has finished"):
        compare_arms(tmp_path, "start")


@pytest.mark.slow
def test_an_ablation_from_nothing_to_its_report_and_again(tmp_path, server):
    words = ["recipe=toy", "reward=rule", "seed=0,1", "tracker=none", f"output_dir={tmp_path}"]
    words += ["executor.timing=false", "executor.draws=tests", *TOY_DATA, TOY_CACHE]
    words += ["sft.trainer.max_steps=4", "eval.limit=3"]
    words += ["grpo.trainer.max_steps=1", "grpo.trainer.per_device_train_batch_size=4"]
    words += ["grpo.trainer.max_completion_length=32", "eval.max_new_tokens=32"]
    first = server.run("ablate", *words, folder=tmp_path)
    assert first.returncode == 0, first.stderr
    assert first.stdout.splitlines()[-1] == str(tmp_path / "ablation.html")
    arms = {path.parents[1].name: path.stat().st_mtime_ns for path in tmp_path.glob("*/grpo/done.json")}
    assert sorted(arms) == ["seed=0", "seed=1"]
    assert not list(tmp_path.glob("seed=*/sft")), "one SFT policy serves all arms"
    assert server.run("ablate", *words, folder=tmp_path).returncode == 0
    assert arms == {path.parents[1].name: path.stat().st_mtime_ns for path in tmp_path.glob("*/grpo/done.json")}
