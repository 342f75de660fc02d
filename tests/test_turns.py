"""Training through a strategy: returns, advantages, and rows that are turns of trajectories."""

import math
from dataclasses import replace
from pathlib import Path
from statistics import fmean, stdev
from types import SimpleNamespace

import pytest
import torch

from curated import training_config
from kernelrl import grpo
from kernelrl.configs import compose_config
from kernelrl.data.tables import TASKS_TRAIN, read_table
from kernelrl.errors import UserError
from kernelrl.grpo import shared_policy
from kernelrl.grpo.adjusting import Adjust
from kernelrl.grpo.attempt_rewards import AttemptRewardFunction
from kernelrl.grpo.curriculum import Curriculum
from kernelrl.grpo.returns import advantages, discounted
from kernelrl.grpo.rollout import Rollout, Row, parents_of
from kernelrl.policies.protocol import Answer
from kernelrl.records import Ledger
from kernelrl.runs.launch import run_stage
from kernelrl.stage_folder import LOG, read_log
from kernelrl.strategies import make_strategy
from kernelrl.strategies.archive import Archive, Exemplar
from kernelrl.strategies.protocol import Attempt, Draft, Question
from kernelrl.task import Task
from kernelrl.verdict import Speedup, Verdict

NAN = math.nan


def test_a_turns_return_is_the_discounted_sum_of_the_scores_from_there_on():
    scores, gamma = [0.0, 1.3, 0.0, 2.0], 0.4
    expected = [sum(gamma ** (i - t) * scores[i] for i in range(t, 4)) for t in range(4)]
    assert discounted(scores, [None, 0, 1, 2], gamma) == pytest.approx(expected)


def test_an_answer_earns_nothing_of_those_that_do_not_go_on_from_it():
    scores = [0.0, 0.0, 0.0, 1.3]
    assert discounted(scores, [None] * 4, 0.4) == scores, "four answers side by side"
    assert discounted(scores, [None, None, 0, 1], 0.4) == pytest.approx([0.0, 0.52, 0.0, 1.3]), "two trajectories"
    assert discounted([1.0, 0.0, 2.0, 4.0], [None, 0, 0, 2], 0.5) == [2.0, 0.0, 4.0, 4.0], "the mean of two that go on"


def test_a_turn_whose_continuation_is_not_known_is_left_out_and_not_punished():
    assert discounted([1.0, None, 1.0], [None, 0, 1], 0.5) == [None, None, 1.0]
    assert discounted([1.0, None, 1.0], [None, 0, 1], 0.0) == [1.0, None, 1.0], "nothing later counts"
    assert discounted([1.0, None, 3.0], [None, 0, 0], 0.5) == [2.5, None, 3.0], "the other one is known"


def wrote(number, parent=None, role="coder", advice=None):
    """The N-th answer of a problem, as a row and, where it is a kernel, as the attempt that was judged."""
    draft = Draft(f"t/{number}", Question([], parent, role, advice), Answer(text=""))
    verdict = Verdict(task_id="t", candidate="c", status="incorrect", stage="ran", dialect="cpp", device="cpu")
    return draft, Attempt(draft, draft.completion, verdict)


def test_an_action_goes_on_from_the_one_whose_kernel_it_is_about():
    """A first action, a kernel that is repaired, and then two actions on the same kernel, and `stop`."""
    first, _ = wrote(0, role="macro")
    _, wrong = wrote(1, advice=first)
    _, repaired = wrote(2, wrong)
    second, _ = wrote(3, repaired, "macro")
    _, worse = wrote(4, repaired, advice=second)
    third, _ = wrote(5, repaired, "macro")
    _, better = wrote(6, repaired, advice=third)
    stop, _ = wrote(7, better, "macro")
    rows = [Row(first, wrong), Row(second, worse), Row(third, better), Row(stop, better)]
    assert parents_of(rows) == [None, 0, 0, 2]
    assert [row.turn for row in rows] == [0, 2, 2, 3], "the turns of the kernels that carry them out"


