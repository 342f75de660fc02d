"""Rewards against hand-computed values, and what no composition may break."""

import math
import pickle
import random
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from omegaconf import OmegaConf

from kernelrl.candidate import Completion
from kernelrl.errors import UserError
from kernelrl.rewards import Context, make_reward, names
from kernelrl.rewards.similarity import PADDING, bleu, bleu_of
from kernelrl.rewards.speedup import rounded
from kernelrl.verdict import Memory, Speedup, TrialError, Verdict, Violation

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
SLOW = verdict("correct", "correct", speedup=(0.5, 0.6), coverage=0.5)
FAST = verdict("correct", "correct", speedup=(2.0, 4.0), coverage=1.0)
UNTIMED = verdict("correct", "correct")
CHEAT = verdict("illegal", "ran", violations=(Violation(rule="library_call", evidence="torch.relu"),), speedup=(9, 9))
UNKNOWN = verdict("infrastructure", "compiled", fault="executor")


def shipped(name):
    return make_reward(OmegaConf.load(next(path for path in CONFIGS if path.stem == name)))


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        # no kernel, unbuilt, crashed, wrong, slow, fast, untimed; log 2 / log 8 = 1/3
        ("kernelrl", [0, 0, 0, 0, 1 + 0.1 * 0.5, 1 + 0.5 / 3 + 0.1, 1]),
        ("speed", [0, 0, 0, 0, 1 + 0.1 * 0.5, 1 + 0.1, 1]),  # each beside nobody
        ("autotriton", [0, 0, 0, 0, 1, 1, 1]),
        ("execution", [0, 0, 0.1, 0.2, 1, 1, 1]),
        ("rule", [0, 1, 1, 1, 1, 1, 1]),
        ("kevin", [0, 0, 0, 0, 0.3 + 0.6, 0.3 + 4.0, 0.3]),
        ("drkernel", [0, 0, 0, 0, 1 + 0.6 + 0.5, 1 + 3.0 + 1.0, 1]),
        ("tritonrl", [0, 0, 0, 0, 1 + 0.1 * 0.6, 1 + 0.1 * 2.0, 1]),
        ("cuda_agent", [-1, -1, -1, -1, 1, 2, 1]),
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
    assert reward(COMPLETION, CHEAT).total == reward.floor <= 0


def test_no_composition_pays_a_cheat_more_than_an_honest_failure():
    reward = make_reward({"name": "all", "floor": -2.0, "terms": {name: {"weight": 1.0} for name in names()}})
    assert reward(COMPLETION, CHEAT).total == -2
    assert min(reward(Completion.parse(""), failed).total for failed in (NO_KERNEL, UNBUILT, CRASHED, WRONG)) >= -2


@pytest.mark.parametrize("path", CONFIGS, ids=lambda path: path.stem)
def test_no_shipped_reward_pays_a_cheat_more_than_an_honest_failure(path):
    """In the company of honest successes, too."""
    reward = make_reward(OmegaConf.load(path))
    samples = [(COMPLETION, each) for each in (CHEAT, NO_KERNEL, WRONG, CRASHED, UNBUILT, FAST, SLOW)]
    cheat, none, *honest = [score.total for score in reward.of_groups(samples, ["t"] * len(samples), progress=0.5)]
    assert max(cheat, none) <= min(honest)


def test_parts_hold_every_term_and_gate_unweighted():
    parts = shipped("kernelrl")(COMPLETION, FAST).parts
    assert parts == pytest.approx({"rule": 1, "correct": 1, "speedup": 1 / 3, "coverage": 1})
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


def test_a_gate_that_is_a_term_too_has_the_terms_parameters():
    rule = {"penalties": {"library_call": 0.25}, "weight": 0.0}
    for terms in ({"rule": rule, "compiles": {"gates": ["rule"]}}, {"compiles": {"gates": ["rule"]}, "rule": rule}):
        assert make_reward({"terms": terms})(COMPLETION, CHEAT).parts["rule"] == 0.75


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
        ({"correct": {"weight": float("inf")}}, "reward.terms.correct.weight=inf"),
        ({"correct": {"weight": "much"}}, "reward.terms.correct.weight='much'"),
        ({"correct": {"weight": {"start": 1, "end": -1}}}, "reward.terms.correct.weight.end=-1"),
        ({"speedup": {"clip": [2, 1]}}, "reward.terms.speedup.clip=[2, 1]: Value error, give [low, high]"),
        ({"rule": {"penalties": {"library_call": 2}}}, "reward.terms.rule.penalties={'library_call': 2}"),
    ],
)
def test_bad_config_is_one_clear_line(terms, message):
    with pytest.raises(UserError) as error:
        make_reward({"name": "bad", "terms": terms})
    assert message in str(error.value) and "\n" not in str(error.value)


