"""The memory of a training, from a model's config alone."""

import importlib.util
import json
from pathlib import Path

import pytest

from kernelrl.commands import plan_memory
from kernelrl.commands.plan import main
from kernelrl.commands.plan_memory import plan
from kernelrl.configs import compose_config
from kernelrl.errors import UserError
from kernelrl.eval.settings import policy_settings, read_settings
from kernelrl.training import memory
from kernelrl.training.ranks import share_batch

RECIPES = {"qwen3_8b_lora": (8, 8.19e9), "qwen3_8b_full": (16, 8.19e9), "qwen2_5_coder_32b": (64, 32.8e9)}


def planned(*overrides, stage="sft", devices=1):
    cfg = compose_config("grpo", overrides)
    return plan(cfg, memory.read_config(cfg.model), stage, devices, None)


@pytest.mark.slow
@pytest.mark.parametrize("recipe", RECIPES)
def test_every_recipe_of_a_large_model_fits_the_gpus_it_is_for(recipe, capsys):
    devices, parameters = RECIPES[recipe]
    words = ["--devices", "8"] if recipe == "qwen3_8b_lora" else []  # which takes the machine's
    assert main([f"recipe={recipe}", *words, "--device", "h100", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["devices"] == devices and found["model"]["parameters"] == pytest.approx(parameters, rel=0.01)
    assert all(10 < stage["peak"] / 1e9 < 72 for stage in found["stages"].values())
    assert found["executors"]["completions"] in (64, 128)


@pytest.mark.parametrize("recipe", RECIPES)
@pytest.mark.parametrize("stage", ["sft", "grpo"])
def test_a_micro_batch_is_one_sequence_on_however_many_gpus(recipe, stage):
    """Else a machine with fewer of them would hold more sequences on each than were planned for."""
    cfg, most = compose_config("grpo", [f"recipe={recipe}"]), RECIPES[recipe][0]
    assert cfg.launcher.processes is None, "as many as the machine, or a node, has GPUs"
    fields = cfg[stage].trainer
    batch = fields.per_device_train_batch_size * fields.gradient_accumulation_steps
    for devices in (1, 2, 4, 8, most):
        shared = share_batch(stage, fields, devices)
        assert shared["per_device_train_batch_size"] == 1
        assert shared["gradient_accumulation_steps"] * devices == batch >= 32


@pytest.mark.parametrize("recipe", RECIPES)
def test_its_evaluation_has_room_for_answers_beside_the_weights(recipe):
    """On the GPUs that it is for, of which vLLM takes nine tenths."""
    cfg, parameters = compose_config("eval", [f"recipe={recipe}"]), RECIPES[recipe][1]
    settings, token = read_settings(cfg.eval), memory.kv_bytes(memory.read_config(cfg.model), 2)
    assert list(settings.policies) == ["base", "sft", "grpo"]
    for name in settings.policies:
        policy = policy_settings(settings, name)
        share = 1 / policy.engine.get("tensor_parallel_size", 1)
        room = 0.9 * 80e9 - 2 * parameters * share
        assert room > 8 * token * share * settings.max_new_tokens and policy.temperature == settings.temperature


@pytest.mark.parametrize("recipe", ["qwen3_8b_full", "qwen2_5_coder_32b"])
def test_a_job_is_told_of_its_end_in_time_for_a_step_of_a_large_model(recipe):
    """64 completions of 16,384 tokens, and a checkpoint of a hundred GB: else the steps since the last one are lost."""
    assert compose_config("grpo", [f"recipe={recipe}"]).launcher.grace_s >= 1200


def test_weights_gradients_and_moments_are_those_of_the_parameters():
    cfg = compose_config("sft")
    number = memory.num_parameters(memory.read_config(cfg.model))
    whole = planned().training
    assert whole.weights == whole.gradients == 4 * number and whole.optimizer == 8 * number
    shared = planned("parallel=zero3", "sft.trainer.bf16=true", devices=4).training
    assert (shared.weights, shared.gradients, shared.optimizer) == (2 * number / 4, 2 * number / 4, 12 * number / 4)
    offloaded = planned("parallel=zero3_offload", "sft.trainer.bf16=true", devices=4).training
    assert offloaded.optimizer == 0 and offloaded.host == 12 * number / 4


@pytest.mark.parametrize(
    ("words", "sharding", "offload"),
    [
        (["+sft.trainer.fsdp=true"], "fsdp2", False),
        (["parallel=zero3_offload"], "zero3", True),
        (["parallel=zero3_offload", "+sft.trainer.deepspeed.zero_optimization.offload_optimizer=null"], "zero3", False),
        (["parallel=zero2", "+sft.trainer.deepspeed=null"], "none", False),
    ],
)
def test_what_a_stage_says_itself_is_planned(words, sharding, offload):
    setup = planned(*words, devices=4).setup
    assert (setup.sharding, setup.offload) == (sharding, offload)


def test_an_adapter_trains_few_weights_and_quantization_shrinks_the_others():
    lora = ["+sft.peft.r=4", "+sft.peft.target_modules=all-linear"]
    whole, adapter, quantized = planned(), planned(*lora), planned(*lora, "model.quantization=4bit")
    assert adapter.training.optimizer < 0.2 * whole.training.optimizer
    assert quantized.training.weights < 0.5 * adapter.training.weights


def test_checkpointing_and_smaller_micro_batches_take_less_for_activations():
    several = "+sft.trainer.gradient_accumulation_steps=2"
    full = planned(several).training.activations
    assert planned(several, "sft.trainer.gradient_checkpointing=true").training.activations < 0.7 * full
    assert planned(several, "sft.trainer.per_device_train_batch_size=8").training.activations < 0.5 * full


def test_layers_are_counted_as_if_each_had_been_looked_at():
    """Of eight layers two are looked at; of four, all."""
    four, eight = (planned(f"model.architecture.num_hidden_layers={count}").setup for count in (4, 8))
    estimate = memory._activations(eight)
    assert estimate == pytest.approx(memory._step(eight, 8), rel=0.02) and estimate > memory._activations(four)


@pytest.mark.slow
def test_what_does_not_fit_is_said_with_what_would(capsys, monkeypatch):
    monkeypatch.setitem(plan_memory.DEVICES, "h100", 0.6)
    words = ["recipe=toy", "sft.trainer.per_device_train_batch_size=8", "--devices", "2", "--device", "h100"]
    assert main(words) == 1
    printed = " ".join(capsys.readouterr().out.split())
    assert "sft does not fit h100 (0.6 GB, of which 90% are counted on)" in printed
    assert "grpo.trainer.gradient_checkpointing=true and one sequence a micro-batch" in printed


def test_a_model_that_is_nowhere_is_one_line(monkeypatch):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    with pytest.raises(UserError, match=r"model.name=\./nowhere: no model folder there"):
        main(["model=hf", "model.name=./nowhere"])


@pytest.mark.slow
def test_planned_is_within_fifteen_percent_of_what_torch_measures():
    path = Path(__file__).parents[1] / "benchmarks" / "training_memory.py"
    spec = importlib.util.spec_from_file_location("training_memory", path)
    benchmark = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(benchmark)
    ratios = [benchmark.compare(name)["ratio"] for name in benchmark.MODELS]
    assert ratios == pytest.approx([1.0] * len(ratios), rel=0.15)
