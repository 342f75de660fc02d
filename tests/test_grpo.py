"""GRPO: the judge, and how training goes on after a kill."""

import json
import math
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from omegaconf import OmegaConf
from transformers import AutoModelForCausalLM, TrainerState

from conftest import KERNELS, REFERENCE
from curated import training_config, write_data
from kernelrl import grpo, sft
from kernelrl.candidate import Completion
from kernelrl.configs import compose_config, config_dir
from kernelrl.data.tables import read_table
from kernelrl.errors import UserError
from kernelrl.grpo.adjusting import Adjust
from kernelrl.grpo.figures import group_figures
from kernelrl.grpo.hierarchical import HierarchicalGRPOTrainer, group_advantages, plan_mask
from kernelrl.grpo.reward_function import RewardFunction
from kernelrl.grpo.trainer import lower_bound
from kernelrl.policies import models
from kernelrl.policies.prompts import PLAIN, Reasoning, render, to_text
from kernelrl.records import Ledger
from kernelrl.rewards import make_reward
from kernelrl.stage_folder import read_log
from kernelrl.task import Task
from kernelrl.training.hacking import alarms
from kernelrl.verdict import Speedup, Verdict

TASK = Task(id="relu2", source=REFERENCE)
REWARD = {"name": "plain", "terms": {"correct": {"gates": ["rule"]}}}


def judge(executor, ledger, texts, step=7, **options):
    metrics = {}
    known = {TASK.id: [KERNELS["right"]]}
    reward = make_reward(REWARD)
    rewards = RewardFunction(executor, reward, ledger, "cpp", policy="p", references=known, **options)(
        prompts=[[{"role": "user", "content": "?"}]] * len(texts),
        completions=[[{"role": "assistant", "content": text}] for text in texts],
        task=[TASK.model_dump_json()] * len(texts),
        trainer_state=TrainerState(global_step=step),
        log_metric=metrics.__setitem__,
        completion_ids=[[1]] * len(texts),
    )
    return rewards, metrics


def test_every_completion_gets_a_reward_and_a_record(tmp_path, executor_cache, kept_executor):
    texts = [f"<think>\nwhy\n</think>\n```python\n{source}```\n" for source in KERNELS.values()] + ["no kernel"]
    ledger = Ledger(tmp_path)
    with kept_executor({"draws": "tests", "timing": False, "cache_dir": str(executor_cache)}) as executor:
        rewards, metrics = judge(executor, ledger, texts)
    assert rewards == [1.0, 0.0, 0.0, 0.0, 0.0]
    records = list(ledger)
    assert [record.id for record in records] == [f"grpo/7/{index}" for index in range(5)]
    assert [record.completion for record in records] == texts
    assert [record.verdict.status for record in records][:3] == ["correct", "incorrect", "compile_error"]
    assert metrics["correct"] == 0.2 and metrics["parsed"] == 0.8 and metrics["legal"] == 0.6
    assert metrics["compiled"] == 0.4 and metrics["infrastructure"] == 0.0
    assert 0.3 < metrics["similarity"] < 1 and metrics["duplicates"] == 0
    assert metrics["lone_groups"] == metrics["silent_groups"] == metrics["retested"] == 0
    assert metrics["broke/no_kernel"] == 0.4 and metrics["broke/library_call"] == 0.2 and metrics["coverage"] > 0.5


def test_a_kernel_that_is_rejected_by_its_profile_is_rejected_with_its_plan(tmp_path):
    verdict = Verdict(
        task_id="relu2", candidate="c", status="correct", stage="correct", dialect="cpp", device="cpu", coverage=0.1
    )
    executor = SimpleNamespace(evaluate=lambda requests: [verdict for _ in requests])
    reward = make_reward(REWARD | {"plan": {"weight": 0.1, "terms": {"coverage": {}}}})
    adjust = Adjust(coverage=(0.3, 0.4))
    function = RewardFunction(executor, reward, Ledger(tmp_path), "cpp", "p", {}, adjust=adjust, max_tokens=9)
    found = function(
        prompts=[[{"role": "user", "content": "?"}]],
        completions=[[{"role": "assistant", "content": f"```python\n{KERNELS['right']}```\n"}]],
        task=[TASK.model_dump_json()],
        trainer_state=TrainerState(global_step=0),
        log_metric=lambda *_: None,
        completion_ids=[[1]],
    )
    assert found == function.plans == [None]