def timed(median, width):
    return verdict("correct", "correct", coverage=1.0).model_copy(
        update={"speedup": Speedup(median=median, low=median / width, high=median * width, pairs=9)}
    )


def paid(group, **options):
    reward = make_reward({"name": "s", "terms": {"speedup": {"form": "raw", "dead_band": 1.0, **options}}})
    scores = reward.of_groups([(COMPLETION, each) for each in group], ["t"] * len(group), progress=1.0)
    return [score.total for score in scores]


def test_kernels_that_measurement_does_not_tell_apart_are_paid_alike():
    """Intervals of +-3 % around 1.50 to 1.53, and one kernel that is plainly faster."""
    noise = [timed(median, 1.03) for median in (1.50, 1.53, 1.51, 1.52)]
    assert paid([*noise, timed(2.0, 1.03)]) == pytest.approx([1.50 / 1.03] * 4 + [2.0 / 1.03])
    assert paid(noise, bound="median") == [1.50] * 4
    assert paid(noise, dead_band=0.0, bound="median") == [1.50, 1.53, 1.51, 1.52]
    assert len(set(paid([timed(median, 1.001) for median in (1.50, 1.53, 1.51, 1.52)]))) == 4, "precise times differ"


def test_a_dead_band_keeps_the_order_and_never_pays_more_than_is_proven():
    rng = random.Random(0)
    for _ in range(200):
        group = [timed(math.exp(rng.uniform(-1, 2)), 1 + rng.choice([0.01, 0.1, 0.5])) for _ in range(8)]
        totals = paid([*group, WRONG, UNTIMED])
        assert totals[8:] == [0, 0]
        ranked = sorted(zip([each.speedup.low for each in group], totals, strict=False))
        assert [total for _, total in ranked] == sorted(totals[:8])
        assert all(total <= min(low, 8.0) for low, total in ranked)
        assert ranked[0][0] == ranked[0][1] or ranked[0][0] > 8.0


def test_a_kernel_with_noisy_times_hides_nobody_elses_speed_and_is_paid_for_its_own():
    noisy = timed(1.2, 2.4)
    totals = paid([noisy, timed(1.0, 1.02), timed(1.6, 1.02), timed(1.61, 1.02)])
    assert totals == pytest.approx([0.5, 1.0 / 1.02, 1.6 / 1.02, 1.6 / 1.02])


ROUNDED = [(1.118, 1.11), (0.992, 1.0), (1.0, 1.0), (2.0, 2.0), (0.5, 0.5), (1.15, 1.15), (0.07, 0.07)]


@pytest.mark.parametrize(("speedup", "expected"), ROUNDED)
def test_rounding_is_towards_one(speedup, expected):
    assert rounded(speedup) == expected


def test_cuda_l1_standardises_in_the_group():
    """Rounded speedups 4, 1, 0 (wrong): mean 5/3, standard deviation sqrt(26)/3."""
    even = verdict("correct", "correct", speedup=(0.9, 0.992))
    samples = [(COMPLETION, FAST), (COMPLETION, even), (COMPLETION, WRONG), (COMPLETION, CHEAT), (COMPLETION, UNKNOWN)]
    scores = [score.total for score in shipped("cuda_l1").of_groups(samples[:3], "aaa", progress=0.0)]
    assert scores == pytest.approx([7 / math.sqrt(26), -2 / math.sqrt(26), -5 / math.sqrt(26)])
    assert [score.total for score in shipped("cuda_l1").of_groups(samples, "aaaaa", 0.0)][3:] == [-1.5, None]


def test_cuda_l1_clips_at_both_ends_and_counts_what_was_judged_only():
    """Speedups 4 and nine times 0: mean 0.4, standard deviation 1.2."""
    judged = [(COMPLETION, FAST), *[(COMPLETION, WRONG)] * 9]
    for samples in (judged, [*judged, (COMPLETION, UNKNOWN)]):
        scores = [score.total for score in shipped("cuda_l1").of_groups(samples, ["t"] * len(samples), 0.0)]
        assert scores[:10] == pytest.approx([1.5, *[-1 / 3] * 9])
    slow = [(COMPLETION, FAST)] * 9 + [(COMPLETION, WRONG)]
    assert shipped("cuda_l1").of_groups(slow, ["t"] * 10, 0.0)[-1].total == -1.5


