"""Estimators on a small batch against references written by hand: advantages, losses and their gradients."""

import math
import re
from pathlib import Path
from statistics import fmean, stdev
from typing import NamedTuple

import datasets
import pytest
import torch
from trl import GRPOConfig

from curated import training_config
from kernelrl.configs import compose_config, to_dict
from kernelrl.data.tables import TASKS_TRAIN, read_table
from kernelrl.grpo.adjusting import Adjust, adjusted
from kernelrl.grpo.figures import broken_rules
from kernelrl.grpo.group_choice import GroupChoice, GroupSettings, silent_groups
from kernelrl.grpo.replay_buffer import ReplayBuffer, ReplaySettings
from kernelrl.grpo.reward_function import SharedRewardFunction
from kernelrl.grpo.turns_trainer import TurnsGRPOTrainer
from kernelrl.policies import models
from kernelrl.training import ranks
from kernelrl.verdict import Verdict, Violation

SIZE = 4
"""Rows of a group; a batch has two groups."""
NAN = math.nan


class Paid(SharedRewardFunction):
    """Pays rewards that were settled before, batch by batch, to trajectories of two turns."""

    def __init__(self):
        super().__init__(None)
        self.batches = []

    def __call__(self, prompts, **columns):
        rewards = self.batches.pop(0)
        self.solved, self.turns = [bool(reward) for reward in rewards], [row % 2 for row in range(len(rewards))]
        return list(rewards)


class Written:
    """Completions that were written before: of batch n the tokens 10 n + 1, 10 n + 2, … of rising lengths."""

    num_batches = 0

    def __call__(self, prompts, trainer):
        self.num_batches += 1
        ids = [[10 * self.num_batches + row] * (2 + row % SIZE) for row in range(len(prompts))]
        return {"prompt_ids": [[5, 6]] * len(prompts), "completion_ids": ids, "logprobs": None}


@pytest.fixture(scope="module")
def made(tiny, tmp_path_factory):
    """A real trainer on a tiny policy, whose completions and rewards are given."""
    folder = tmp_path_factory.mktemp("estimators")
    cfg = training_config(folder, *tiny)
    model, tokenizer = models.load_policy(Path(cfg.grpo.policy))
    rows = read_table(Path(cfg.grpo.data) / TASKS_TRAIN, ("task_id", "prompt", "task"))
    fields = {"per_device_train_batch_size": 2 * SIZE, "num_generations": SIZE, "max_completion_length": 8}
    arguments = GRPOConfig(output_dir=str(folder), **fields, beta=0.0, report_to=[], use_cpu=True, bf16=False)
    trainer = TurnsGRPOTrainer(
        model=model,
        reward_funcs=Paid(),
        args=arguments,
        train_dataset=datasets.Dataset.from_list(rows),
        processing_class=tokenizer,
        rollout_func=Written(),
    )
    trainer.current_gradient_accumulation_steps = 1
    trainer.model.train()
    return trainer, rows


@pytest.fixture
def trainer(made):
    trainer, _ = made
    trainer.baseline, trainer.groups = "group", None
    trainer.rollout_func.num_batches = 0
    return trainer


def score(trainer, rows, *batches):
    trainer.reward_funcs[0].batches = list(batches)
    inputs = [dict(rows[group]) for group in range(2) for _ in range(SIZE)]
    return trainer._generate_and_score_completions(inputs)


BATCHES = {
    "two groups": [1.0, 0.0, 3.0, 2.0, 0.5, 0.5, 0.25, 1.0],
    "zero variance": [1.0] * 8,
    "rows left out, and a group of one": [1.0, None, 3.0, 2.0, None, None, None, 1.0],
}


def by_hand(rewards, baseline, scale):
    """The definitions, row by row; a row that has nothing to be compared with has advantage 0."""
    found = []
    for row, own in enumerate(rewards):
        first = row // SIZE * SIZE
        group = range(first, first + SIZE)
        rows = {
            "group": group,
            "leave_one_out": [other for other in group if other != row],
            "turn_leave_one_out": [o for o in group if o != row and o % 2 == row % 2],
            "batch": range(len(rewards)),
        }[baseline]
        known = [rewards[other] for other in rows if rewards[other] is not None]
        if own is None or not known:
            found.append(0.0)
            continue
        spread = [r for r in (rewards[first : first + SIZE] if scale == "group" else rewards) if r is not None]
        deviation = stdev(spread) if len(spread) > 1 else 0.0
        found.append((own - fmean(known)) / (1.0 if scale == "none" else deviation + 1e-4))
    return found


