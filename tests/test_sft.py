"""SFT: what it leaves behind, and how it goes on after a kill."""

import json
import shutil
from importlib.resources import files
from pathlib import Path
from types import SimpleNamespace

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from peft import LoraConfig, get_peft_model
from transformers import AutoModelForCausalLM, Qwen3Config, Qwen3ForCausalLM, TrainerControl, TrainerState
from trl import GRPOConfig, SFTConfig, SFTTrainer

from curated import training_config, write_data
from kernelrl import sft
from kernelrl.candidate import Completion
from kernelrl.configs import compose_config
from kernelrl.data.tables import read_table
from kernelrl.errors import InfrastructureError, UserError
from kernelrl.policies import models
from kernelrl.policies.backends import defaults, open_policy
from kernelrl.policies.settings import ModelSettings
from kernelrl.sft.template import fit_template
from kernelrl.stage_folder import read_log
from kernelrl.training import checkpoints, seals
from kernelrl.training.checkpoints import save_final
from kernelrl.training.finite import FiniteCallback
from kernelrl.training.seals import last_checkpoint, seal


@pytest.fixture
def cfg(tmp_path):
    cfg = training_config(tmp_path)
    write_data(cfg)
    return cfg


def weights(folder):
    return AutoModelForCausalLM.from_pretrained(folder).state_dict()


def test_it_leaves_base_final_and_log(cfg, capfd):
    folder = sft.run(cfg)
    base, final = weights(folder / "base"), weights(folder / "final")
    assert any(not torch.equal(base[name], final[name]) for name in base)
    entries = read_log(folder / "log.jsonl")
    assert [entry["step"] for entry in entries if "loss" in entry] == [1, 2, 3, 4, 5, 6]
    assert all(entry["seconds"] > 0 for entry in entries)
    assert entries[4]["loss"] < entries[0]["loss"]

    before = (folder / "final" / "model.safetensors").stat().st_mtime_ns
    sft.run(cfg)  # finished: nothing is done again
    assert (folder / "final" / "model.safetensors").stat().st_mtime_ns == before


def test_only_the_completion_is_learnt(cfg, tmp_path):
    rows = pq.read_table(f"{cfg.curate.folder}/sft_train.parquet").to_pylist()
    texts = [message["content"] for row in rows for message in [*row["prompt"], *row["completion"]]]
    models.save_policy(*models.make_base(cfg.model, texts, seed=0), tmp_path / "base")
    trainer = sft.make_trainer(cfg, tmp_path / "base", tmp_path / "run", rows[:4])
    tokenizer = trainer.processing_class
    batch = next(iter(trainer.get_train_dataloader()))
    learnt = [ids[labels != -100] for ids, labels in zip(batch["input_ids"], batch["labels"], strict=True)]
    completions = {row["completion"][0]["content"] + models.END for row in rows[:4]}
    assert {tokenizer.decode(ids) for ids in learnt} <= completions


def test_a_resumed_run_goes_on_from_the_last_whole_checkpoint(cfg, caplog):
    whole = weights(sft.run(cfg) / "final")
    folder = sft.run(training_config(cfg.output_dir, "sft.folder=${output_dir}/resumed"))
    (folder / "done.json").unlink()
    checkpoints = folder / "checkpoints"
    newest, older = checkpoints / "checkpoint-6", checkpoints / "checkpoint-4"
    newest.joinpath("model.safetensors").write_bytes(b"half a file")
    sft.run(training_config(cfg.output_dir, "sft.folder=${output_dir}/resumed"))
    assert "1 half-written or corrupt checkpoint(s) skipped" in caplog.text
    assert older.exists() and len(list(checkpoints.glob("broken-*"))) == 1
    steps = [entry["step"] for entry in read_log(folder / "log.jsonl") if "loss" in entry]
    assert steps == [1, 2, 3, 4, 5, 6]
    resumed = weights(folder / "final")
    assert all(torch.equal(whole[name], resumed[name]) for name in whole)


