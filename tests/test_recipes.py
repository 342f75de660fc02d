"""Every recipe of a system says where it comes from, composes at both scales, and has its defining property."""

import random
import re
from types import SimpleNamespace

import pytest
from trl import GRPOConfig

from conftest import KERNELS, REFERENCE
from curated import training_config
from kernelrl import grpo
from kernelrl.candidate import Completion
from kernelrl.configs import compose_config, config_dir, read_node, to_dict
from kernelrl.data.selection import Pool, Triple, make_selector
from kernelrl.grpo.adjusting import Adjust
from kernelrl.grpo.attempt_rewards import AttemptRewardFunction
from kernelrl.grpo.rollout import Rollout, Row, Turns, check_turns
from kernelrl.grpo.turns_trainer import TurnsGRPOTrainer
from kernelrl.policies.prompts import build_prompt
from kernelrl.policies.protocol import Answer
from kernelrl.records import Ledger
from kernelrl.rewards import make_reward
from kernelrl.strategies import make_strategy
from kernelrl.strategies.archive import Exemplar, TaskArchive
from kernelrl.strategies.protocol import Ask, Attempt, Draft, Problem, Question
from kernelrl.task import Task
from kernelrl.verdict import Speedup, Verdict
from scripted import completion

PUBLISHED = ("autotriton", "cuda_agent", "cuda_l1", "drkernel", "kevin", "mtmc", "tritonrl")
SEARCHES = ("cuda_llm", "cudaforge", "mtmc", "robust_kbench")
TASK = Task(id="t", source=REFERENCE)
COMPLETION = Completion.parse("```python\nclass ModelNew: pass\n```\n")


def verdict(speedup=None, **fields):
    if speedup is not None:
        interval = Speedup(median=speedup, low=speedup, high=speedup, pairs=9)
        fields = {"status": "correct", "stage": "correct", "speedup": interval, "coverage": 1.0} | fields
    return Verdict(
        **{"task_id": "t", "candidate": "c", "status": "incorrect", "stage": "ran", "dialect": "cpp", "device": "cpu"}
        | fields
    )


def described(recipe):
    """The header of a recipe, as one line."""
    lines = (config_dir() / "recipe" / f"{recipe}.yaml").read_text().splitlines()
    return " ".join(line.removeprefix("#").strip() for line in lines if line.startswith("#"))


def paid(recipe, judged):
    return make_reward(compose_config("grpo", [f"recipe={recipe}"]).reward)(COMPLETION, judged).total


@pytest.mark.parametrize("recipe", sorted({*PUBLISHED, *SEARCHES, "kernelrl"}))
def test_it_says_where_it_comes_from_and_what_it_changes(recipe):
    text = described(recipe)
    assert recipe == "kernelrl" or ("Changed: " in text and ("arXiv" in text or "2026" in text))
    assert compose_config("pipeline", [f"recipe={recipe}"]).name == recipe


@pytest.mark.parametrize("recipe", [*PUBLISHED, "kernelrl"])
@pytest.mark.parametrize("scale", [[], ["scale=toy"]], ids=["full", "toy"])
def test_its_groups_are_whole_trajectories_and_its_trainer_is_trls(recipe, scale, tmp_path):
    cfg = compose_config("grpo", [f"recipe={recipe}", *scale])
    strategy, turns = make_strategy(cfg.strategy), read_node(Turns, cfg.grpo.turns, "grpo.turns")
    if strategy.name != "single":
        check_turns(strategy, turns, cfg.grpo.trainer, hierarchical=False)
    GRPOConfig(**to_dict(cfg.grpo.trainer), output_dir=str(tmp_path), report_to=[], use_cpu=True)


BATCH = re.compile(r"(\d+) (?:tasks|prompts) x (\d+) (?:trajectories|rollouts)(?: x (\d+) turns)?(.*)")
"""What a recipe's header says of a batch."""
STATED = [path.stem for path in sorted((config_dir() / "recipe").glob("*.yaml")) if BATCH.search(described(path.stem))]


def test_the_recipes_that_state_a_batch_are_found():
    assert {"drkernel", "kevin", "qwen2_5_coder_32b"} <= set(STATED)


@pytest.mark.parametrize("recipe", STATED)
def test_a_batch_is_the_tasks_that_its_recipe_states(recipe, tmp_path):
    """TRL generates `per_device_train_batch_size x steps_per_generation` completions at a time."""
    tasks, trajectories, turns, rest = BATCH.search(described(recipe)).groups()
    cfg = compose_config("grpo", [f"recipe={recipe}"]).grpo
    fields = to_dict(cfg.trainer) | {"use_cpu": True, "bf16": False}
    arguments = GRPOConfig(**fields, output_dir=str(tmp_path), report_to=[])
    assert arguments.num_generations == int(trajectories) * int(turns or 1)
    assert arguments.generation_batch_size == int(tasks) * arguments.num_generations
    assert turns is None or cfg.turns.rows == int(turns)
    steps = arguments.steps_per_generation // arguments.gradient_accumulation_steps
    assert steps == (2 if "two gradient steps" in rest else 1)