class Estimator(NamedTuple):
    """The settings that make it what it is."""

    baseline: str
    scale: str
    """`scale_rewards`: of the advantages."""
    loss: str
    level: str = "token"
    """Of the importance sampling."""
    low: float = 0.2
    high: float = 0.2
    """Where ratios are clipped: at `1 - low` and `1 + high`; CISPO clips them at `high`, and not below."""


ESTIMATORS = {
    "GRPO": Estimator("group", "group", "grpo"),
    "Dr. GRPO": Estimator("group", "none", "dr_grpo"),
    "RLOO": Estimator("leave_one_out", "none", "dr_grpo"),
    "TRLOO": Estimator("turn_leave_one_out", "none", "dr_grpo"),
    "REINFORCE": Estimator("batch", "batch", "dr_grpo"),
    "DAPO": Estimator("group", "group", "dapo", high=0.28),
    "GSPO": Estimator("group", "group", "grpo", "sequence", 3e-4, 4e-4),
    "CISPO": Estimator("group", "group", "cispo", high=5.0),
}


def documented():
    """The table of `docs/strategies.md`: the overrides of each estimator."""
    text = (Path(__file__).parents[1] / "docs" / "strategies.md").read_text()
    _, rest = text.split("| estimator | fields of `grpo.trainer` | and |\n|---|---|---|\n")
    for line in rest.split("\n\n")[0].splitlines():
        name, fields, others = (cell.strip() for cell in line.strip("|").split("|"))
        yield name, [f"++grpo.trainer.{word}" for word in fields.strip("`").split()] + re.findall("`(.+?)`", others)


@pytest.mark.parametrize(("name", "overrides"), [pytest.param(*row, id=row[0]) for row in documented()])
def test_the_overrides_of_the_document_make_the_estimator(name, overrides, tmp_path):
    cfg = compose_config("grpo", overrides).grpo
    made = GRPOConfig(**to_dict(cfg.trainer) | {"use_cpu": True}, output_dir=str(tmp_path), report_to=[])
    high = made.epsilon if made.epsilon_high is None else made.epsilon_high
    found = (cfg.turns.baseline, made.scale_rewards, made.loss_type, made.importance_sampling_level, made.epsilon, high)
    assert Estimator(*found) == ESTIMATORS[name]
    assert made.beta == 0.0, "no KL term"


def test_the_document_names_every_estimator():
    assert [name for name, _ in documented()] == list(ESTIMATORS)


ADVANTAGES = sorted({(each.baseline, each.scale) for each in ESTIMATORS.values()})


@pytest.mark.parametrize(("baseline", "scale"), ADVANTAGES)
@pytest.mark.parametrize("batch", BATCHES)
def test_the_trainers_advantages_are_those_of_the_paper(trainer, made, baseline, scale, batch):
    trainer.baseline, trainer.scale_rewards = baseline, scale
    output = score(trainer, made[1], BATCHES[batch])
    expected = by_hand(BATCHES[batch], trainer.baseline, trainer.scale_rewards)
    assert output["advantages"].tolist() == pytest.approx(expected, abs=1e-5)


LOSSES = sorted({(each.loss, each.level) for each in ESTIMATORS.values()})


def loss_by_hand(loss, level, logps, old, advantages, mask, low, high, longest):
    ratio = (logps - old).exp()
    if level == "sequence":  # one ratio for a sequence: the geometric mean of its tokens'
        ratio = (((logps - old) * mask).sum(1) / mask.sum(1)).exp()[:, None].expand_as(logps)
    clipped = torch.minimum(ratio * advantages[:, None], ratio.clamp(1 - low, 1 + high) * advantages[:, None])
    if loss == "cispo":  # clipped above alone, and a weight that has no gradient
        clipped = ratio.clamp(max=high).detach() * advantages[:, None] * logps
    summed = (clipped * mask).sum(1)
    if loss == "dr_grpo":  # a constant length
        return -(summed / longest).mean()
    if loss in ("dapo", "cispo"):  # every token counts the same
        return -summed.sum() / mask.sum()
    return -(summed / mask.sum(1)).mean()


