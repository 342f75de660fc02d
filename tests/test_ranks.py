"""Several processes train one model: the batch is shared out, and a run that is told to stop goes on later."""

from __future__ import annotations

import os
import re
import signal
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from safetensors.torch import load_file

from conftest import TOY, TOY_SFT
from curated import training_config, write_data
from kernelrl import configs
from kernelrl.errors import UserError
from kernelrl.policies import models
from kernelrl.records import Ledger
from kernelrl.runs.launch import run_stage
from kernelrl.runs.preflight import require_all
from kernelrl.stage_folder import read_log
from kernelrl.training import interruption
from kernelrl.training.checkpoints import train
from kernelrl.training.interruption import Interrupted
from kernelrl.training.ranks import share_batch, trainer_fields
from kernelrl.training.seals import seal


@pytest.mark.parametrize(
    "batch, steps, ranks, shared",
    [
        (64, 1, 2, (32, 1)),
        (8, 4, 4, (2, 4)),
        (2, 8, 4, (1, 4)),
        (6, 4, 4, (3, 2)),
        (1, 8, 8, (1, 1)),
    ],
)
def test_a_batch_is_shared_out_first_by_samples_then_by_accumulation(batch, steps, ranks, shared):
    fields = {"per_device_train_batch_size": batch, "gradient_accumulation_steps": steps}
    mine = share_batch("sft", fields, ranks)
    assert (mine["per_device_train_batch_size"], mine["gradient_accumulation_steps"]) == shared
    assert batch * steps == ranks * shared[0] * shared[1]


def test_generation_is_shared_out_with_it():
    fields = {"per_device_train_batch_size": 2, "gradient_accumulation_steps": 8, "steps_per_generation": 16}
    assert share_batch("grpo", fields, 4)["steps_per_generation"] == 8


def test_a_batch_that_cannot_be_shared_out_is_named():
    with pytest.raises(UserError, match=r"grpo.trainer: .*=6 x .*=1 cannot be shared out among 4 ranks; .*batch=rank"):
        share_batch("grpo", {"per_device_train_batch_size": 6}, 4)


def test_where_a_node_generates_the_trainer_asks_its_server(monkeypatch):
    cfg = configs.compose_config("grpo")
    monkeypatch.setenv("KERNELRL_VLLM_URL", "http://node3:40001")
    fields = trainer_fields("grpo", cfg.grpo.trainer, cfg.parallel)
    assert fields["use_vllm"] and fields["vllm_mode"] == "server"
    assert fields["vllm_server_base_url"] == "http://node3:40001"
    assert "use_vllm" not in trainer_fields("sft", cfg.sft.trainer, cfg.parallel)


def test_what_a_stage_says_itself_is_stronger_than_what_the_ranks_share(monkeypatch):
    monkeypatch.setenv("WORLD_SIZE", "2")
    cfg = configs.compose_config("grpo", ["+grpo.trainer.ddp_timeout=60"])
    assert trainer_fields("grpo", cfg.grpo.trainer, cfg.parallel)["ddp_timeout"] == 60
    assert trainer_fields("sft", cfg.sft.trainer, cfg.parallel)["ddp_timeout"] == 7200


def test_a_stage_changes_one_key_of_what_the_ranks_share_and_keeps_the_others(monkeypatch):
    monkeypatch.setenv("WORLD_SIZE", "2")
    cfg = configs.compose_config("sft", ["parallel=fsdp2", "+sft.trainer.fsdp_config.reshard_after_forward=false"])
    told = trainer_fields("sft", cfg.sft.trainer, cfg.parallel)["fsdp_config"]
    assert told == dict(cfg.parallel.trainer.fsdp_config) | {"reshard_after_forward": False}


