"""Strategies: the defining property of each, and what the runner promises to all of them."""

import random

import pytest
from omegaconf import OmegaConf

from conftest import KERNELS, REFERENCE, RIGHT
from executor_cases import FAST
from kernelrl.candidate import Completion
from kernelrl.configs import compose_config
from kernelrl.errors import UserError
from kernelrl.policies.prompts import build_prompt, from_text
from kernelrl.policies.protocol import Answer
from kernelrl.records import Ledger
from kernelrl.rewards import make_reward
from kernelrl.strategies import contrastive, make_strategy, names, runner
from kernelrl.strategies.archive import Archive, Exemplar, TaskArchive
from kernelrl.strategies.budget import Budget
from kernelrl.strategies.journal import Journal
from kernelrl.strategies.protocol import Attempt, Draft, Problem, Question
from kernelrl.task import Task
from kernelrl.verdict import Speedup, Verdict
from scripted import Scripted, completion

TASKS = [Task(id=name, source=REFERENCE) for name in ("t0", "t1")]
REWARD = make_reward({"name": "correct", "terms": {"correct": {}}})


@pytest.fixture(scope="module")
def executor(executor_cache, kept_executor):
    with kept_executor({**FAST, "timing": False, "cache_dir": str(executor_cache)}) as executor:
        yield executor


def problem(task=TASKS[0], **fields):
    prompt = build_prompt(task, "cpp", "short")
    return Problem(f"search/{task.id}", task, "cpp", prompt, random.Random(task.id), **fields)


def strategy(name, **settings):
    return make_strategy(OmegaConf.merge(compose_config("search", [f"strategy={name}"]).strategy, settings))


@pytest.fixture
def run(executor, tmp_path):
    def run(chosen, policy, problems=None, folder="run", **fields):
        policies = policy if isinstance(policy, dict) else {"coder": policy}
        setting = runner.Setting(
            chosen,
            policies,
            {role: f"the {role}" for role in policies},
            executor,
            REWARD,
            **{"budget": Budget(), "seed": 0} | fields,
        )
        journal, ledger = Journal(tmp_path / folder / "answers.jsonl"), Ledger(tmp_path / folder / "records")
        return list(runner.run(setting, problems or [problem()], journal, ledger))

    return run


def kernels(*names):
    """A policy that answers with these kernels in turn, the last one for ever."""
    return Scripted(lambda _, number: completion(KERNELS[names[min(number, len(names) - 1)]]))


def statuses(outcome):
    return [attempt.verdict.status for attempt in outcome.attempts]


def timed(id, low, source=RIGHT):
    speedup = Speedup(median=low, low=low, high=low, pairs=9)
    verdict = Verdict(
        task_id="t0", candidate="c", status="correct", stage="correct", dialect="cpp", device="cpu", speedup=speedup
    )
    return Exemplar(id=id, source=f"{source}# {id}\n", verdict=verdict)


def test_single_asks_once_and_best_of_n_takes_the_best(run):
    (outcome,) = run(strategy("single"), kernels("wrong"))
    assert statuses(outcome) == ["incorrect"] and outcome.best is None
    policy = kernels("wrong", "right", "broken")
    (outcome,) = run(strategy("best_of_n", n=3), policy, folder="n")
    assert len(policy.batches) == 1, "they know nothing of each other"
    assert statuses(outcome) == ["incorrect", "correct", "compile_error"]
    assert outcome.best.id == "search/t0/1"


def test_refine_hears_what_became_of_its_kernel_and_forgets_how_it_thought(run, tmp_path):
    policy = kernels("broken", "wrong", "right")
    (outcome,) = run(strategy("refine", max_turns=3), policy)
    assert statuses(outcome) == ["compile_error", "incorrect", "correct"]
    assert [attempt.turn for attempt in outcome.attempts] == [0, 1, 2]
    last = policy.asked[-1]
    assert [message["role"] for message in last] == ["user", "assistant", "user", "assistant", "user"]
    assert "as always" not in str(last), "earlier reasoning is dropped"
    assert KERNELS["broken"] in last[1]["content"] and "does not compile" in last[2]["content"]
    assert KERNELS["wrong"] in last[3]["content"] and "its output is wrong" in last[4]["content"]
    records = list(Ledger(tmp_path / "run" / "records"))
    assert [(each.turn, each.parent) for each in records] == [(0, None), (1, "search/t0/0"), (2, "search/t0/1")]
    assert {each.strategy for each in records} == {"refine"} and from_text(records[-1].prompt) == last