@pytest.mark.parametrize(("loss", "level"), LOSSES)
def test_the_trainers_loss_is_that_of_the_paper_and_so_is_its_gradient(trainer, made, loss, level):
    """Clipped above at 1.28 and below at 0.8 (clip-higher), where ratios are anywhere between 0.4 and 2.7."""
    trainer.scale_rewards = "none"
    inputs = score(trainer, made[1], BATCHES["two groups"])
    fields = {"loss_type": loss, "importance_sampling_level": level, "epsilon_low": 0.2, "epsilon_high": 0.28}
    with pytest.MonkeyPatch.context() as patch:
        for name, value in fields.items():
            patch.setattr(trainer, name, value)
        model, mask = trainer.model, inputs["completion_mask"]
        noise = torch.rand(mask.shape, generator=torch.Generator().manual_seed(0)) * 2 - 1
        inputs["old_per_token_logps"] = old = trainer.log_probabilities(inputs) + noise
        ids = torch.cat([inputs["prompt_ids"], inputs["completion_ids"]], 1)
        attention = torch.cat([inputs["prompt_mask"], mask], 1)
        embeddings = model.get_input_embeddings().weight
        width = mask.shape[1]
        logits = model(input_ids=ids, attention_mask=attention).logits[:, -width - 1 : -1]
        logps = logits.log_softmax(-1).gather(-1, ids[:, -width:, None]).squeeze(-1)
        expected = loss_by_hand(loss, level, logps, old, inputs["advantages"], mask, 0.2, 0.28, 8)
        (wanted,) = torch.autograd.grad(expected, embeddings)
        found = trainer.compute_loss(model, inputs)
        (gradient,) = torch.autograd.grad(found, embeddings)
    assert found.item() == pytest.approx(expected.item(), rel=1e-4)
    torch.testing.assert_close(gradient, wanted, rtol=1e-3, atol=1e-6)
    assert gradient.abs().max() > 0


def test_dynamic_sampling_replaces_silent_groups_by_those_of_further_batches(trainer, made):
    trainer.groups = GroupChoice(GroupSettings(resample=3, replay=None), made[1], None, seed=0)
    trainer.scale_rewards = "none"
    silent, mixed = [1.0] * SIZE, [0.0, 1.0, 0.0, 1.0]
    output = score(trainer, made[1], [*mixed, *silent], [*silent, *silent], [*silent, *mixed])
    assert not trainer.reward_funcs[0].batches, "it stops as soon as no group is silent"
    ids = output["completion_ids"]
    assert ids[:SIZE, 0].tolist() == [10, 11, 12, 13], "what teaches stays"
    assert ids[SIZE:, 0].tolist() == [34, 35, 36, 37], "the second group of the third batch"
    assert output["advantages"].tolist() == [-0.5, 0.5, -0.5, 0.5] * 2
    assert output["num_items_in_batch"] == output["completion_mask"].sum()


def test_a_steps_time_of_generation_is_that_of_all_its_batches(trainer, made):
    """`train_seconds` is what is left of the step, without it."""
    trainer.groups = GroupChoice(GroupSettings(resample=2, replay=None), made[1], None, seed=0)
    trainer._scored_s = 0.0
    trainer._metrics["train"]["generate_seconds"] = []
    score(trainer, made[1], *[[0.0] * 8] * 3)
    each = trainer._metrics["train"]["generate_seconds"]
    assert len(each) == 3 and trainer._scored_s == pytest.approx(sum(each)), "rewards took no time here"


def test_a_rule_that_nobody_broke_in_a_batch_counts_as_zero(trainer):
    """Five completions a batch, logged every three batches: the second breaks a rule once, the fifth three times."""
    whole, broken = (verdict_of(rule) for rule in (None, "library_call"))
    trainer._metrics["train"].clear()
    means = []
    for interval in ((0, 1, 0), (0, 3, 0), (0, 0, 0)):
        for num in interval:
            verdicts = [broken] * num + [whole] * (5 - num)
            for name, value in {"legal": 1 - num / 5, **broken_rules(verdicts)}.items():
                trainer.log_figure(name, value)  # as TRL does: one value of a batch
        logged: dict[str, float] = {}
        trainer.log(logged)
        means.append({name: value for name, value in logged.items() if name.startswith("broke/")})
    assert means == [{"broke/library_call": pytest.approx(share)} for share in (1 / 15, 3 / 15, 0)]


def verdict_of(rule):
    return Verdict(
        task_id="relu2",
        candidate="c",
        status="illegal" if rule else "correct",
        stage="ran" if rule else "correct",
        dialect="cpp",
        device="cpu",
        violations=(Violation(rule=rule, evidence="x"),) if rule else (),
    )


def test_dynamic_sampling_gives_up_after_so_many_batches(trainer, made):
    trainer.groups = GroupChoice(GroupSettings(resample=2, replay=None), made[1], None, seed=0)
    output = score(trainer, made[1], *[[0.0] * 8] * 3)
    assert trainer.rollout_func.num_batches == 3 and not output["advantages"].any()