@pytest.mark.parametrize(
    ("words", "processes"),
    [
        (["+sft.trainer.fsdp=true"], [1]),
        (["+sft.trainer.deepspeed.zero_optimization.stage=2"], [1]),
        (["parallel=zero2", "+sft.trainer.deepspeed=null"], []),
        (["parallel=fsdp2", "+sft.trainer.fsdp=false"], []),
    ],
)
def test_a_stage_asks_for_a_library_that_holds_the_model_or_does_without(words, processes, monkeypatch, tmp_path):
    started = []
    monkeypatch.setattr("kernelrl.runs.launch.agent.num_gpus", lambda: 1)
    monkeypatch.setattr("kernelrl.runs.launch.agent.run_ranks", lambda *words: started.append(words[-1]))
    monkeypatch.setattr("kernelrl.sft.run", lambda cfg: tmp_path)
    run_stage("sft", configs.compose_config("sft", [*words, f"output_dir={tmp_path}"]))
    assert started == processes


def test_a_stage_without_deepspeed_does_not_import_it(monkeypatch):
    monkeypatch.setenv("WORLD_SIZE", "2")
    monkeypatch.setitem(sys.modules, "deepspeed", None)
    cfg = configs.compose_config("sft", ["parallel=zero2", "+sft.trainer.deepspeed=null"])
    assert trainer_fields("sft", cfg.sft.trainer, cfg.parallel)["deepspeed"] is None


def test_a_login_node_needs_no_deepspeed(monkeypatch, tmp_path):
    def missing(package):
        raise ImportError(package)

    monkeypatch.setattr("transformers.integrations.deepspeed.dep_version_check", missing)
    words = ["+sft.trainer.deepspeed.zero_optimization.stage=2", f"output_dir={tmp_path}"]
    require_all(configs.compose_config("pipeline", words), ["sft"], here=False, ask_hub=False)


@pytest.mark.parametrize(
    ("wrote", "holding", "said"),
    [
        ("optimizer.pt", "deepspeed", "PyTorch wrote it, and DeepSpeed cannot go on from it; use parallel=ddp, or"),
        ("optimizer.pt", "fsdp", "PyTorch wrote it, and FSDP cannot go on from it; use parallel=ddp, or"),
        ("global_step3", None, "DeepSpeed wrote it, and PyTorch cannot go on from it; use parallel=zero2, zero3 or"),
        ("pytorch_model_fsdp.bin", None, "FSDP wrote it, and PyTorch cannot go on from it; use parallel=fsdp2, or"),
        ("optimizer.pt", None, None),
        ("global_step3", "deepspeed", None),
        ("pytorch_model_fsdp_0", "fsdp", None),
        ("model.safetensors", "fsdp", None),
    ],
)
def test_a_training_goes_on_only_by_the_library_that_wrote_its_checkpoint(wrote, holding, said, tmp_path):
    checkpoint = tmp_path / "checkpoints" / "checkpoint-3"
    checkpoint.mkdir(parents=True)
    (checkpoint / wrote).write_text("")
    seal(checkpoint)
    went_on, kinds = [], {f"is_{kind}_enabled": kind == holding for kind in ("deepspeed", "fsdp")}
    state = SimpleNamespace(global_step=3, max_steps=3)
    trainer = SimpleNamespace(**kinds, state=state, train=lambda resume_from_checkpoint: went_on.append(1))
    if said is None:
        train(trainer, tmp_path, lambda: None)
    else:
        with pytest.raises(UserError, match=re.escape(f"checkpoint-3: {said}")):
            train(trainer, tmp_path, lambda: None)
    assert went_on == ([1] if said is None else [])


@pytest.mark.parametrize(
    ("parallel", "processes"), [("ddp", []), ("zero2", [1]), ("zero3", [1]), ("zero3_offload", [1]), ("fsdp2", [1])]
)
def test_one_process_is_a_rank_where_the_model_is_held_by_another_library(parallel, processes, monkeypatch, tmp_path):
    """Else DeepSpeed would be left out without a word, and what it moves to the host would fill the GPU."""
    started = []
    monkeypatch.setattr("kernelrl.runs.launch.agent.run_ranks", lambda *words: started.append(words[-1]))
    monkeypatch.setattr("kernelrl.sft.run", lambda cfg: tmp_path)
    run_stage("sft", configs.compose_config("sft", [f"parallel={parallel}", f"output_dir={tmp_path}"]))
    assert started == processes
    monkeypatch.setenv("WORLD_SIZE", "1")
    ops = SimpleNamespace(__compatible_ops__={})
    imported = SimpleNamespace(init_distributed=lambda backend, timeout: None, ops=ops)
    monkeypatch.setitem(sys.modules, "deepspeed", imported)
    cfg = configs.compose_config("sft", [f"parallel={parallel}"])
    assert cfg.parallel.trainer.items() <= trainer_fields("sft", cfg.sft.trainer, cfg.parallel).items()