def test_a_group_of_one_and_a_group_of_equals_tell_nothing():
    assert shipped("cuda_l1").of_groups([(COMPLETION, FAST)], ["t"], 0.0)[0].total == 0
    assert [score.total for score in shipped("cuda_l1").of_groups([(COMPLETION, FAST)] * 2, "tt", 0.0)] == [0, 0]


def test_speed_is_told_among_the_right_kernels_of_a_group():
    """Speedups 4 and 2.4: the median is 3.2, and being right is worth as much in a slow group as in a fast one."""
    close = verdict("correct", "correct", speedup=(2.0, 2.4), coverage=1.0)
    samples = [(COMPLETION, each) for each in (FAST, close, WRONG, CHEAT, UNKNOWN)]
    totals = [score.total for score in shipped("speed").of_groups(samples, ["t"] * 5, 0.0)]
    assert totals == [pytest.approx(1.1 + math.log(4 / 3.2)), pytest.approx(1.1 + math.log(2.4 / 3.2)), 0, 0, None]
    halves = [(COMPLETION, verdict("correct", "correct", speedup=(0.1, s), coverage=1.0)) for s in (0.4, 0.24)]
    assert [score.total for score in shipped("speed").of_groups(halves, "tt", 0.0)] == pytest.approx(totals[:2])


def test_what_a_relative_speedup_earns_is_bounded_and_needs_others():
    samples = [(COMPLETION, each) for each in (FAST, SLOW, FAST, UNTIMED)]
    totals = [score.total for score in shipped("speed").of_groups(samples, ["t"] * 4, 0.0)]
    assert totals[:3] == [1.1, pytest.approx(1 - 1 + 0.05), 1.1], "the slow one is more than e times as slow"
    assert totals[3] == shipped("speed").of_groups(samples[3:], "t", 0.0)[0].total
    assert shipped("speed").of_groups(samples[:1], "t", 0.0)[0].total == 1.1


def test_cuda_agents_last_step_is_faster_than_torch_compile():
    compiled = Speedup(median=1.2, low=1.1, high=1.3, pairs=9)
    best = FAST.model_copy(update={"speedup_compiled": compiled})
    assert shipped("cuda_agent")(COMPLETION, best).total == 3
    close = verdict("correct", "correct", speedup=(1.0, 1.04))
    assert shipped("cuda_agent")(COMPLETION, close).total == 1


@pytest.mark.parametrize(
    ("bound", "eager", "compiled", "expected"),
    [
        ("median", (1.0, 1.05), None, 1),  # the margin itself is not beyond it
        ("median", (1.0, 1.06), None, 2),
        ("low", (1.05, 1.06), None, 1),
        ("low", (1.06, 2.0), (1.05, 1.2), 2),
        ("median", (1.06, 2.0), (1.05, 1.2), 3),
        ("median", (1.06, 2.0), (1.0, 1.05), 2),
    ],
)
def test_a_step_is_reached_beyond_the_margin_by_the_bound_that_decides(bound, eager, compiled, expected):
    judged = verdict("correct", "correct", speedup=eager)
    if compiled is not None:
        over = Speedup(median=compiled[1], low=compiled[0], high=2.0, pairs=9)
        judged = judged.model_copy(update={"speedup_compiled": over})
    reward = make_reward({"name": "t", "terms": {"tiers": {"bound": bound}}})
    assert reward(COMPLETION, judged).total == expected


def test_brevity_compares_correct_completions_of_the_group():
    def thinking(length):
        return Completion.parse(f"<think>{'x' * length}</think>\n{KERNEL}")

    reward = make_reward({"name": "b", "terms": {"brevity": {}}})
    samples = [(thinking(10), SLOW), (thinking(30), FAST), (thinking(20), FAST), (thinking(1), WRONG)]
    assert [score.total for score in reward.of_groups(samples, "tttt", 0.0)] == pytest.approx([1, 0, 0.5, 0])
    assert reward(thinking(99), FAST).total == 1


def test_partial_credit_is_the_share_of_right_trials():
    errors = tuple(TrialError(trial=trial, kind="mismatch", inputs="task", message="") for trial in (0, 0, 2))
    wrong = verdict("incorrect", "ran", errors=errors, trials=4)
    reward = make_reward({"name": "p", "terms": {"correct": {"partial": True}}})
    assert [reward(COMPLETION, each).total for each in (wrong, FAST, CHEAT)] == [0.5, 1, 0]