def test_refine_drops_the_oldest_turn_of_a_conversation_that_is_too_long(run):
    policy = kernels("wrong")
    narrow = problem(fits=lambda messages: len(messages) <= 3)
    run(strategy("refine", max_turns=3), policy, [narrow])
    assert [len(conversation) for conversation in policy.asked] == [1, 3, 3]
    assert narrow.dropped == 1


def test_the_context_of_the_policy_is_a_limit_of_every_strategy(run):
    """Refinement drops turns; where one alone is too long, that is an answer that failed, and says why."""
    policy = Scripted(lambda *_: completion(KERNELS["wrong"]), context=3)
    one = problem()
    run(strategy("refine", max_turns=3), policy, [one], "dropped")
    assert [len(conversation) for conversation in policy.asked] == [1, 3, 3] and one.dropped == 1
    narrow = Scripted(lambda *_: completion(KERNELS["wrong"]), context=2)
    (outcome,) = run(strategy("refine", max_turns=4), narrow, folder="refused", resumable=True)
    assert [len(conversation) for conversation in narrow.asked] == [1]
    assert statuses(outcome) == ["incorrect", "illegal"], "nothing goes on from what was not answered"
    assert "3 messages are more than 2; say less" in outcome.attempts[1].verdict.feedback
    again = kernels("right")
    assert [each.verdict for each in run(strategy("refine", max_turns=4), again, folder="refused")[0].attempts] == [
        each.verdict for each in outcome.attempts
    ], "a refusal is final"


def test_strategies_show_fewer_kernels_where_there_is_no_room():
    short = problem(fits=lambda messages: messages[-1]["content"].count("class ModelNew") <= 2)
    seeds = [attempt(timed(name, 1.0)) for name in "abc"]
    (asked,) = strategy("feature_search").recombination(short, seeds)
    assert "# a" in asked["content"] and "# b" in asked["content"] and "# c" not in asked["content"]
    question = strategy("evolve", inspirations=2)._question(short, seeds, "Faster.", "coder")
    assert question.messages[-1]["content"].count("class ModelNew") == 2


def test_refine_ends_a_trajectory_that_is_good_enough():
    chosen = strategy("refine", stop_at=1.5, max_turns=3, trajectories=2)
    turns = chosen.turns(problem())
    assert len(next(turns).questions) == 2
    fast, slow = timed("a", 1.6), timed("b", 1.4)
    drafts = turns.send(["draft a", "draft b"]).drafts
    assert drafts == ["draft a", "draft b"]
    asked = turns.send([attempt(fast), attempt(slow)])
    assert [question.parent.id for question in asked.questions] == ["b"]


def attempt(exemplar):
    text = completion(exemplar.source)
    draft = Draft(exemplar.id, Question(problem().prompt), Answer(text=text))
    return Attempt(draft, Completion.parse(text), exemplar.verdict)


def test_contrastive_shows_scored_exemplars_from_different_buckets(run):
    archive = TaskArchive([timed("slow", 1.0), timed("alike", 1.01), timed("fast", 2.0)])
    policy = kernels("right")
    run(strategy("contrastive", rounds=1, n=4), policy, [problem(archive=archive)])
    for ((message,),) in zip(policy.asked, strict=True):
        assert "speedup 2.00" in message["content"], "one bucket of two is the fast one's"
        assert ("speedup 1.00" in message["content"]) != ("speedup 1.01" in message["content"]), (
            "and one the slow ones'"
        )
        assert message["content"].endswith("in one Python code block that defines `ModelNew`.")


def test_contrastive_asks_plainly_as_long_as_there_is_nothing_to_compare(run):
    policy = kernels("wrong")
    run(strategy("contrastive", rounds=2, n=1), policy)
    assert policy.asked == [problem().prompt] * 2