def test_a_finished_run_may_be_extended_saved_otherwise_and_cut_into_other_micro_batches(cfg):
    folder = sft.run(cfg)
    started = read_log(folder / "log.jsonl")[0]
    smaller = ["per_device_train_batch_size=2", "+gradient_accumulation_steps=2", "save_steps=1", "logging_steps=2"]
    words = ["max_steps=8", "+dataloader_num_workers=0", *smaller]
    longer = training_config(
        cfg.output_dir, *(f"sft.trainer.{it}".replace("sft.trainer.+", "+sft.trainer.") for it in words)
    )
    sft.run(longer)
    log = read_log(folder / "log.jsonl")
    assert (
        log[0] == started
        and log[-1]["step"] == 8
        and "trainer:\n  max_steps: 8" in (folder / "settings.yaml").read_text()
    )
    assert (folder / "checkpoints" / "checkpoint-8" / "seal.json").exists()
    assert '"steps": 8' in (folder / "done.json").read_text()
    other = training_config(cfg.output_dir, "sft.trainer.max_steps=8", "sft.trainer.per_device_train_batch_size=8")
    with pytest.raises(UserError, match=r"batch was 4, now 8"):
        sft.run(other)


def test_a_loss_that_is_no_number_stops_the_run_and_leaves_the_batch(cfg, monkeypatch):
    compute = SFTTrainer.compute_loss

    def broken(self, model, inputs, *args, **kwargs):
        loss = compute(self, model, inputs, *args, **kwargs)
        return loss * float("nan") if self.state.global_step == 3 else loss

    monkeypatch.setattr(SFTTrainer, "compute_loss", broken)
    with pytest.raises(InfrastructureError, match=r"the loss of step 3 is nan; the batch is in .*step3-rank0.pt"):
        sft.run(cfg)
    dumped = torch.load(Path(cfg.sft.folder) / "not_finite" / "step3-rank0.pt")
    assert dumped["input_ids"].shape[0] == 4
    texts = json.loads((Path(cfg.sft.folder) / "not_finite" / "step3-rank0.json").read_text())["texts"]
    assert all("ModelNew" in text for text in texts["input_ids"])
    assert last_checkpoint(Path(cfg.sft.folder) / "checkpoints").name == "checkpoint-2"
    monkeypatch.undo()


def test_a_gradient_that_is_no_number_stops_the_run_too(cfg):
    rows = read_table(Path(cfg.curate.folder) / "sft_train.parquet", ["prompt", "completion"])
    models.save_policy(
        *models.make_base(cfg.model, [rows[0]["completion"][0]["content"]], 0), Path(cfg.sft.folder) / "b"
    )
    trainer = sft.make_trainer(cfg, Path(cfg.sft.folder) / "b", Path(cfg.sft.folder), rows)
    next(trainer.model.parameters()).register_hook(lambda gradient: gradient * float("inf"))
    with pytest.raises(InfrastructureError, match=r"the gradient of step 0 is"):
        trainer.train()


def test_an_overflow_of_float16_leaves_a_step_out_and_stops_nothing(tmp_path):
    model = torch.nn.Linear(2, 2)
    model.weight.grad = torch.full((2, 2), float("inf"))
    state, control = TrainerState(), TrainerControl()
    FiniteCallback(tmp_path).on_pre_optimizer_step(SimpleNamespace(fp16=True), state, control, model=model)
    assert not list(tmp_path.iterdir())


def test_a_large_file_is_sealed_by_samples(tmp_path, monkeypatch):
    monkeypatch.setattr(seals, "LARGE", 1000)
    monkeypatch.setattr(seals, "SAMPLE", 16)
    checkpoint = tmp_path / "checkpoint-1"
    checkpoint.mkdir()
    weights = checkpoint / "model.safetensors"
    weights.write_bytes(bytes(range(256)) * 8)
    seal(checkpoint)
    assert "sampled:2048:" in (checkpoint / "seal.json").read_text() and last_checkpoint(tmp_path) == checkpoint
    for broken in (weights.read_bytes()[:-1], weights.read_bytes()[:-1] + b"x", b"x" + weights.read_bytes()[1:]):
        whole = weights.read_bytes()
        weights.write_bytes(broken)
        assert not seals._is_whole(checkpoint)
        weights.write_bytes(whole)


def test_checkpoints_that_are_not_whole_do_not_count(tmp_path):
    assert last_checkpoint(tmp_path) is None
    for step in (2, 10, 20, 30):
        checkpoint = tmp_path / f"checkpoint-{step}"
        checkpoint.mkdir()
        (checkpoint / "optimizer.pt").write_bytes(bytes(100))
        if step != 30:  # killed before it was sealed
            seal(checkpoint)
    (tmp_path / "checkpoint-20" / "optimizer.pt").write_bytes(bytes(99))
    assert last_checkpoint(tmp_path) == tmp_path / "checkpoint-10"
    assert len(list(tmp_path.glob("broken-*"))) == 2