@pytest.mark.slow
def test_records_of_a_step_that_generates_twice_have_names_of_their_own(cfg):
    cfg.grpo.trainer = {**cfg.grpo.trainer, "gradient_accumulation_steps": 2, "steps_per_generation": 1, "max_steps": 2}
    cfg.executor.timing = False
    expected = [f"grpo/{step}/{index}" for step in range(2) for index in range(8)]
    assert ids(grpo.run(cfg)) == expected


class Broken:
    """An executor that learns nothing."""

    def evaluate(self, requests):
        return [
            Verdict(
                task_id=r.task.id,
                candidate=None,
                status="infrastructure",
                fault="executor",
                stage="none",
                dialect="cpp",
                device="cpu",
            )
            for r in requests
        ]


def test_an_outage_is_no_reward_rather_than_zero(tmp_path):
    rewards, metrics = judge(Broken(), Ledger(tmp_path), ["a", "b"])
    assert rewards == [None, None]
    assert metrics.pop("judge_seconds") >= 0
    assert metrics == {"infrastructure": 1.0, "retested": 0, "retest_disagreed": 0}


def timed(speedup):
    low, median, high = speedup
    return Verdict(
        task_id="relu2",
        candidate="c",
        status="correct",
        stage="correct",
        dialect="cpp",
        device="cpu",
        speedup=Speedup(median=median, low=low, high=high, pairs=9),
    )


def entries(signs):
    return [{"step": step, "legal": 1.0, **each} for step, each in enumerate(signs)]


def test_the_watch_tells_when_a_sign_rises():
    quiet = [{"broke/library_call": 0.02 + 0.01 * (step % 3), "coverage": 1.0} for step in range(20)]
    assert alarms(entries(quiet)) == []
    risen = quiet + [{"broke/library_call": 0.3, "coverage": 1.0}] * 5
    (alarm,) = alarms(entries(risen))
    assert alarm.sign == "broke/library_call" and 20 <= alarm.step < 25
    assert "library_call rose from" in str(alarm)
    (alarm,) = alarms(entries(quiet + [{"coverage": 0.6}] * 5))
    assert alarm.sign == "uncovered"


def test_the_watch_leaves_failures_and_chance_alone():
    learning = [{"broke/no_kernel": 0.1 * step} for step in range(10)]
    noisy = [{"broke/library_call": 0.5 * (step % 2)} for step in range(30)]
    assert alarms(entries(learning)) == alarms(entries(noisy)) == []


def test_advantages_are_those_of_trl():
    rewards = torch.tensor([1.0, 0.0, 0.0, 1.0, 2.0, 2.0, 2.0, math.nan])
    scaled = group_advantages(rewards, 4, "group")
    deviation = rewards[:4].std()
    assert scaled[:4].tolist() == pytest.approx(((rewards[:4] - 0.5) / (deviation + 1e-4)).tolist())
    assert scaled[4:].tolist() == [0, 0, 0, 0]
    assert group_advantages(rewards, 4, "none")[:4].tolist() == [0.5, -0.5, -0.5, 0.5]


def test_noise_in_an_all_correct_group_is_no_advantage(tmp_path):
    """Speedups of 1.50 to 1.53: divided by their standard deviation they would be advantages from -1 to 1.6."""
    cfg = training_config(tmp_path)
    completion = Completion.parse(f"```python\n{KERNELS['right']}```\n")
    medians = [1.50, 1.51, 1.53, 1.50, 1.50, 1.51, 1.50, 1.50]
    for width in (1.03, 1.0001):  # measured with noise, and precisely
        group = [(completion, timed((median / width, median, median * width))) for median in medians]
        scores = make_reward(cfg.reward).of_groups(group, ["relu2"] * 8, progress=1.0)
        rewards = torch.tensor([score.total for score in scores])
        advantages = group_advantages(rewards, 8, cfg.grpo.trainer.scale_rewards)
        assert advantages.abs().max() < 0.01
        assert (advantages == 0).all() == (width == 1.03)
        figures = group_figures(["relu2"] * 8, scores)
        assert figures["silent_groups"] + figures["nearly_silent_groups"] == 1
        assert figures["silent_groups"] == (width == 1.03)


