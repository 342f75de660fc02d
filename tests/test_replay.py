"""Rewards computed again from records, against figures computed by hand."""

import json
from pathlib import Path
from statistics import pstdev

import pytest

from kernelrl import cli
from kernelrl.candidate import Completion
from kernelrl.commands.records import read
from kernelrl.commands.reward import main, replay
from kernelrl.data.tables import read_references
from kernelrl.errors import UserError
from kernelrl.records import Ledger, Record
from kernelrl.rewards import make_reward
from kernelrl.verdict import Speedup, Verdict, Violation

COMPLETION = "<think>why</think>\n```python\nclass ModelNew: pass\n```\n"


def record(index, step, task, status, speedup=None, rule=None):
    found = Verdict(
        task_id=task,
        candidate="c",
        status=status,
        stage={"correct": "correct", "incorrect": "ran"}.get(status, "parsed"),
        dialect="cpp",
        device="cpu",
        speedup=speedup and Speedup(median=speedup, low=speedup, high=speedup, pairs=9),
        violations=(Violation(rule=rule, evidence="x"),) if rule else (),
        fault="executor" if status == "infrastructure" else None,
    )
    fields = {"stage": "grpo", "policy": "p", "prompt": "", "completion": COMPLETION}
    return Record(id=f"grpo/{step}/{index}", step=step, task_id=task, verdict=found, **fields)


RECORDS = [
    record(0, 0, "a", "correct", 4.0),
    record(1, 0, "a", "correct", 1.0),
    record(2, 0, "a", "incorrect"),
    record(3, 0, "a", "illegal", rule="library_call"),
    record(4, 0, "b", "correct", 2.0),
    record(5, 0, "b", "correct", 2.0),
    record(6, 1, "b", "infrastructure"),
    record(7, 1, "b", "incorrect"),
]


@pytest.fixture
def run(tmp_path: Path) -> Path:
    Ledger(tmp_path / "grpo" / "records").append(RECORDS)
    return tmp_path


def test_rewards_and_advantages_are_those_of_the_groups(run):
    kevin = make_reward(
        {"name": "k", "terms": {"correct": {"weight": 0.3}, "speedup": {"form": "raw", "bound": "median", "cap": None}}}
    )
    records = read(run, "grpo")
    samples = [(Completion.parse(each.completion), each.verdict) for each in records]
    found = replay(records, samples, kevin)
    assert found.totals[:6].tolist() == pytest.approx([4.3, 1.3, 0, 0, 2.3, 2.3])
    assert str(found.totals[6]) == str(found.advantages[6]) == "nan"
    mean, spread = 1.4, ((2.9**2 + 0.1**2 + 2 * 1.4**2) / 4) ** 0.5
    differences = [total - mean for total in (4.3, 1.3, 0, 0)]
    assert found.advantages[:4].tolist() == pytest.approx(differences)
    scaled = replay(records, samples, kevin, scale="group").advantages[:4].tolist()
    assert scaled == pytest.approx([difference / spread for difference in differences])
    batch = pstdev([4.3, 1.3, 0, 0, 2.3, 2.3])
    scaled = replay(records, samples, kevin, scale="batch").advantages[:4].tolist()
    assert scaled == pytest.approx([difference / batch for difference in differences])
    assert found.advantages[4:6].tolist() == [0, 0]
    assert found.silent == 0.5  # of the groups of two or more: a at step 0 tells something, b does not


def test_what_a_reward_knew_in_training_it_knows_again(run, capsys):
    """Kernels known to be right, and how much of the training was done."""
    known = {"a": ["class ModelNew: pass"]}
    weight = {"start": 1.0, "end": 0.0}
    cold = make_reward({"name": "cold", "terms": {"similarity": {"weight": weight}}})
    samples = [(Completion.parse(each.completion), each.verdict) for each in RECORDS]
    found = replay(RECORDS, samples, cold, known, max_steps=4).totals
    assert found[:3].tolist() == [1, 1, 1] and found[4] == 0
    moved = [each.model_copy(update={"task_id": "a"}) for each in RECORDS]
    assert replay(moved, samples, cold, known, max_steps=4).totals[7] == 0.75, "a quarter of the training is done"
    with pytest.raises(UserError, match="name a file: eval.references"):
        read_references(None, needed=True)


def test_the_command_compares_with_the_first_reward(run, capsys):
    assert main(["replay", str(run), "reward=[autotriton,kevin,cuda_agent]", "--json"]) == 0
    rewards = json.loads(capsys.readouterr().out)["rewards"]
    assert list(rewards) == ["autotriton", "kevin", "cuda_agent"]
    assert rewards["autotriton"]["rank"] == pytest.approx(1) and rewards["autotriton"]["sign"] == 0
    assert all(row["best_cheat"] <= 0 and row["left_out"] == 1 for row in rewards.values())
    assert rewards["cuda_agent"]["paid_by_rule"] == {"library_call": -1.0}


def test_a_right_but_slow_kernel_changes_its_sign(run, capsys):
    """Better than the mean for AutoTriton; not for Kevin, because another one is four times as fast."""
    main(["replay", str(run), "reward=[autotriton,kevin]", "--json"])
    kevin = json.loads(capsys.readouterr().out)["rewards"]["kevin"]
    assert kevin["sign"] == pytest.approx(1 / 7) and len(kevin["changed"]) == 1


def test_all_shipped_rewards_by_default_as_a_table(run, capsys):
    with pytest.raises(SystemExit) as end:
        cli.main(["reward", "replay", str(run)])
    assert end.value.code == 0
    said = capsys.readouterr().out
    assert "drkernel" in said and "best cheat" in said and "library_call earned on average" in said


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["replay", "{run}", "reward=nothing"], "reward=nothing: there is no such config"),
        (["replay", "{run}", "--stage", "eval"], "no record of stage 'eval'"),
        (["replay", "{run}", "seed=1"], "seed=1: no override of this command; write reward="),
        (["replay", "{run}", "stage=sft"], "stage=sft: no override of this command; write --stage sft"),
        (["replay", "{run}", "{run}"], "2 folders of runs were given, not one"),
        (["play", "{run}"], "invalid choice"),
    ],
)
def test_bad_usage_is_one_line(run, arguments, message):
    with pytest.raises(UserError, match=message):
        main([word.format(run=run) for word in arguments])