@pytest.mark.parametrize(
    "adapter", ["{r: 2, target_modules: all-linear}", "{peft_type: LN_TUNING, target_modules: .*norm}"]
)
def test_an_adapter_is_trained_and_comes_back_merged(adapter, tmp_path):
    cfg = training_config(tmp_path, f"sft.peft={adapter}")
    write_data(cfg)
    folder = sft.run(cfg)
    assert type(models.load_policy(folder / "final")[0]).__name__ == "Qwen3ForCausalLM"
    final, adapted, base = (logits(folder / name) for name in ("final", "final/adapter", "base"))
    assert torch.equal(final, adapted) and not torch.equal(final, base)
    assert not list(folder.glob("final.*")), "nothing is left of what it was made from"


def logits(policy):
    model, tokenizer = models.load_policy(policy)
    with torch.no_grad():
        return model.eval()(tokenizer("for (int64_t i = 0;", return_tensors="pt")["input_ids"]).logits


def test_weights_stored_in_bfloat16_are_trained_in_float32(cfg, tmp_path):
    """At a learning rate of 1e-6 a bfloat16 weight would not move, however many steps are taken."""
    rows = read_table(Path(cfg.curate.folder) / "sft_train.parquet", ["prompt", "completion"])
    base = tmp_path / "stored"
    model, tokenizer = models.make_base(cfg.model, [message["content"] for message in rows[0]["completion"]], seed=0)
    models.save_policy(model.to(torch.bfloat16), tokenizer, base)
    cfg.sft.trainer = {**cfg.sft.trainer, "learning_rate": 1e-6, "lr_scheduler_type": "constant", "weight_decay": 0.0}
    trainer = sft.make_trainer(cfg, base, tmp_path / "run", rows)
    before = {name: weight.clone() for name, weight in trainer.model.named_parameters()}
    trainer.train()
    moved = [(weight != before[name]).float().mean().item() for name, weight in trainer.model.named_parameters()]
    assert min(moved) > 0.5
    save_final(trainer, base, tmp_path / "final")
    assert {weight.dtype for weight in models.load_policy(tmp_path / "final")[0].parameters()} == {torch.bfloat16}


def test_lora_leaves_frozen_weights_as_they_are_stored_and_has_float32_ones(cfg, tmp_path):
    cfg.sft.peft = {"r": 2, "target_modules": "all-linear"}
    rows = read_table(Path(cfg.curate.folder) / "sft_train.parquet", ["prompt", "completion"])
    model, tokenizer = models.make_base(cfg.model, [message["content"] for message in rows[0]["completion"]], seed=0)
    models.save_policy(model.to(torch.bfloat16), tokenizer, tmp_path / "base")
    trained = sft.make_trainer(cfg, tmp_path / "base", tmp_path / "run", rows).model
    dtypes = {True: set(), False: set()}
    for parameter in trained.parameters():
        dtypes[parameter.requires_grad].add(parameter.dtype)
    assert dtypes == {True: {torch.float32}, False: {torch.bfloat16}}


def test_the_disk_is_asked_for_what_the_trainer_will_write(tmp_path, monkeypatch):
    """An adapter's checkpoint is small; under ZeRO-3 a parameter is empty and knows its whole size."""
    asked = []
    monkeypatch.setattr(checkpoints, "require_free_disk", lambda folder, num_bytes: asked.append(num_bytes))
    model = torch.nn.Linear(10, 10, bias=False)
    checkpoints.require_disk_for_training(tmp_path, model, 200, 2)
    assert asked.pop() == 3 * (400 + 800) + 400 + 200
    (tmp_path / "checkpoints" / "checkpoint-1").mkdir(parents=True)
    (tmp_path / "checkpoints" / "checkpoint-1" / "optimizer.pt").write_bytes(bytes(1000))
    checkpoints.require_disk_for_training(tmp_path, model, 200, 2)
    assert asked.pop() == 3 * (400 + 800) + 400 + 200 - 1000, "a run that goes on has written some of it"
    shutil.rmtree(tmp_path / "checkpoints")
    model.weight.ds_numel, model.weight.data = 100, torch.empty(0)
    checkpoints.require_disk_for_training(tmp_path, model, 200, 2)
    assert asked.pop() == 3 * (400 + 800) + 400 + 200
    for stage, weights in ((3, 400), (2, 2 * 400)):  # DeepSpeed's own float32 weights are saved too
        checkpoints.require_disk_for_training(tmp_path, model, 200, 2, zero_stage=stage)
        assert asked.pop() == 3 * (weights + 1200) + 400 + 200
    config = Qwen3Config(vocab_size=64, hidden_size=32, num_hidden_layers=1, num_attention_heads=2, head_dim=16)
    model = get_peft_model(Qwen3ForCausalLM(config), LoraConfig(r=1, target_modules=["q_proj"]))
    checkpoints.require_disk_for_training(tmp_path, model, 200, 2)
    assert asked.pop() == 3 * (4 + 8) * 64 + 4 * 64 + 200