def test_contrastive_prefers_fast_buckets_the_more_the_lower_its_temperature():
    archive = TaskArchive([timed(str(low), low) for low in (1.0, 1.5, 2.0, 2.5)])

    def share(tau):
        rng = random.Random(0)
        drawn = [contrastive.draw(archive, 2, tau, rng)[-1].id for _ in range(200)]
        return drawn.count("2.5") / 200

    assert share(0.1) > 0.95 > share(100) > 0.3


def test_the_judge_names_and_the_coder_carries_out(run):
    coder = kernels("wrong", "right")
    judge = Scripted(lambda *_: "<think>hm</think>The factor is 3 and must be 2.")
    (outcome,) = run(strategy("coder_judge", rounds=3), {"coder": coder, "judge": judge})
    assert statuses(outcome) == ["incorrect", "correct", "correct"]
    ((fault,), (optimisation,)) = judge.asked
    assert "one fault" in fault["content"] and "its output is wrong" in fault["content"]
    assert "one optimisation" in optimisation["content"] and "The kernel is correct." in optimisation["content"]
    asked = coder.asked[1][-1]["content"]
    assert "The factor is 3 and must be 2." in asked and "hm" not in asked and KERNELS["wrong"] in asked
    assert len(coder.asked[2]) == 1, "no history"


def test_one_policy_plays_both_roles_where_there_is_one(run):
    policy = kernels("right")
    (outcome,) = run(strategy("coder_judge", rounds=2), policy)
    assert len(policy.asked) == 3 and outcome.spent.candidates == 2


def test_feature_search_corrects_until_one_is_right_and_then_recombines(run):
    policy = kernels("wrong", "broken", "right", "wrong", "right")
    (outcome,) = run(strategy("feature_search", n=2, depth=3), policy)
    assert statuses(outcome) == ["incorrect", "compile_error", "correct", "incorrect", "correct", "correct"]
    asked = [conversation[-1]["content"] for conversation in policy.asked]
    assert "its output is wrong" in asked[2] and "does not compile" in asked[3], "each failure with its own error"
    assert "the fastest first" in asked[4] and KERNELS["right"] in asked[4] and KERNELS["wrong"] not in asked[4]
    assert outcome.attempts[4].parent is outcome.attempts[2]


def test_evolution_filters_before_hardware_and_islands_exchange_their_best(run):
    coder = kernels("broken", "right", "wrong")
    verifier = Scripted(lambda messages, _: "SCORE: 0.9" if "x.numel();" in messages[0]["content"] else "SCORE: 0.1")
    chosen = strategy("evolve", islands=2, generations=2, migration=1, verifier=0.5, inspirations=0)
    (outcome,) = run(chosen, {"coder": coder, "verifier": verifier})
    assert statuses(outcome) == ["correct", "incorrect", "incorrect"], "the broken one cost no hardware"
    parents = [child.parent for child in outcome.attempts[1:]]
    assert parents == [outcome.attempts[0]] * 2, "the first island got the second's best"
    directions = [conversation[-1]["content"] for conversation in coder.asked[2:]]
    assert chosen.prompts[2] in directions[0] and chosen.prompts[0] in directions[1], "the ensemble of prompts"


def test_a_macro_policy_picks_one_action_that_a_micro_coder_carries_out(run):
    macro = Scripted(lambda _, number: ["ACTION: fusion", "ACTION: tiling", "nonsense", "ACTION: stop"][number])
    coder = kernels("wrong", "right", "wrong")
    chosen = strategy("macro_micro", steps=9)
    (outcome,) = run(chosen, {"coder": coder, "macro": macro})
    assert statuses(outcome) == ["incorrect", "correct", "incorrect", "incorrect"]
    orders = [conversation[-1]["content"].rpartition("Do this one thing: ")[2] for conversation in coder.asked]
    assert [order.partition(" ")[0] for order in orders] == ["fusion:", "Correct", "tiling:", "fusion:"]
    assert outcome.attempts[3].parent is outcome.attempts[1], "a step that made it worse is taken back"
    assert "Tried on this kernel, and no better: tiling." in macro.asked[2][0]["content"]
    choices = [draft for draft in outcome.drafts if draft.question.role == "macro"]
    paid = [chosen.paid_by(choice, outcome.attempts) for choice in choices]
    assert paid == [outcome.attempts[0], outcome.attempts[2], None, outcome.attempts[1]], "nonsense earns nothing"
    saved = [chosen.steps_saved(choice, outcome.attempts) for choice in choices]
    assert saved == [0, 0, 0, 9 - 4 - 1], "of nine steps four were taken, and another action would take a fifth"