def macro_rows(steps, stops):
    """Actions that all keep a kernel as fast as it was, of which the last may be `stop`."""
    first, kept = wrote(0, role="macro"), None
    _, kept = wrote(1, advice=first[0])
    rows = [Row(first[0], kept)]
    for step in range(1, steps):
        draft, _ = wrote(2 * step, kept, "macro")
        if stops == step:
            return [*rows, Row(draft, kept, steps_saved=steps - step - 1)]
        _, kept = wrote(2 * step + 1, kept, advice=draft)
        rows.append(Row(draft, kept))
    return rows


def function_of(rows, size):
    """A reward function after a batch of one trajectory."""
    function = object.__new__(AttemptRewardFunction)
    function.adjust, function.max_tokens = Adjust(), 0
    filled = [*rows, *[None] * (size - len(rows))]
    function.rollout = SimpleNamespace(rows=filled, turns=SimpleNamespace(rows=size, gamma=0.8))
    return function


@pytest.mark.parametrize("stops", [1, 2, 3])
@pytest.mark.parametrize("size", [4, 3])
def test_to_stop_earns_as_much_as_actions_without_effect(stops, size):
    """Four steps that leave a kernel as it is, and `stop` before the rest of them; some rows may not be there."""
    found = []
    for rows in (macro_rows(4, None)[:size], macro_rows(4, stops)[:size]):
        totals = {row.attempt.id: 1.4 for row in rows}
        found.append([each.reward for each in function_of(rows, size)._returns(totals, {id: id for id in totals})])
    idle, stopping = found
    assert stopping[: stops + 1] == pytest.approx(idle[: stops + 1]) and not any(stopping[stops + 1 :])


@pytest.mark.parametrize("refused", [None, "HTTP 400, longer than the context"])
def test_an_action_whose_coder_refused_the_question_is_left_out_and_not_punished(refused):
    first, second, third = (wrote(number, role="macro")[0] for number in (0, 2, 4))
    carried_out = Draft("t/3", Question([], advice=second), Answer(failure=refused, refused=refused))
    _, kernel = wrote(1, advice=first)
    attempts = [kernel, Attempt(carried_out, carried_out.completion, kernel.verdict)]
    drafts = [replace(draft, answer=Answer(text="ACTION: tiling")) for draft in (first, second, third)]
    rollout = object.__new__(Rollout)
    rollout.strategy = make_strategy(compose_config("grpo", ["strategy=macro_micro"]).strategy)
    rollout.turns = SimpleNamespace(role="macro", rows=4)
    rows = rollout._rows_of(SimpleNamespace(drafts=drafts, attempts=attempts))
    kept = ["t/0", "t/2", "t/4"] if refused is None else ["t/0", "t/4"]
    assert [row.draft.id for row in rows] == kept, "that of which nothing came stays"