@pytest.mark.parametrize(
    ("adapter", "message"),
    [
        ("{peft_type: LORRA}", "peft.peft_type='LORRA' is not known"),
        ("{rank: 2}", "unexpected keyword argument 'rank'"),
    ],
)
def test_a_bad_adapter_is_one_line(adapter, message):
    with pytest.raises(UserError, match=message):
        models.make_adapter(compose_config("sft", [f"sft.peft={adapter}"]).sft.peft)


def test_missing_columns_are_named(cfg):
    path = f"{cfg.curate.folder}/sft_train.parquet"
    pq.write_table(pq.read_table(path).drop(["completion"]), path)
    with pytest.raises(UserError, match=r"column\(s\) completion missing"):
        sft.run(cfg)


def test_the_disk_is_asked_once_for_the_base_and_all_that_comes_after_it(cfg, tmp_path, monkeypatch):
    asked = []
    monkeypatch.setattr(models, "require_free_disk", lambda folder, num_bytes: asked.append(num_bytes))
    texts = [{"prompt": [{"content": "a prompt\n"}], "completion": [{"content": "a kernel\n"}]}]
    sft._make_base(cfg, tmp_path / "base", texts)
    model, _ = models.load_policy(tmp_path / "base")
    number, size, kept = model.num_parameters(), models.num_bytes(model), cfg.sft.trainer.get("save_total_limit")
    assert asked == [size + checkpoints.disk_of_training(4 * number, number, size, kept)]


def test_no_disk_space_is_said_before_training(cfg, monkeypatch):
    monkeypatch.setattr(shutil, "disk_usage", lambda path: shutil._ntuple_diskusage(1 << 40, 1 << 40, 1000))
    with pytest.raises(UserError, match=r"no disk space under"):
        sft.run(cfg)
    assert not list(Path(cfg.sft.folder).glob("base*")), "nor is the base written"


def test_a_training_writes_no_more_than_the_disk_was_asked_for(tmp_path, monkeypatch):
    """Of a base in bfloat16, which is trained in float32 and saved in bfloat16 again."""
    asked, seen = [], []
    monkeypatch.setattr(checkpoints, "require_free_disk", lambda folder, num_bytes: asked.append(num_bytes))
    cfg = training_config(tmp_path, "model.dtype=bfloat16", "sft.trainer.save_total_limit=1")
    write_data(cfg)
    folder = Path(cfg.sft.folder)
    monkeypatch.setattr(models, "publish", lambda *two: seen.append(tensor_bytes(folder)) or publish(*two))
    sft.run(cfg)
    (_, most), (wanted,) = seen, asked
    base = tensor_bytes(folder / "base")
    assert 0.4 * wanted < most - base <= 1.05 * wanted


publish = models.publish


def tensor_bytes(folder):
    """Without logs, tokenizers and the states of samplers, which are small in earnest."""
    names = ("*.safetensors", "optimizer.pt")
    return sum(path.stat().st_size for name in names for path in folder.rglob(name))


@pytest.mark.parametrize("overrides", [[], ["recipe=toy"], ["recipe=demo"]])
def test_every_trainer_config_is_one_that_trl_takes(overrides, tmp_path):
    cfg = compose_config("pipeline", overrides)
    SFTConfig(**cfg.sft.trainer, output_dir=str(tmp_path), report_to=[])
    GRPOConfig(**cfg.grpo.trainer, output_dir=str(tmp_path), report_to=[])


@pytest.mark.slow
def test_killed_at_any_moment_it_ends_with_the_same_policy(tmp_path, server):
    overrides = ["sft.trainer.max_steps=30", "sft.trainer.save_steps=3"]
    whole, killed = (training_config(tmp_path / name, *overrides) for name in ("whole", "killed"))
    write_data(whole)
    write_data(killed)
    expected = weights(sft.run(whole) / "final")
    log, output = Path(killed.sft.folder) / "log.jsonl", tmp_path / "output"
    command = ("curated:run", "kernelrl.sft", killed.output_dir, overrides)
    for steps in (2, 10, 19):  # before the first checkpoint, and between others
        server.kill_at(lambda steps=steps: len(read_log(log)) >= steps, *command, folder=tmp_path, output=output)
    assert server.start(*command, folder=tmp_path, output=output).wait() == 0, output.read_text()
    resumed = weights(tmp_path / "killed" / "sft" / "final")
    assert all(torch.equal(expected[name], resumed[name]) for name in expected)
    assert [entry["step"] for entry in read_log(log) if "loss" in entry] == list(range(1, 31))