@pytest.mark.parametrize("recipe", SEARCHES)
def test_a_search_ends_by_itself_within_its_budget(recipe):
    cfg = compose_config("search", [f"recipe={recipe}"])
    assert not cfg.search.repeat and cfg.search.budget.candidates
    make_strategy(cfg.strategy)


def problem(**fields):
    return Problem("search/t", TASK, "cpp", build_prompt(TASK, "cpp", "short"), random.Random(0), **fields)


def work(recipe, answer, judged, **fields):
    """Run the strategy of a recipe: `answer` by (role, text of the question), `judged` by number of the attempt.

    Returns:
        The questions in their order, and the attempts.
    """
    strategy = make_strategy(compose_config("search", [f"recipe={recipe}"]).strategy)
    turns, questions, attempts, result = strategy.turns(problem(**fields)), [], [], None
    while True:
        try:
            request = turns.send(result)
        except StopIteration:
            return questions, attempts
        if isinstance(request, Ask):
            first = len(questions)
            questions += request.questions
            result = [
                Draft(f"t/{first + index}", each, Answer(text=answer(each.role, each.messages[-1]["content"])))
                for index, each in enumerate(request.questions)
            ]
        else:
            result = [
                Attempt(draft, draft.completion, judged(len(attempts) + index))
                for index, draft in enumerate(request.drafts)
            ]
            attempts += result


def asked(question):
    return question.messages[-1]["content"]


def returns_of(recipe, verdicts, tmp_path, chain=True):
    """What the rows of one trajectory of a recipe's training earn, and its records.

    Args:
        chain: whether each goes on from the one before it, or all were asked side by side.
    """
    cfg = compose_config("grpo", [f"recipe={recipe}"])
    strategy, turns = make_strategy(cfg.strategy), read_node(Turns, cfg.grpo.turns, "grpo.turns")
    attempts = []
    for number, each in enumerate(verdicts):
        question = Question(problem().prompt, attempts[-1] if attempts and chain else None)
        draft = Draft(f"t/{number}", question, Answer(text=completion(KERNELS["right"]), completion_tokens=9))
        attempts.append(Attempt(draft, draft.completion, each))
    rows = [Row(attempt.draft, attempt) for attempt in attempts]
    judges = AttemptRewardFunction(None, make_reward(cfg.reward), Ledger(tmp_path), "cpp", "p", {}, max_tokens=100)
    judges.rollout = SimpleNamespace(
        rows=rows, judged=list(enumerate(attempts)), tasks=[TASK], turns=turns, strategy=strategy, dropped=0
    )
    judges.adjust = read_node(Adjust, cfg.grpo.adjust, "grpo.adjust")
    state = SimpleNamespace(global_step=0, max_steps=1, logging_steps=1)
    return judges(trainer_state=state, log_metric=lambda *_: None), list(Ledger(tmp_path))


def test_kevin_pays_a_turn_the_discounted_sum_of_the_scores_from_there_on(tmp_path):
    """Scores 0, 0.3 + 1, 0 and 0.3 + 2, discounted by 0.4 and normalised over all m T rows."""
    found, records = returns_of("kevin", [verdict(), verdict(1.0), verdict(), verdict(2.0)], tmp_path)
    scores = [0.0, 1.3, 0.0, 2.3]
    expected = [sum(0.4 ** (i - t) * scores[i] for i in range(t, 4)) for t in range(4)]
    assert found == pytest.approx(expected)
    assert [each.reward for each in records] == pytest.approx(scores)
    assert [each.rewards["return"] for each in records] == pytest.approx(expected)
    cfg = compose_config("grpo", ["recipe=kevin"]).grpo
    assert (cfg.turns.rows, cfg.turns.baseline, cfg.trainer.scale_rewards) == (4, "group", "group")


def test_independent_answers_earn_their_own_scores(tmp_path):
    found, _ = returns_of("kevin", [verdict(), verdict(), verdict(), verdict(1.0)], tmp_path, chain=False)
    assert found == pytest.approx([0.0, 0.0, 0.0, 1.3])


def test_an_outage_leaves_out_the_turns_before_it_and_punishes_none(tmp_path):
    outage = verdict(status="infrastructure", stage="none", fault="executor")
    found, _ = returns_of("kevin", [verdict(1.0), outage, verdict(1.0), verdict()], tmp_path)
    assert found == [None, None, pytest.approx(1.3), 0.0], "what the first turn led to is not known"


