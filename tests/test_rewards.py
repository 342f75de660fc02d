"""Rewards against hand-computed values, and what no composition may break."""

import math
import pickle
from pathlib import Path

import pytest
from omegaconf import OmegaConf

from kernelrl.candidate import Completion
from kernelrl.errors import UserError
from kernelrl.rewards import make_reward, names
from kernelrl.verdict import Speedup, Verdict, Violation

CONFIGS = sorted((Path(__file__).parents[1] / "configs" / "reward").glob("*.yaml"))
KERNEL = "```python\nclass ModelNew: pass\n```\n"
COMPLETION = Completion.parse(f"<think>fuse it</think>\n{KERNEL}")


def verdict(status, stage, speedup=None, **fields):
    if speedup is not None:
        fields["speedup"] = Speedup(median=speedup[1], low=speedup[0], high=2 * speedup[1], pairs=9)
    return Verdict(task_id="t", candidate="c", status=status, stage=stage, dialect="cpp", device="cpu", **fields)


NO_KERNEL = verdict("illegal", "none", violations=(Violation(rule="no_kernel", evidence="no code block"),))
UNBUILT = verdict("compile_error", "legal")
CRASHED = verdict("runtime_error", "compiled")
WRONG = verdict("incorrect", "ran")
SLOW = verdict("correct", "correct", speedup=(0.5, 0.6))
FAST = verdict("correct", "correct", speedup=(2.0, 4.0))
UNTIMED = verdict("correct", "correct")
CHEAT = verdict("illegal", "ran", violations=(Violation(rule="library_call", evidence="torch.relu"),), speedup=(9, 9))
UNKNOWN = verdict("infrastructure", "compiled", fault="executor")


def shipped(name):
    return make_reward(OmegaConf.load(next(path for path in CONFIGS if path.stem == name)))


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        # no kernel, unbuilt, crashed, wrong, slow, fast, untimed; log 2 / log 8 = 1/3
        ("kernelrl", [0, 0, 0, 0, 1, 1 + 0.5 / 3, 1]),
        ("autotriton", [0, 0, 0, 0, 1, 1, 1]),
        ("execution", [0, 0, 0.1, 0.2, 1, 1, 1]),
        ("rule", [0, 1, 1, 1, 1, 1, 1]),
    ],
)
def test_shipped_rewards(name, expected):
    reward = shipped(name)
    verdicts = [NO_KERNEL, UNBUILT, CRASHED, WRONG, SLOW, FAST, UNTIMED]
    assert [reward(COMPLETION, verdict).total for verdict in verdicts] == pytest.approx(expected)


@pytest.mark.parametrize("path", CONFIGS, ids=lambda path: path.stem)
def test_infrastructure_is_never_scored_and_cheats_earn_nothing(path):
    reward = make_reward(OmegaConf.load(path))
    assert reward.name == path.stem
    unknown = reward(COMPLETION, UNKNOWN)
    assert unknown.total is None and unknown.parts == {}
    assert reward(COMPLETION, CHEAT).total == 0


def test_no_composition_pays_a_cheat_more_than_an_honest_failure():
    reward = make_reward({"name": "all", "terms": {name: {"weight": 1.0} for name in names()}})
    assert reward(COMPLETION, CHEAT).total == 0
    assert min(reward(Completion.parse(""), failed).total for failed in (NO_KERNEL, UNBUILT, CRASHED, WRONG)) >= 0


def test_parts_hold_every_term_and_gate_unweighted():
    assert shipped("kernelrl")(COMPLETION, FAST).parts == pytest.approx({"rule": 1, "correct": 1, "speedup": 1 / 3})
    assert shipped("kernelrl")(COMPLETION, CHEAT).parts["rule"] == 0


@pytest.mark.parametrize(
    ("options", "measured", "expected"),
    [
        ({}, (2.0, 4.0), 1 / 3),
        ({"bound": "median"}, (2.0, 4.0), 2 / 3),
        ({"cap": 3.0}, (2.0, 4.0), math.log(2) / math.log(3)),
        ({}, (1.0, 1.5), 0),
        ({}, (0.9, 1.5), 0),
        ({}, (8.0, 9.0), 1),
        ({}, (70.0, 90.0), 1),
        ({}, (0.0, 0.1), 0),
    ],
)
def test_speedup_is_bounded_and_uses_the_lower_bound_unless_told(options, measured, expected):
    reward = make_reward({"name": "s", "terms": {"speedup": options}})
    assert reward(COMPLETION, verdict("correct", "correct", speedup=measured)).total == pytest.approx(expected)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (f"<think>why</think>\n{KERNEL}", 1),
        (f"<think></think>\n{KERNEL}", 0),
        (KERNEL, 0),
        (f"<think>why</think>\n{KERNEL}{KERNEL}", 0),
        (f"<think>why</think>\n{KERNEL}and more", 0),
        ("<think>why</think>\n```python\nx = 1\n```\n", 0),
        ("<think>why</think>\n```python\nclass ModelNew: pass\n", 0),
        ("", 0),
    ],
)
def test_format_wants_reasoning_and_then_one_kernel(text, expected):
    assert make_reward({"name": "f", "terms": {"format": {}}})(Completion.parse(text), WRONG).total == expected


def test_gates_multiply_and_weights_add():
    terms = {"compiles": {"weight": 0.25}, "correct": {"weight": 2.0, "gates": ["rule", "format"]}}
    reward = make_reward({"name": "mix", "terms": terms})
    assert reward(COMPLETION, SLOW).total == pytest.approx(2.25)
    assert reward(Completion.parse(KERNEL), SLOW).total == pytest.approx(0.25)
    assert reward(COMPLETION, CRASHED).total == pytest.approx(0.25)


def test_rewards_pickle():
    """Trainers that score in a spawned process send the reward there."""
    assert pickle.loads(pickle.dumps(shipped("kernelrl")))(COMPLETION, FAST) == shipped("kernelrl")(COMPLETION, FAST)


@pytest.mark.parametrize(
    ("terms", "message"),
    [
        ({}, "has no terms"),
        ({"speedpu": {}}, "did you mean 'speedup'"),
        ({"correct": {"gates": ["rul"]}}, "did you mean 'rule'"),
        ({"speedup": {"bond": "low"}}, "no parameter 'bond'; did you mean 'bound'"),
        ({"speedup": {"bound": "lower"}}, "reward.terms.speedup.bound='lower'"),
        ({"speedup": {"cap": 1}}, "reward.terms.speedup.cap=1"),
        ({"correct": {"weight": -1}}, "reward.terms.correct.weight=-1"),
        ({"correct": {"weight": float("nan")}}, "reward.terms.correct.weight=nan"),
        ({"correct": {"weight": "much"}}, "reward.terms.correct.weight='much'"),
    ],
)
def test_bad_config_is_one_clear_line(terms, message):
    with pytest.raises(UserError) as error:
        make_reward({"name": "bad", "terms": terms})
    assert message in str(error.value) and "\n" not in str(error.value)