def test_the_plan_is_what_stands_before_the_kernel(cfg):
    tokenizer = models.load_policy(Path(cfg.grpo.policy))[1]
    plan, code = "<think>\nfuse all\n</think>\n", "```python\nclass ModelNew: pass\n```\n"
    ids = [tokenizer(text)["input_ids"] for text in (plan, plan + code)]
    padded = torch.tensor([ids[1] + [tokenizer.pad_token_id] * 3, ids[0] + [0] * (len(ids[1]) + 3 - len(ids[0]))])
    for reasoning in (PLAIN, Reasoning(opening="<think>\n")):
        mask = plan_mask(tokenizer, padded, [len(ids[1]), len(ids[0])], reasoning)
        assert tokenizer.decode(padded[0][mask[0]]).strip() == plan.strip()
        assert mask[1].sum() == len(ids[0]), "without a kernel all is plan"


DRAFT = f"perhaps\n```python\n{KERNELS['right']}```\nor rather"


def test_a_draft_in_reasoning_that_the_template_opened_is_not_judged(tmp_path, executor_cache, kept_executor):
    """The first completion was cut off while it reasoned, the second has reasoned and answers."""
    ledger = Ledger(tmp_path)
    with kept_executor({"draws": "tests", "timing": False, "cache_dir": str(executor_cache)}) as executor:
        rewards, _ = judge(
            executor, ledger, [DRAFT, f"{DRAFT}\n</think>\n{DRAFT}"], reasoning=Reasoning(opening="<think>\n")
        )
    assert rewards == [0.0, 1.0]
    assert [record.verdict.status for record in ledger] == ["illegal", "correct"]
    (cut, _) = [Completion.parse(record.completion) for record in ledger]
    assert cut.source is None and cut.reasoning == DRAFT, "whoever reads the ledger sees the same"


@pytest.mark.slow
@pytest.mark.parametrize("thinks", [True, False])
def test_grpo_asks_the_chat_template_whether_it_opens_the_reasoning(thinks, cfg):
    template = Path(cfg.grpo.policy) / "chat_template.jinja"
    opening = "<|assistant|>{% if enable_thinking %}<think>\n{% endif %}{% endif %}"
    template.write_text(template.read_text().replace("<|assistant|>{% endif %}", opening))
    cfg.grpo.trainer.max_steps = 1
    cfg.model.chat_template_kwargs = {"enable_thinking": thinks}
    records = list(Ledger(grpo.run(cfg) / "records"))
    assert records and all(record.completion.startswith("<think>\n") == thinks for record in records)


def test_plan_and_code_are_trained_apart(cfg, monkeypatch):
    cfg.reward = OmegaConf.load(config_dir() / "reward" / "tritonrl.yaml")
    seen = []
    compute_loss = HierarchicalGRPOTrainer._compute_loss
    monkeypatch.setattr(
        HierarchicalGRPOTrainer,
        "_compute_loss",
        lambda self, model, inputs: seen.append(inputs["advantages"]) or compute_loss(self, model, inputs),
    )
    folder = grpo.run(cfg)
    assert ids(folder) == EVERY_ID
    assert {advantages.dim() for advantages in seen} == {2}
    assert {"rewards/kernelrl/mean", "rewards/plan/mean"} <= read_log(folder / "log.jsonl")[0].keys()


def test_a_reward_that_needs_known_kernels_says_so(cfg, tmp_path):
    cfg.grpo.references = str(tmp_path / "sft_train.parquet")
    cfg.reward = {"name": "cold", "terms": {"similarity": {"weight": 0.1}}}
    with pytest.raises(UserError, match=r"sft_train.parquet: no such file"):
        grpo.run(cfg)


@pytest.fixture(scope="module", autouse=True)
def _kept_executor(kept_executor):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(grpo, "make_executor", kept_executor)
        yield


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """The overrides with which a run goes on from a data set and an SFT policy."""
    cfg = training_config(tmp_path_factory.mktemp("trained"))
    write_data(cfg)
    sft.run(cfg)
    return [f"curate.folder={cfg.curate.folder}", f"sft.folder={cfg.sft.folder}"]


@pytest.fixture
def cfg(trained, tmp_path):
    return training_config(tmp_path, *trained)


def logits(policy):
    model, tokenizer = models.load_policy(policy)
    with torch.no_grad():
        return model.eval()(tokenizer("for (int64_t i = 0;", return_tensors="pt")["input_ids"]).logits