def test_autotriton_pays_zero_or_one():
    assert {paid("autotriton", each) for each in (verdict(), verdict(0.1), verdict(9.0))} == {0.0, 1.0}


def test_dr_kernel_pays_up_to_three_and_the_profile_and_compares_turn_by_turn():
    assert paid("drkernel", verdict(9.0)) == pytest.approx(1 + 3 + 1)
    assert paid("drkernel", verdict(2.0, coverage=0.5)) == pytest.approx(1 + 2 + 0.5)
    assert compose_config("grpo", ["recipe=drkernel"]).grpo.turns.baseline == "turn_leave_one_out"


def test_dr_kernel_tells_the_profile_and_learns_from_kernels_that_do_the_work(tmp_path):
    questions, _ = work("drkernel", lambda *_: completion(KERNELS["right"]), lambda _: verdict(2.0, coverage=0.5))
    assert len(questions) == 3 and "Its own kernels do 50% of the work." in asked(questions[1])
    found, _ = returns_of("drkernel", [verdict(1.0, coverage=0.2), verdict(1.0), verdict()], tmp_path)
    assert found[0] is None and found[1] == pytest.approx(1 + 1 + 1), "PR below 0.3 is rejected"


def test_cuda_l1_shows_two_scored_exemplars_from_different_buckets():
    known = [Exemplar(id=str(low), source=f"kernel {low}", verdict=verdict(low)) for low in (1.0, 1.01, 2.0)]
    questions, _ = work("cuda_l1", lambda *_: "no kernel", lambda _: verdict(), archive=TaskArchive(known))
    assert len(questions) == 1
    shown = [low for low in ("1.00", "1.01", "2.00") if f"speedup {low}" in asked(questions[0])]
    assert len(shown) == 2 and "2.00" in shown, "1.00 and 1.01 are in one bucket"
    assert compose_config("grpo", ["recipe=cuda_l1"]).reward.terms.standardised_speedup.k == 1.5


def test_cuda_agent_pays_steps():
    against = Speedup(median=1.2, low=1.1, high=1.3, pairs=9)
    judged = [verdict(), verdict(1.0), verdict(1.2), verdict(1.5, speedup_compiled=against)]
    assert [paid("cuda_agent", each) for each in judged] == [-1.0, 1.0, 2.0, 3.0]


def test_tritonrl_pays_plan_and_code_apart():
    reward = make_reward(compose_config("grpo", ["recipe=tritonrl"]).reward)
    score = reward(COMPLETION, verdict(9.0))
    assert reward.plan.weight == 0.1 and score.plan == 2.0 and score.total == pytest.approx(1 + 0.1 * 2)


def test_concur_takes_the_shortest_reasoning_where_it_is_the_fastest_kernel():
    def triple(index, name, tokens, speedup):
        return Triple(index, name, "fused", "cpp", tokens, verdict(speedup).speedup)

    triples = [triple(0, "a", 10, 2.0), triple(1, "a", 20, 1.0), triple(2, "b", 10, 1.0), triple(3, "b", 20, 1.5)]
    tasks = {name: Task(id=name, source="", ops=("relu", "tanh")) for name in ("a", "b")}
    cfg = compose_config("curate", ["recipe=concur"])
    selection = make_selector(cfg.selection, cfg.curate.timing)(Pool(triples, 0, tasks, {}))
    assert [each.index for each in selection.chosen["shortest_and_fastest"]] == [0]


def test_cudaforge_names_one_thing_a_round_and_its_coder_has_no_history():
    said = {"judge": "Use vector loads.", "coder": completion(KERNELS["right"])}
    questions, attempts = work("cudaforge", lambda role, _: said[role], lambda n: verdict(2.0) if n else verdict())
    assert len(attempts) == 10 and [each.role for each in questions[:4]] == ["coder", "judge", "coder", "judge"]
    assert "the one fault" in asked(questions[1]) and "the one optimisation" in asked(questions[3])
    for question in questions[2::2]:
        assert len(question.messages) == 1 and "Use vector loads." in asked(question)


def test_cuda_llm_asks_again_with_errors_and_goes_on_from_the_fastest():
    """Four candidates a round: none is right in the first, in the second the third one is fastest."""
    speeds = {4: 1.0, 5: 1.5, 6: 3.0}
    questions, attempts = work(
        "cuda_llm", lambda _, text: completion(f"{KERNELS['right']}# {len(text)}\n"), lambda n: verdict(speeds.get(n))
    )
    assert len(attempts) == 16
    assert all("Correct it." in asked(each) and "its output is wrong" in asked(each) for each in questions[4:8])
    assert {each.parent.id for each in questions[8:12]} == {attempts[6].id}
    assert "Name the features that make them fast" in asked(questions[8])