def test_a_named_penalty_is_no_hard_zero():
    terms = {"rule": {"penalties": {"library_call": 0.25}}}
    lenient = make_reward({"name": "p", "terms": terms})
    assert lenient(COMPLETION, CHEAT).total == 0.75
    both = CHEAT.model_copy(update={"violations": (*CHEAT.violations, Violation(rule="no_kernel", evidence=""))})
    assert lenient(COMPLETION, both).total == 0
    strict = make_reward({"name": "p", "terms": {"rule": {"penalties": {"library_call": 0.75, "no_kernel": 0.5}}}})
    assert strict(COMPLETION, both).parts["rule"] == 0, "never below"


def test_a_weight_may_move_with_the_training():
    terms = {"compiles": {"weight": {"start": 1.0, "end": 0.0, "until": 0.5}}, "correct": {}}
    reward = make_reward({"name": "s", "terms": terms})
    totals = [reward(COMPLETION, SLOW, Context(progress=progress)).total for progress in (0.0, 0.25, 0.5, 1.0)]
    assert totals == pytest.approx([2.0, 1.5, 1.0, 1.0])
    assert [score.total for score in reward.of_groups([(COMPLETION, SLOW)], "t", 0.25)] == pytest.approx([1.5])
    planned = make_reward({"terms": {"correct": {}}, "plan": {"weight": 1.0, "terms": {"compiles": terms["compiles"]}}})
    assert planned(COMPLETION, SLOW, Context(progress=0.25)).plan == pytest.approx(0.5)


def test_a_value_is_clipped_before_it_is_weighted():
    terms = {"speedup": {"form": "raw", "cap": None, "clip": [0.8, 1.5], "weight": 2.0, "gates": ["correct"]}}
    reward = make_reward({"name": "c", "terms": terms})
    assert [reward(COMPLETION, each).total for each in (FAST, SLOW, WRONG)] == [3.0, 1.6, 0.0]
    assert reward(COMPLETION, FAST).parts["speedup"] == 2.0


def test_groups_are_kept_apart():
    samples = [(COMPLETION, FAST), (COMPLETION, SLOW), (COMPLETION, FAST), (COMPLETION, FAST)]
    scores = [score.total for score in shipped("cuda_l1").of_groups(samples, ["a", "a", "b", "b"], 0.0)]
    assert scores == pytest.approx([1, -1, 0, 0])


def test_memory_pays_for_the_share_that_is_saved():
    reward = make_reward({"name": "m", "terms": {"memory": {}}})

    def with_peaks(candidate, reference):
        return FAST.model_copy(update={"memory": Memory(candidate_mb=candidate, reference_mb=reference)})

    wrong = WRONG.model_copy(update={"memory": with_peaks(2, 8).memory})
    judged = (with_peaks(2, 8), with_peaks(7, 8), with_peaks(7.5, 8), with_peaks(9, 8), FAST, wrong)
    assert [reward(COMPLETION, each).total for each in judged] == [0.75, 0.125, 0, 0, 0, 0]


def test_bleu_of_token_ids_by_hand():
    """Against 1 2 3 4 5: 1 2 3 9 has precisions 3/4, (2+1)/(3+1), (1+1)/(2+1), (0+1)/(1+1) and is 4 tokens for 5."""
    references = torch.tensor([[[1, 2, 3, 4, 5], [7, PADDING, PADDING, PADDING, PADDING]]] * 3)
    candidates = torch.tensor([[1, 2, 3, 4, 5], [1, 2, 3, 9, PADDING], [8, 8, PADDING, PADDING, PADDING]])
    partial = (3 / 4 * 3 / 4 * 2 / 3 * 1 / 2) ** (1 / 4) * math.exp(1 - 5 / 4)
    assert bleu(candidates, references).tolist() == pytest.approx([1.0, partial, 0.0])


def test_bleu_of_texts_by_hand():
    """Of `x = a + b` against `x = a - b`: 4/5, (2+1)/(4+1), (1+1)/(3+1), (0+1)/(2+1). One token has no longer grams."""
    partial = (4 / 5 * 3 / 5 * 1 / 2 * 1 / 3) ** (1 / 4)
    assert bleu_of(["x = a + b", "pass"], [["x = a - b"], ["pass"]]).tolist() == pytest.approx([partial, 1.0])
    assert bleu_of(["pass"], [["pass", "y"]]).tolist() == [1.0]
    shorter = bleu_of(["x y z"], [["x y", "x y z w"]])  # of two lengths as close the shorter: no penalty
    assert shorter.tolist() == [1.0]