@pytest.mark.cluster
def test_ranks_wait_for_a_slow_reward_under_deepspeed_too(monkeypatch):
    """It opens the process group before the trainer's arguments could, and would give up after ten minutes."""
    asked = []
    monkeypatch.setattr("deepspeed.init_distributed", lambda backend, timeout: asked.append(timeout.total_seconds()))
    monkeypatch.setenv("WORLD_SIZE", "2")
    cfg = configs.compose_config("grpo", ["parallel=zero3", "parallel.trainer.ddp_timeout=9000"])
    assert trainer_fields("grpo", cfg.grpo.trainer, cfg.parallel)["ddp_timeout"] == 9000
    assert asked == [9000]
    cfg = configs.compose_config("grpo", ["parallel=zero3", "+grpo.trainer.ddp_timeout=60"])
    trainer_fields("grpo", cfg.grpo.trainer, cfg.parallel)
    assert asked == [9000, 60]


def test_nodes_need_a_launcher():
    cfg = configs.compose_config("sft", ["nodes=2"])
    with pytest.raises(UserError, match="nodes=2: launcher=local is this machine alone; add launcher=slurm"):
        run_stage("sft", cfg)


def test_a_signal_stops_at_once_or_when_the_block_ends():
    handlers = {number: signal.getsignal(number) for number in interruption.SIGNALS}
    interruption.install()
    try:
        with pytest.raises(Interrupted, match="stopped by SIGUSR1; the same command goes on from here"):
            signal.raise_signal(signal.SIGUSR1)
        reached = False
        with pytest.raises(Interrupted, match="SIGTERM"), interruption.deferred():
            signal.raise_signal(signal.SIGTERM)
            reached = interruption.received()
        assert reached
    finally:
        interruption._received = None
        for number, handler in handlers.items():
            signal.signal(number, handler)


def command(stage: str, toy: Path, folder: Path, *words: str) -> list[str]:
    """A stage that goes on from the toy run, shared out between two processes."""
    inputs = (
        (f"curate.folder={toy}/data", f"sft.folder={toy}/sft") if stage == "grpo" else (f"curate.folder={toy}/data",)
    )
    shared = (*TOY, *TOY_SFT, *inputs, f"output_dir={folder}", "launcher.processes=2")
    return [stage, *shared, *words]


def losses(folder: Path) -> torch.Tensor:
    return torch.tensor([entry["loss"] for entry in read_log(folder / "log.jsonl") if "loss" in entry])


def assert_alike(one: Path, other: Path) -> None:
    assert len(losses(one)) == 12
    torch.testing.assert_close(losses(one), losses(other), rtol=1e-3, atol=0)
    weights = [load_file(folder / "final" / "model.safetensors") for folder in (one, other)]
    tied = {"lm_head.weight"}  # to the embeddings: some trainers write it, others do not
    assert weights[0].keys() - tied == weights[1].keys() - tied
    for name in weights[0].keys() - tied:
        torch.testing.assert_close(weights[0][name], weights[1][name], rtol=0, atol=2e-3)