def test_a_silent_group_is_one_whose_known_rewards_are_alike():
    rewards = torch.tensor([1.0, 1.0, NAN, 1.0, 0.0, 1.0, NAN, NAN, NAN, NAN, NAN, 2.0])
    assert silent_groups(rewards, SIZE, torch.zeros(12)) == [0, 2]
    assert silent_groups(rewards, SIZE, torch.tensor([0, 1] * 6)) == [0, 1, 2], "0 and 1 are of different turns"


def test_a_group_that_differs_between_turns_alone_is_silent_where_turns_are_compared(trainer, made):
    """Every trajectory is right in both turns: the first earns 1 + 0.4 of the second, and its advantages are 0."""
    trainer.groups = GroupChoice(GroupSettings(resample=1, replay=None), made[1], None, seed=0)
    trainer.baseline, trainer.scale_rewards = "turn_leave_one_out", "none"
    alike, mixed = [1.4, 1.0] * 2, [1.4, 1.0, 0.0, 0.0]
    output = score(trainer, made[1], [*mixed, *alike], [*mixed, *mixed])
    assert output["completion_ids"][SIZE:, 0].tolist() == [20, 21, 22, 23], "the first group of the second batch"
    assert output["advantages"].tolist() == pytest.approx([1.4, 1.0, -1.4, -1.0] * 2)


def test_a_solved_hard_task_comes_back_where_a_group_teaches_nothing(trainer, made, tmp_path):
    settings = GroupSettings(resample=0, replay=ReplaySettings(capacity=4, solved=0.5, max_age=10))
    trainer.groups = GroupChoice(settings, made[1], None, seed=0)
    trainer.scale_rewards = "none"
    first = score(trainer, made[1], [0.0, 0.0, 0.0, 1.0, 1.0, 1.0, 1.0, 0.0])
    trainer.groups.save(tmp_path)
    trainer.groups = GroupChoice(settings, made[1], None, seed=0)
    trainer.groups.load(tmp_path)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(trainer.state, "global_step", 1)
        second = score(trainer, made[1], [*[0.0] * SIZE, 0.0, 1.0, 0.0, 1.0])
    assert second["completion_ids"][:SIZE, 0].tolist() == [10, 11, 12, 13], "one of four was right; the other was easy"
    assert second["completion_ids"][SIZE:, 0].tolist() == [24, 25, 26, 27]
    assert torch.equal(second["advantages"][:SIZE], first["advantages"][:SIZE])
    assert torch.allclose(second["old_per_token_logps"][:SIZE, :5], first["old_per_token_logps"][:SIZE, :5])


def test_a_replay_buffer_goes_on_on_another_number_of_ranks(tmp_path, monkeypatch):
    """Saved by two ranks: one takes both buffers, and of three the last has none."""

    def buffer(rank, num_ranks):
        monkeypatch.setattr(ranks, "rank", lambda: rank)
        monkeypatch.setattr(ranks, "num_ranks", lambda: num_ranks)
        return ReplayBuffer(ReplaySettings(), seed=0)

    for rank in range(2):
        one = buffer(rank, 2)
        one.add(5 - rank, {"advantages": torch.ones(2)}, 0.5)
        one.save(tmp_path)
    found = []
    for rank, num_ranks in ((0, 1), (0, 3), (1, 3), (2, 3)):
        one = buffer(rank, num_ranks)
        one.load(tmp_path)
        found.append([step for step, _ in one._groups])
    assert found == [[4, 5], [5], [4], []]


def test_the_soft_overlong_punishment_is_equation_13_of_dapo():
    """None up to 80 of 100 tokens, then linear, 1 from the longest on."""
    verdict = Verdict(task_id="t", candidate="c", status="correct", stage="correct", dialect="cpp", device="cpu")
    paid = [adjusted(1.0, verdict, n, 100, Adjust(overlong=20), "a").reward for n in (10, 80, 90, 100, 101)]
    assert paid == pytest.approx([1.0, 1.0, 0.5, 0.0, 0.0])
    assert adjusted(None, verdict, 100, 100, Adjust(overlong=20), "a").reward is None, "an outage is no punishment"


def test_a_kernel_that_does_little_of_the_work_is_rejected_with_dr_kernels_probability():
    def kept(coverage):
        fields = {"task_id": "t", "candidate": "c", "status": "correct", "stage": "correct", "dialect": "cpp"}
        verdict = Verdict(**fields, device="cpu", coverage=coverage)
        settings = Adjust(coverage=(0.3, 0.4))
        return fmean(adjusted(1.0, verdict, 1, 9, settings, str(n)).reward is not None for n in range(400))

    assert kept(0.3) == 0 and kept(0.4) == kept(1.0) == 1 and 0.4 < kept(0.35) < 0.6