@pytest.mark.parametrize("name", names())
def test_every_strategy_says_where_it_comes_from_and_stays_within_its_budget(name, run):
    module = __import__(f"kernelrl.strategies.{name}", fromlist=["STRATEGY"])
    assert name in ("single", "best_of_n") or "arXiv" in module.__doc__ and "What differs here" in module.__doc__
    policy = kernels("wrong", "right")
    budget = Budget(candidates=3, completions=5)
    (outcome,) = run(strategy(name), policy, budget=budget, repeat=True)
    assert outcome.spent.candidates <= 3 and outcome.spent.completions == len(policy.asked) <= 5
    assert 3 in (outcome.spent.candidates, outcome.spent.completions - 2), "and uses it"


def test_a_verifier_that_refuses_everything_ends_a_search_whose_budget_is_candidates(run):
    coder = Scripted(lambda _, number: completion(KERNELS["right"]) if number < 1000 else pytest.fail("for ever"))
    policies = {"coder": coder, "verifier": Scripted(lambda *_: "SCORE: 0.1")}
    chosen = strategy("evolve", generations=1, verifier=0.5)
    (outcome,) = run(chosen, policies, budget=Budget(candidates=2), repeat=True)
    assert outcome.attempts == [] and outcome.spent.completions == runner.FRUITLESS
    (outcome,) = run(chosen, policies, folder="more", budget=Budget(candidates=2, completions=400), repeat=True)
    assert outcome.spent.completions == 400, "what has an end of its own is spent"


def test_all_problems_are_asked_in_one_batch(run):
    policy = kernels("wrong")
    outcomes = run(strategy("refine", max_turns=3), policy, [problem(task) for task in TASKS])
    assert [len(batch) for batch in policy.batches] == [2, 2, 2]
    assert [len(outcome.attempts) for outcome in outcomes] == [3, 3]
    assert len(set(policy.seeds)) == 6


@pytest.mark.parametrize("name", ["refine", "evolve", "coder_judge", "contrastive"])
def test_a_run_that_was_killed_goes_on_and_ends_as_if_it_had_not_been(name, run):
    answers = {}

    def answer(messages, number):  # by what is asked, as a policy with a seed
        key = str(messages)
        return answers.setdefault(key, completion(KERNELS[["wrong", "right"][len(answers) % 2]]))

    chosen, budget = strategy(name), Budget(candidates=6)
    whole = run(chosen, Scripted(answer), [problem(task) for task in TASKS], "whole", budget=budget)
    with pytest.raises(KeyboardInterrupt):
        run(chosen, Scripted(answer, fails_after=1), [problem(task) for task in TASKS], "killed", budget=budget)
    policy = Scripted(answer)
    resumed = run(chosen, policy, [problem(task) for task in TASKS], "killed", budget=budget)
    assert [[each.completion for each in outcome.attempts] for outcome in resumed] == [
        [each.completion for each in outcome.attempts] for outcome in whole
    ]
    assert len(policy.asked) < sum(outcome.spent.completions for outcome in whole), "nothing was asked twice"
    again = Scripted(answer)
    run(chosen, again, [problem(task) for task in TASKS], "killed", budget=budget)
    assert again.asked == []


def test_a_larger_budget_takes_no_verifiers_opinion_for_a_kernel(run):
    """A budget of two lets two of four islands write; the verifier is asked next, of whose answers none is a kernel."""
    coder, verifier = kernels("right"), Scripted(lambda *_: "SCORE: 0.9")
    chosen = strategy("evolve", islands=4, generations=2, verifier=0.5)
    for candidates in (2, 6):
        (outcome,) = run(chosen, {"coder": coder, "verifier": verifier}, budget=Budget(candidates=candidates))
    assert statuses(outcome) == ["correct"] * 6
    assert len({draft.id for draft in outcome.drafts}) == len(coder.asked) + len(verifier.asked) == 12