def test_mtmc_pays_an_action_by_the_kernel_that_follows():
    assert paid("mtmc", verdict(8.0)) == pytest.approx(0.1 + 0.4 + 1.0)
    assert paid("mtmc", verdict(1.0)) == pytest.approx(0.5), "right, and no faster"
    assert paid("mtmc", verdict()) == pytest.approx(0.1), "it compiles"
    assert {"tiling", "fusion", "pipeline", "reordering"} <= set(
        compose_config("search", ["recipe=mtmc"]).strategy.actions
    )


def test_mtmc_pays_an_answer_that_names_no_action_nothing_of_what_came_after_it(tmp_path):
    """Fusion, an answer that is no action, tiling, and `stop`: four kernels' worth 0.5 each, discounted by 0.8."""
    attempts, rows = [], []

    def act(said):
        kernel = attempts[-1] if attempts else None
        action = Draft(f"t/{2 * len(rows)}", Question([], kernel, "macro"), Answer(text=said, completion_tokens=9))
        if "stop" not in said:
            question = Question(problem().prompt, kernel, advice=action)
            draft = Draft(f"t/{2 * len(rows) + 1}", question, Answer(text=completion(KERNELS["right"])))
            attempts.append(Attempt(draft, draft.completion, verdict(1.0)))
        rows.append(action)

    for said in ("ACTION: fusion", "Hm.", "ACTION: tiling", "ACTION: stop"):
        act(said)
    cfg = compose_config("grpo", ["recipe=mtmc"])
    strategy = make_strategy(cfg.strategy)
    judges = AttemptRewardFunction(None, make_reward(cfg.reward), Ledger(tmp_path), "cpp", "p", {}, max_tokens=100)
    judges.rollout = SimpleNamespace(
        rows=[Row(action, strategy.paid_by(action, attempts)) for action in rows],
        judged=list(enumerate(attempts)),
        tasks=[TASK],
        turns=read_node(Turns, {**cfg.grpo.turns, "rows": 4}, "grpo.turns"),
        strategy=strategy,
        dropped=0,
    )
    state = SimpleNamespace(global_step=0, max_steps=1, logging_steps=1)
    found = judges(trainer_state=state, log_metric=lambda *_: None)
    last = [0.5 + 0.8 * 0.5, 0.5]
    assert found == pytest.approx([0.5 + 0.8 * 0.8 * last[0], 0.0, *last])


def test_mtmcs_gradient_touches_the_tokens_of_actions_alone(tiny, tmp_path, monkeypatch, kept_executor):
    """A real step, in which one policy plays both roles: no token of a kernel that it writes counts in the loss."""
    monkeypatch.setattr(grpo, "make_executor", kept_executor)
    seen, rollouts = [], []
    whole, compute_loss = Rollout._work, TurnsGRPOTrainer._compute_loss
    monkeypatch.setattr(Rollout, "_work", lambda self, *rest: rollouts.append(self) or whole(self, *rest))
    monkeypatch.setattr(
        TurnsGRPOTrainer,
        "_compute_loss",
        lambda self, model, inputs: seen.append(inputs) or compute_loss(self, model, inputs),
    )
    small = ["grpo.trainer.max_steps=1", "grpo.turns.rows=2", "strategy.steps=2", "executor.timing=false"]
    chosen = ["strategy=macro_micro", "reward=mtmc", "grpo.turns.role=macro", *small]
    grpo.run(training_config(tmp_path, *tiny, *chosen))
    (inputs,), (rollout, *_) = seen, rollouts
    counted = (inputs["completion_mask"] * inputs["tool_mask"]).bool()
    trained = sorted(ids[mask].tolist() for ids, mask in zip(inputs["completion_ids"], counted, strict=True))
    actions = [list(row.draft.answer.token_ids) if row else [] for row in rollout.rows]
    assert trained == sorted(actions) and any(trained)
    assert {row.draft.question.role for row in rollout.rows if row} == {"macro"}
    assert rollout.judged, "kernels were written and judged on the way"


def test_robust_kbench_asks_a_verifier_before_hardware():
    """What the verifier gives less than 0.5 is not judged."""
    said = {"coder": completion(KERNELS["right"]), "verifier": "It reads past the end.\nSCORE: 0.1"}
    questions, attempts = work("robust_kbench", lambda role, _: said[role], lambda _: verdict())
    assert {each.role for each in questions} == {"coder", "verifier"} and not attempts