def test_it_watches_the_loss_on_held_out_triples_when_asked_to(cfg, caplog):
    """But for those that would be cut off, as in training."""
    file = Path(cfg.curate.folder) / "sft_heldout.parquet"
    table = pq.read_table(file)
    rows = table.to_pylist()
    rows[0]["completion"][0]["content"] *= 40
    pq.write_table(pa.Table.from_pylist(rows, table.schema), file)
    cfg.sft.trainer = {**cfg.sft.trainer, "eval_strategy": "steps", "eval_steps": 3, "per_device_eval_batch_size": 4}
    entries = read_log(sft.run(cfg) / "log.jsonl")
    assert [entry["step"] for entry in entries if "eval_loss" in entry] == [3, 6]
    assert "max_length=1024: 1 of 24 held-out rows are longer and left out" in caplog.text


@pytest.mark.parametrize(
    ("template", "options", "message"),
    [
        ("qwen3", {}, None),
        ("qwen3_instruct_2507", {}, None),
        ("qwen2_5", {"enable_thinking": False}, None),
        ("deepseek_r1_distill", {}, r"ends a prompt by .*<think>\\n', and an example's answer does not follow there"),
        ("glm4moe", {}, r"ends an answer by '', which ends no generation .*chat_template_path=FILE.jinja"),
        ("phi3", {}, r"ends an answer by '<\|end\|>', .* never stop; .*\"\+sft.trainer.eos_token='<\|end\|>'\""),
    ],
)
def test_what_is_learnt_is_what_the_chat_template_asks_for(template, options, message, rows, tokenizer):
    """By the templates of models that are there, as TRL ships them."""
    tokenizer.chat_template = (files("trl") / "chat_templates" / f"{template}.jinja").read_text()
    tokenizer.add_special_tokens({"additional_special_tokens": ["<|im_end|>"]})
    ends, settings = {tokenizer.convert_tokens_to_ids("<|im_end|>")}, ModelSettings(chat_template_kwargs=options)
    if message is None:
        assert fit_template(rows, tokenizer, settings, ends) == rows
    else:
        with pytest.raises(UserError, match=message):
            fit_template(rows, tokenizer, settings, ends)


def test_with_thinking_off_the_answer_alone_is_learnt(rows, tokenizer, caplog):
    tokenizer.chat_template = (files("trl") / "chat_templates" / "qwen3.jinja").read_text()
    settings = ModelSettings(chat_template_kwargs={"enable_thinking": False})
    ends = set(tokenizer("<|im_end|>")["input_ids"])
    learnt = fit_template(rows, tokenizer, settings, ends)
    assert "examples are learnt without theirs" in caplog.text
    for row, before in zip(learnt, rows, strict=True):
        text, whole = row["completion"][0]["content"], Completion.parse(before["completion"][0]["content"])
        assert (
            whole.reasoning and Completion.parse(text).reasoning == "" and Completion.parse(text).source == whole.source
        )


@pytest.fixture
def rows(cfg):
    return read_table(Path(cfg.curate.folder) / "sft_train.parquet", ["prompt", "completion"])[:4]


@pytest.fixture
def tokenizer(rows):
    return models.train_tokenizer([message["content"] for row in rows for message in row["completion"]], 400, 100)


def test_a_token_that_sft_made_an_end_ends_a_completion(cfg, tmp_path):
    """An adapter's `generation_config` is the base's: the tokenizer knows the new end."""
    rows = read_table(Path(cfg.curate.folder) / "sft_train.parquet", ["prompt", "completion"])
    model, tokenizer = models.make_base(cfg.model, [message["content"] for message in rows[0]["completion"]], seed=0)
    model.generation_config.eos_token_id = tokenizer.pad_token_id
    models.save_policy(model, tokenizer, tmp_path / "policy")
    opened = open_policy(defaults("transformers") | {"model": str(tmp_path / "policy")})
    assert opened._end([5, tokenizer.eos_token_id, 7]) == (2, "stop")
    assert opened._generation.eos_token_id == sorted([tokenizer.pad_token_id, tokenizer.eos_token_id])