def test_an_answer_that_failed_is_asked_for_again_by_the_same_run(run, tmp_path):
    """One of three fails: the others are kept, nothing is judged as failed, and the next run asks that one alone."""
    policy = Scripted(lambda _, number: Answer(failure="HTTP 500") if number == 1 else completion(KERNELS["right"]))
    with pytest.raises(UserError, match=r"without an answer \(1 x HTTP 500\); what was answered is kept, and the same"):
        run(strategy("best_of_n", n=3), policy, resumable=True)
    assert [entry.id for entry in Journal(tmp_path / "run" / "answers.jsonl")] == ["search/t0/0", "search/t0/2"]
    again = kernels("right")
    (outcome,) = run(strategy("best_of_n", n=3), again, resumable=True)
    assert len(again.asked) == 1 and again.seeds == policy.seeds[1:2]
    assert statuses(outcome) == ["correct"] * 3 and outcome.spent.completions == 3


def test_a_question_that_a_server_refuses_is_not_asked_again(run, tmp_path):
    refusal = Answer(failure="HTTP 400", refused="HTTP 400, the server refuses the question: too long")
    policy = Scripted(lambda _, number: refusal if number else completion(KERNELS["wrong"]))
    (outcome,) = run(strategy("best_of_n", n=2), policy, resumable=True)
    assert statuses(outcome) == ["incorrect", "illegal"], "a sample that failed, as without a strategy"
    assert "refuses the question: too long" in outcome.attempts[1].verdict.feedback
    assert run(strategy("best_of_n", n=2), again := kernels("right"), resumable=True) and again.asked == []
    with pytest.raises(UserError, match=r"the policy answers nothing \(role coder: HTTP 400, the server refuses"):
        run(strategy("best_of_n", n=2), Scripted(lambda *_: refusal), folder="never", resumable=True)
    assert list(Journal(tmp_path / "never" / "answers.jsonl")) == [], "the settings may be wrong"


def test_an_answer_that_failed_costs_the_policy_nothing(run):
    policy = Scripted(lambda _, number: completion(KERNELS["right"]) if number else Answer(failure="HTTP 500"))
    (outcome,) = run(strategy("best_of_n", n=2), policy)
    attempt, right = outcome.attempts
    assert (
        right is outcome.best and attempt.verdict.status == "infrastructure" and "HTTP 500" in attempt.verdict.feedback
    )


def test_a_policy_that_answers_nothing_ends_the_run_which_goes_on_later(run):
    with pytest.raises(UserError, match=r"the policy answers nothing \(role coder: HTTP 500\); the same command"):
        run(strategy("single"), Scripted(lambda *_: Answer(failure="HTTP 500")))
    (outcome,) = run(strategy("single"), kernels("right"))
    assert outcome.best


def test_a_budget_that_cannot_be_kept_is_refused(run):
    with pytest.raises(UserError, match="search.budget.cost=1.0: the policy does not say its cost"):
        run(strategy("refine"), kernels("wrong"), budget=Budget(cost=1.0))


def test_the_archive_is_capped_keeps_what_differs_and_survives(tmp_path):
    archive = Archive(tmp_path, capacity=3)
    archive.add(TASKS[0], [timed("a", 1.0), timed("b", 1.01), timed("c", 2.0)])
    Archive(tmp_path, capacity=3).add(TASKS[0], [timed("d", 1.02)])
    assert [each.id for each in archive.of(TASKS[0])] == ["b", "c", "d"], "the oldest of the most crowded bucket goes"
    archive.add(TASKS[0], [timed("c", 9.0)])
    assert [each.score for each in archive.of(TASKS[0]).correct][0] == 2.3, "what is known stays as it is"


def test_the_archive_neither_gives_nor_takes_of_held_out_tasks(tmp_path):
    heldout = Task(id="h", source=REFERENCE + "\n")
    Archive(tmp_path, 3).add(heldout, [timed("a", 1.0)])
    closed = Archive(tmp_path, 3, closed_to=frozenset({heldout.digest}))
    assert len(closed.of(heldout)) == 0
    closed.add(heldout, [timed("b", 2.0)])
    assert len(Archive(tmp_path, 3).of(heldout)) == 1