def test_a_gram_counts_no_more_often_than_in_the_reference():
    assert bleu(torch.tensor([[1, 1, 1, 1]]), torch.tensor([[[1, 2, 3, 4]]]), max_n=1).tolist() == [0.25]


def test_similarity_is_to_the_tasks_known_kernels():
    reward = make_reward({"name": "s", "terms": {"similarity": {}}})
    samples = [(COMPLETION, WRONG), (Completion.parse("nothing"), WRONG), (COMPLETION, CHEAT), (COMPLETION, WRONG)]
    known = {"t": ["class Other: pass", COMPLETION.source]}
    scores = [score.total for score in reward.of_groups(samples, "tttu", 0.0, references=known)]
    assert scores == [1, 0, 0, 0]


def test_a_verifiers_opinion_is_a_gate():
    reward = make_reward({"name": "j", "terms": {"correct": {"gates": ["rule", "judge"]}}})
    scores = reward.of_groups([(COMPLETION, FAST)] * 3, "ttt", 0.0, opinions=[0.0, 0.5, None])
    assert [score.total for score in scores] == [0, 0.5, 1]


def test_tritonrl_pays_plan_and_code_apart():
    reward = shipped("tritonrl")
    scores = reward.of_groups([(COMPLETION, each) for each in (FAST, SLOW, WRONG, CHEAT)], "tttt", 0.0)
    assert [score.plan for score in scores] == pytest.approx([2.0, 0.6, 0, 0])
    assert [score.total for score in scores] == pytest.approx([1 + 0.1 * 2.0, 1 + 0.1 * 0.6, 0, 0])


def test_a_term_is_of_the_plan_or_of_the_code():
    with pytest.raises(UserError, match=r"reward.plan.terms.correct: a reward is a term of the plan or of the code"):
        make_reward({"terms": {"correct": {}}, "plan": {"weight": 0.1, "terms": {"correct": {}}}})


def test_the_plan_comes_on_top_of_the_floor():
    reward = make_reward(
        {"floor": -0.5, "terms": {"tiers": {}}, "plan": {"weight": 0.5, "terms": {"compiles": {}, "correct": {}}}}
    )
    scores = [reward(COMPLETION, each) for each in (FAST, WRONG)]
    assert [(score.total, score.plan) for score in scores] == [(3.0, 2.0), (0.0, 1.0)]
    plan = {"weight": 1.0, "terms": {"compiles": {"gates": ["correct"]}}}
    gated = make_reward({"terms": {"rule": {}}, "plan": plan})
    assert [gated(COMPLETION, each).plan for each in (FAST, WRONG)] == [1.0, 0.0]


def test_a_kernel_that_did_not_run_is_scored_by_what_is_known_without_running():
    compiled = verdict("not_run", "compiled")
    assert make_reward({"terms": {"compiles": {}}})(COMPLETION, compiled).total == 1
    assert make_reward({"terms": {"compiles": {"gates": ["runs"]}}})(COMPLETION, compiled).total is None
    for name in "runs correct speedup tiers relative_speedup standardised_speedup coverage brevity memory".split():
        assert make_reward({"terms": {name: {}}})(COMPLETION, compiled).total is None, name


def test_a_reward_that_is_no_finite_number_is_an_error():
    broken = replace(make_reward({"terms": {"correct": {}}}), measures={"correct": lambda *_: math.inf})
    with pytest.raises(ValueError, match="reward correct returned inf"):
        broken(COMPLETION, FAST)


@pytest.mark.parametrize("value", [True, float("nan"), "much"])
def test_the_floor_and_the_plans_weight_are_finite_numbers(value):
    with pytest.raises(UserError, match=r"reward\.floor="):
        make_reward({"floor": value, "terms": {"correct": {}}})
    with pytest.raises(UserError, match=r"reward\.plan\.weight="):
        make_reward({"terms": {"correct": {}}, "plan": {"weight": value, "terms": {"compiles": {}}}})


def test_what_is_known_only_beside_others_is_not_known_of_one_alone():
    assert make_reward({"terms": {"correct": {}, "speedup": {}}}).alone(COMPLETION, FAST).total > 1
    for name in ("relative_speedup", "standardised_speedup", "similarity", "judge"):
        assert make_reward({"terms": {"correct": {}, name: {}}}).alone(COMPLETION, FAST).total is None, name