@pytest.mark.slow
def test_two_ranks_that_are_told_to_stop_go_on_and_learn_what_one_learns(server, toy, tmp_path):
    stopped = command("sft", toy, tmp_path, "sft.trainer.save_steps=1000")
    folder, said = tmp_path / "sft", tmp_path / "said"
    running = server.start("kernelrl.cli:main", stopped, folder=tmp_path, output=said)
    while len(read_log(folder / "log.jsonl")) < 2:
        assert running.poll() is None, said.read_text()
        time.sleep(0.02)
    os.kill(running.pid, signal.SIGTERM)
    assert running.wait(600) == 75 and "the same command goes on" in said.read_text()
    (checkpoint,) = (folder / "checkpoints").glob("checkpoint-*")
    assert checkpoint.name == f"checkpoint-{len(losses(folder))}"
    done = server.run(*stopped, folder=tmp_path)
    assert done.returncode == 0, done.stderr
    assert_alike(toy / "sft", folder)


@pytest.mark.cluster
@pytest.mark.parametrize("parallel", ["zero2", "zero3"])  # on a CPU accelerate leaves FSDP out
def test_ranks_that_share_the_model_learn_what_one_learns(server, toy, tmp_path, parallel):
    done = server.run(*command("sft", toy, tmp_path, f"parallel={parallel}"), folder=tmp_path)
    assert done.returncode == 0, done.stderr
    assert_alike(toy / "sft", tmp_path / "sft")


@pytest.mark.cluster
def test_what_deepspeed_has_written_is_known_by_its_files(tmp_path, capfd):
    for first, second in (("zero2", "ddp"), ("ddp", "zero2")):
        words = ["launcher.processes=1", "sft.trainer.save_steps=1"]
        cfg = training_config(tmp_path / first, *words, f"parallel={first}", "sft.trainer.max_steps=1")
        write_data(cfg)
        run_stage("sft", cfg)
        more = training_config(tmp_path / first, *words, f"parallel={second}", "sft.trainer.max_steps=2")
        with pytest.raises(UserError) as error:
            run_stage("sft", more)
        assert " wrote it, and " in f"{error.value}{capfd.readouterr().err}"


@pytest.mark.cluster
@pytest.mark.parametrize("parallel", ["ddp", "zero3"])  # with zero2 each rank has all weights, as with ddp
def test_an_adapter_is_saved_whole_by_two_ranks(parallel, tmp_path):
    """That of SFT, and that of GRPO which is trained on top of it."""
    adapters = ("sft.peft={r: 2, target_modules: all-linear}", "grpo.peft={r: 2, target_modules: all-linear}")
    short = ("sft.trainer.max_steps=4", "grpo.trainer.max_steps=2", "executor.timing=false")
    # what a policy of almost random weights is paid for: to end
    length = ("grpo.trainer.max_completion_length=256", "grpo.adjust.overlong=255")
    batch = ("grpo.trainer.per_device_train_batch_size=8", "grpo.trainer.save_steps=10")
    words = (*adapters, *short, *length, *batch)
    cfg = training_config(tmp_path, "launcher.processes=2", f"parallel={parallel}", *words)
    write_data(cfg)
    for stage, start in (("sft", "sft/base"), ("grpo", "sft/final")):
        run_stage(stage, cfg)
        names = (start, f"{stage}/final", f"{stage}/final/adapter")
        before, whole, adapted = (models.load_policy(tmp_path / name)[0].state_dict() for name in names)
        assert all(torch.equal(whole[name], adapted[name]) for name in before)
        assert any(not torch.equal(whole[name], before[name]) for name in before)


@pytest.mark.slow
def test_the_main_rank_judges_for_all(server, toy, tmp_path):
    words = (f"sft.folder={toy}/sft", "grpo.trainer.max_completion_length=64")
    done = server.run(*command("grpo", toy, tmp_path, *words), folder=tmp_path)
    assert done.returncode == 0, done.stderr
    records = list(Ledger(tmp_path / "grpo" / "records"))
    assert [record.id for record in records] == [f"grpo/{step}/{index}" for step in range(3) for index in range(16)]
    for start in range(0, len(records), 4):
        assert len({record.task_id for record in records[start : start + 4]}) == 1, "a group is whole"
    assert len({record.prompt for record in records[:16]}) == 4