def by_hand(returns, turns, group_size, baseline):
    """The definitions, row by row."""
    found = []
    for row, own in enumerate(returns):
        group = range(row // group_size * group_size, (row // group_size + 1) * group_size)
        rows = {
            "group": group,
            "leave_one_out": [other for other in group if other != row],
            "turn_leave_one_out": [o for o in group if o != row and turns[o] == turns[row]],
            "batch": range(len(returns)),
        }[baseline]
        known = [returns[other] for other in rows if not math.isnan(returns[other])]
        found.append(0.0 if math.isnan(own) or not known else own - fmean(known))
    return found


BATCHES = {
    "two groups of two trajectories of two turns": ([1.0, 0.0, 3.0, 2.0, 0.5, 0.5, 0.25, 1.0], [0, 1] * 4, 4),
    "answers side by side": ([1.0, 0.0, 3.0, 2.0, 0.5, 0.5, 0.25, 1.0], [0, 0, 0, 1] * 2, 4),
    "rows left out": ([1.0, NAN, 3.0, 2.0, NAN, NAN, NAN, 1.0], [0, 1] * 4, 4),
    "zero variance": ([1.0] * 4, [0, 1] * 2, 4),
    "groups of one": ([1.0, 2.0], [0, 0], 1),
}


@pytest.mark.parametrize("baseline", ["group", "leave_one_out", "turn_leave_one_out", "batch"])
@pytest.mark.parametrize("batch", BATCHES)
def test_advantages_are_their_definition(batch, baseline):
    returns, turns, size = BATCHES[batch]
    found = advantages(torch.tensor(returns), torch.tensor(turns), size, baseline, "none")
    assert found.tolist() == pytest.approx(by_hand(returns, turns, size, baseline))


def test_leave_one_out_is_the_groups_times_n_over_n_minus_one():
    """GRPO's own-sample mean shrinks gradients by 1 - 1/N (Dr. Kernel)."""
    returns, turns = torch.tensor([1.0, 0.0, 3.0, 2.0]), torch.zeros(4, dtype=torch.int64)
    group, others = (advantages(returns, turns, 4, name, "none") for name in ("group", "leave_one_out"))
    assert torch.allclose(others * (1 - 1 / 4), group)


def test_they_are_scaled_as_the_trainer_scales():
    returns = [1.0, 0.0, 3.0, 2.0, 0.5, 0.5, 0.25, 1.0]
    turns = torch.tensor([0, 1] * 4)
    whole = advantages(torch.tensor(returns), turns, 4, "group", "batch")
    assert whole[0] == pytest.approx((1.0 - 1.5) / (stdev(returns) + 1e-4))
    group = advantages(torch.tensor(returns), turns, 4, "group", "group")
    assert group[0] == pytest.approx((1.0 - 1.5) / (stdev(returns[:4]) + 1e-4))


@pytest.fixture
def train(tiny, tmp_path, monkeypatch, kept_executor):
    monkeypatch.setattr(grpo, "make_executor", kept_executor)

    def train(*overrides):
        words = ["executor.timing=false", "grpo.trainer.num_generations=4", "grpo.trainer.max_steps=2"]
        cfg = training_config(tmp_path, *tiny, *words, "grpo.trainer.save_steps=1", *overrides)
        folder = grpo.run(cfg)
        return list(Ledger(folder / "records")), read_log(folder / LOG)

    return train


REFINE = ("strategy=refine", "grpo.turns.rows=2", "reward=rule")


def test_rows_are_the_turns_of_trajectories(train):
    records, log = train(*REFINE, "grpo.turns.baseline=turn_leave_one_out")
    assert [record.id for record in records] == [f"grpo/{step}/{row}" for step in range(2) for row in range(4)]
    assert [record.turn for record in records] == [0, 1] * 4
    assert [record.parent for record in records[:4]] == [None, "grpo/0/0", None, "grpo/0/2"]
    first, second = records[:2]
    assert first.rewards["return"] == pytest.approx(first.reward + 0.4 * second.reward)
    assert second.prompt.startswith(first.prompt) and "[assistant]" in second.prompt, "each row has its own prompt"
    assert log[0]["attempts"] == 1.0 and "correct/turn1" in log[0]


def test_answers_side_by_side_are_no_turns(train):
    """Two trajectories of two turns each fill the rows of one, in the order in which they were asked."""
    words = ("strategy.trajectories=2", "strategy.max_turns=2", "grpo.turns.rows=4", "reward=rule")
    records, log = train("strategy=refine", *words, "grpo.trainer.max_steps=1")
    assert [record.turn for record in records] == [0, 0, 1, 1]
    assert [record.parent for record in records] == [None, None, "grpo/0/0", "grpo/0/1"]
    scores = [record.reward for record in records]
    expected = [scores[0] + 0.4 * scores[2], scores[1] + 0.4 * scores[3], *scores[2:]]
    assert [record.rewards["return"] for record in records] == pytest.approx(expected)
    assert {"correct/turn0", "correct/turn1"} <= log[0].keys() and "correct/turn2" not in log[0]


def test_a_trajectory_that_ends_early_is_left_out_of_the_baseline(train):
    records, log = train("strategy=best_of_n", "strategy.n=1", "grpo.turns.rows=2", "reward=rule")
    assert [record.id for record in records] == [f"grpo/{step}/{row}" for step in range(2) for row in (0, 2)]
    assert log[0]["attempts"] == 0.5 and all(math.isfinite(entry["loss"]) for entry in log if "loss" in entry)


def test_a_turn_that_outgrows_the_context_is_refused_and_ends_its_trajectory(train, monkeypatch):
    """The context holds the first question with a completion of 16 tokens, and no second one."""
    room, whole = [], Rollout._problem

    def narrow(self, prompt, number, step, policy):
        room.append(len(policy.tokenize([prompt])[0]) + 16)
        return whole(self, prompt, number, step, policy)

    monkeypatch.setattr(Rollout, "_problem", narrow)
    monkeypatch.setattr(shared_policy, "context_length", lambda _: room[-1] if room else None)
    records, log = train("strategy=refine", "grpo.turns.rows=4", "reward=rule", "grpo.trainer.max_steps=1")
    assert [each.turn for each in records] == [0, 1] and records[1].verdict.status == "illegal"
    assert f"the model's context of {room[0]}" in records[1].verdict.feedback
    assert records[0].rewards["return"] == records[0].reward, "a trajectory that ended early"
    assert log[0]["attempts"] == 0.25 and math.isfinite(log[0]["loss"])


def test_the_context_is_what_vllm_was_told_where_that_is_less():
    config = SimpleNamespace(get_text_config=lambda: SimpleNamespace(max_position_embeddings=4096))

    def context(**given):
        arguments = {"use_vllm": True, "vllm_mode": "colocate", "vllm_max_model_length": None} | given
        return shared_policy.context_of(config, SimpleNamespace(**arguments))

    assert context() == context(vllm_max_model_length=9000) == 4096
    assert context(vllm_max_model_length=1000) == 1000
    assert context(vllm_max_model_length=1000, use_vllm=False) == 4096, "transformers generates"
    assert context(vllm_max_model_length=1000, vllm_mode="server") == 4096, "the setting is not the server's"


def test_it_begins_with_the_kernels_that_another_run_knows(train, tiny, tmp_path, monkeypatch):
    monkeypatch.setattr(grpo, "_heldout", lambda data: frozenset())  # the tests' data holds out what it trains on
    data, earlier = Path(tiny[0].partition("=")[2]), Archive(tmp_path / "earlier", 9)
    _, written = wrote(0)
    known = []
    for times in (1.0, 3.0):
        right = {
            "status": "correct",
            "stage": "correct",
            "speedup": Speedup(median=times, low=times, high=times, pairs=9),
        }
        verdict = written.verdict.model_copy(update=right)
        known.append(Exemplar(id=f"grpo/7/{times}", source=f"# as fast as {times}", verdict=verdict))
    for row in read_table(data / TASKS_TRAIN, ["task"]):
        earlier.add(Task.model_validate_json(row["task"]), known)
    words = ("strategy=contrastive", "grpo.turns.rows=1", "reward=rule", "grpo.trainer.max_steps=1")
    records, _ = train(*words, f"grpo.turns.archive={tmp_path}/earlier")
    assert all(each.source in record.prompt for record in records for each in known)
    with pytest.raises(UserError, match=r"grpo.turns.archive=.*nowhere: there is no such folder"):
        train(*words, f"grpo.turns.archive={tmp_path}/nowhere")


def test_a_killed_training_goes_on_from_its_checkpoint(train, monkeypatch, tmp_path):
    whole = Rollout.__call__

    def killed(self, prompts, trainer):
        if trainer.state.global_step == 1:
            raise KeyboardInterrupt
        return whole(self, prompts, trainer)

    monkeypatch.setattr(Rollout, "__call__", killed)
    with pytest.raises(KeyboardInterrupt):
        train(*REFINE)
    monkeypatch.setattr(Rollout, "__call__", whole)
    task, archive = Task(id="t", source="pass"), Archive(tmp_path / "grpo" / "archive", 9)
    verdict = wrote(0)[1].verdict
    ids = ["search/t/0", "grpo/0/0/0/0", "grpo/1/0/0/0"]
    archive.add(task, [Exemplar(id=id, source=id, verdict=verdict) for id in ids])
    records, log = train(*REFINE)
    assert [each.id for each in archive.of(task)] == ids[:2], "a step that is repeated has written nothing yet"
    assert [record.id for record in records] == [f"grpo/{step}/{row}" for step in range(2) for row in range(4)]


@pytest.mark.slow
def test_two_ranks_train_through_a_strategy(tiny, tmp_path):
    """One group of four trajectories, two on each rank: the main rank judges all of them, and both learn the same."""
    words = ["grpo.trainer.per_device_train_batch_size=8", "grpo.trainer.num_generations=8", "grpo.trainer.max_steps=2"]
    words += ["grpo.turns.baseline=turn_leave_one_out", "executor.timing=false", "launcher.processes=2"]
    cfg = training_config(tmp_path, *tiny, *REFINE, *words)
    run_stage("grpo", cfg)
    records = list(Ledger(tmp_path / "grpo" / "records"))
    assert [record.id for record in records] == [f"grpo/{step}/{row}" for step in range(2) for row in range(8)]
    assert [record.turn for record in records] == [0, 1] * 8
    assert {record.task_id for record in records[:8]} == {records[0].task_id}, "a group is whole"
    log = read_log(tmp_path / "grpo" / LOG)
    assert log[0]["attempts"] == 1.0 and all(math.isfinite(entry["loss"]) for entry in log if "loss" in entry)


@pytest.mark.slow
def test_a_curriculum_draws_groups_that_two_ranks_share(tiny, tmp_path):
    """One group of four completions a step, two on each rank: no rank has a whole group."""
    words = ["grpo.trainer.per_device_train_batch_size=4", "grpo.trainer.num_generations=4", "grpo.trainer.max_steps=2"]
    chosen = ["curriculum=pass_rate", "reward=rule", "executor.timing=false", "launcher.processes=2"]
    run_stage("grpo", training_config(tmp_path, *tiny, *words, *chosen))
    records = list(Ledger(tmp_path / "grpo" / "records"))
    assert [record.id for record in records] == [f"grpo/{step}/{row}" for step in range(2) for row in range(4)]
    tasks = [{record.task_id for record in records if record.step == step} for step in range(2)]
    assert [len(each) for each in tasks] == [1, 1] and tasks[0] != tasks[1], "a group is whole; a new task comes next"


def test_a_curriculum_goes_on_where_a_killed_training_was(train, monkeypatch, tmp_path):
    observed = []
    observe = Curriculum.observe

    def killed(self, step, ids, solved):
        if step == 1 and not observed:
            observed.append(dict(self.seen))
            raise KeyboardInterrupt
        observe(self, step, ids, solved)

    monkeypatch.setattr(Curriculum, "observe", killed)
    words = ("curriculum=pass_rate", "reward=rule", "grpo.groups.replay={capacity: 2}")
    with pytest.raises(KeyboardInterrupt):
        train(*words)
    assert (tmp_path / "grpo" / "checkpoints" / "checkpoint-1" / "curriculum.json").exists()
    records, log = train(*words)
    assert observed[0].keys() == {record.task_id for record in records if record.step == 0}
    assert [record.id for record in records] == [f"grpo/{step}/{row}" for step in range(2) for row in range(4)]
    assert log[0]["curriculum/hard"] > 0 and log[0]["curriculum/new"] < 1


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        (
            ["grpo.turns.rows=3"],
            r"num_generations=4 is no multiple of grpo.turns.rows=3: a group",
        ),
        (["grpo.turns.gamma=2"], r"grpo.turns.gamma=2: Input should be less than or equal to 1"),
        (["grpo.turns.baseline=mean"], r"grpo.turns.baseline='mean': Input should be 'group'"),
        (["grpo.turns.role=judge"], r"grpo.turns.role=judge: grpo strategy=refine asks coder; train one of these"),
        (["+policy@policies.coder=endpoint", "policies.coder.model=m"], r"policies.coder: the trained policy plays"),
        (
            ["strategy=evolve", "strategy.verifier=0.5", "grpo.turns.role=verifier"],
            r"grpo.turns.role=verifier: in grpo strategy=evolve no kernel comes of .*; train coder$",
        ),
        (["reward=tritonrl"], r"a reward with a plan of its own has no turns"),
    ],
)
def test_what_cannot_be_trained_is_one_line(train, overrides, message):
    with pytest.raises(UserError, match=message):
        train(*REFINE, *overrides)