@pytest.mark.parametrize("stage", ["final", "final/adapter"])
@pytest.mark.parametrize("adapter", ["{r: 2}", "null"])
def test_what_sft_taught_an_adapter_is_there_after_grpo(adapter, stage, tmp_path):
    """Without a step in GRPO its policy is SFT's, as a folder and as the reference of the KL term."""
    overrides = ["sft.peft={r: 2}", f"grpo.peft={adapter}", f"grpo.policy={tmp_path}/sft/{stage}"]
    frozen = ["grpo.trainer.learning_rate=0.0", "grpo.trainer.beta=0.1", "grpo.trainer.max_steps=1"]
    cfg = training_config(tmp_path, "sft.trainer.learning_rate=1e-2", *overrides, *frozen)
    write_data(cfg)
    sft.run(cfg)
    folder = grpo.run(cfg)
    taught = logits(tmp_path / "sft" / "final")
    assert (taught - logits(tmp_path / "sft" / "base")).abs().max() > 0.01
    assert torch.equal(logits(folder / "final"), taught)
    assert read_log(folder / "log.jsonl")[0]["kl"] == pytest.approx(0, abs=1e-6)
    whole = AutoModelForCausalLM.from_pretrained(folder / "final")  # as vLLM reads it: no adapter to be found
    assert (folder / "final" / "config.json").exists() and not (folder / "final" / "adapter_config.json").exists()
    assert len(whole.state_dict()) == len(models.load_policy(folder / "final")[0].state_dict())


@pytest.mark.slow
def test_norms_beside_an_adapter_learn_at_their_own_rate(trained, tmp_path):
    """The adapter at none at all. What a policy of almost random weights is paid for is to end."""
    adapter = "grpo.peft={r: 2, target_modules: all-linear, modules_to_save: [norm]}"
    rates = ["grpo.trainer.learning_rate=0.0", "grpo.rates={norm: 1e-1}", "grpo.trainer.max_steps=3"]
    paid = ["grpo.trainer.max_completion_length=256", "grpo.adjust.overlong=255"]
    batch = "grpo.trainer.per_device_train_batch_size=8"
    cfg = training_config(tmp_path, *trained, adapter, *rates, *paid, batch)
    before = models.load_policy(cfg.grpo.policy)[0].state_dict()
    after = models.load_policy(grpo.run(cfg) / "final")[0].state_dict()
    changed = {name for name in before if not torch.equal(before[name], after[name])}
    assert changed and all("norm" in name for name in changed)


def ids(folder):
    return [record.id for record in Ledger(folder / "records")]


EVERY_ID = [f"grpo/{step}/{index}" for step in range(4) for index in range(4)]


def test_it_leaves_final_records_and_log_and_goes_on_after_a_kill(cfg, caplog):
    folder = grpo.run(cfg)
    assert (folder / "final" / "config.json").exists()
    assert ids(folder) == EVERY_ID
    entries = [entry for entry in read_log(folder / "log.jsonl") if "reward" in entry]
    assert [entry["step"] for entry in entries] == [1, 2, 3, 4]
    assert {"parsed", "legal", "compiled", "correct", "loss", "entropy", "judge_seconds"} <= entries[0].keys()
    assert {"generate_seconds", "train_seconds", "tokens_per_second", "step_time"} <= entries[0].keys()
    assert {"completions/clipped_ratio", "clip_ratio/region_mean"} <= entries[0].keys(), "TRL's own"
    [health] = json.loads((folder / "health" / "rank0.json").read_text())["nodes"]
    assert health["alive"] and health["running"] == 0

    (folder / "done.json").unlink()  # as if killed after step 4, with a checkpoint that is not whole
    (folder / "checkpoints" / "checkpoint-4" / "seal.json").unlink()
    grpo.run(cfg)
    assert ids(folder) == EVERY_ID
    assert "8 record(s) of step 2 and later set aside" in caplog.text
    assert [entry["step"] for entry in read_log(folder / "log.jsonl") if "reward" in entry] == [1, 2, 3, 4]


def test_it_validates_on_held_out_tasks_and_keeps_the_best_checkpoint(cfg, caplog):
    """The second of three validations is the best: its checkpoint outlives the limit of one."""
    tokenizer = models.load_policy(cfg.grpo.policy)[1]
    held_out = read_table(Path(cfg.grpo.validation.tasks), ["prompt"])
    lengths = [len(tokenizer(render(tokenizer, row["prompt"], {}))["input_ids"]) for row in held_out]
    cfg.grpo.max_prompt_length = lengths[0] - 1
    short = [length for length in lengths if length < lengths[0]]
    fields = {"eval_strategy": "steps", "eval_steps": 1, "per_device_eval_batch_size": 4, "save_steps": 4}
    cfg.grpo.trainer = {**cfg.grpo.trainer, **fields, "max_steps": 3, "save_total_limit": 1}
    cfg.grpo.validation.num_tasks = 2
    cfg.executor.timing = False
    rewards = iter([0.1, 0.7, 0.3])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("kernelrl.grpo.trainer.lower_bound", lambda found: next(rewards) if len(found) == 4 else None)
        folder = grpo.run(cfg)
    assert ids(folder) == EVERY_ID[:12], "what is validated is not what is learnt from"
    validated = list(Ledger(folder / "validation" / "records"))
    assert f"{len(lengths) - len(short)} of {len(lengths)} held-out tasks are longer" in caplog.text
    assert {to_text(held_out[lengths.index(length)]["prompt"]) for length in short[:2]} == {
        it.prompt for it in validated
    }
    assert len(validated) == 12 and {record.stage for record in validated} == {"validation"}
    log = read_log(folder / "log.jsonl")
    assert [entry["eval_reward_low"] for entry in log if "eval_reward_low" in entry] == [0.1, 0.7, 0.3]
    assert {"eval_correct", "eval_reward"} <= {name for entry in log for name in entry}
    done = json.loads((folder / "done.json").read_text())
    assert done["best_step"] == 2 and done["best_reward_low"] == 0.7
    assert models.load_policy(folder / "checkpoints" / "checkpoint-2")


def test_the_lower_bound_is_that_of_tasks_and_not_of_samples():
    alike = [(task, reward) for task, reward in (("a", 0.0), ("b", 1.0), ("c", 1.0), ("d", 0.0)) for _ in range(50)]
    assert lower_bound(alike) < 0.1 < 0.4 < lower_bound([(str(n), n % 2) for n in range(200)])
    assert lower_bound([]) == -math.inf
    assert lower_bound([("a", 0.0), ("a", 1.0)]) == 0.5, "one task has no interval"


def test_what_is_missing_is_one_line(tmp_path):
    cfg = training_config(tmp_path)
    with pytest.raises(UserError, match=r"tasks_train.parquet: no such file; run kernelrl curate first"):
        grpo.run(cfg)
    write_data(cfg)
    with pytest.raises(UserError, match=r"no model there; run the stage that writes it"):
        grpo.run(cfg)


def test_it_may_start_from_a_model_of_the_hub(cfg, monkeypatch):
    asked = []

    def download(name, revision, allow_patterns):
        asked.append((name, revision))
        raise OSError("no such repository")

    monkeypatch.setattr(models, "snapshot_download", download)
    cfg.grpo.policy = "me/kernels"
    cfg.model = compose_config("grpo", ["model=hf", "model.name=me/kernels", "model.revision=v2"]).model
    with pytest.raises(UserError, match="policy me/kernels: .* from the hub: no such repository"):
        grpo.run(cfg)
    assert asked == [("me/kernels", "v2")]


def test_a_punishment_of_every_length_is_refused(cfg):
    cfg.grpo.adjust.overlong = cfg.grpo.trainer.max_completion_length
    with pytest.raises(UserError, match=r"give fewer tokens than grpo.trainer.max_completion_length"):
        grpo.run(cfg)


@pytest.mark.slow
def test_killed_at_any_moment_no_record_is_lost_or_doubled(cfg, trained, server, tmp_path):
    ledger, output = Path(cfg.grpo.folder) / "records" / "rank0.jsonl", tmp_path / "output"
    command = ("curated:run", "kernelrl.grpo", cfg.output_dir, trained)

    def length():
        return ledger.stat().st_size if ledger.exists() else 0

    for _ in range(3):  # each time as soon as a batch has reached the ledger
        size = length()
        server.kill_at(lambda size=size: length() > size, *command, folder=tmp_path, output=output)
    assert server.start(*command, folder=tmp_path, output=output).wait() == 0, output.read_text()
    assert ids(Path(cfg.grpo.folder)) == EVERY_ID
