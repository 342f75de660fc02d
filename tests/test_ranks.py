"""Several processes train one model: the batch is shared out, and a run that is told to stop goes on later."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path

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
from kernelrl.stage_folder import read_log
from kernelrl.training import interruption
from kernelrl.training.interruption import Interrupted
from kernelrl.training.ranks import share_batch, trainer_fields


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


@pytest.mark.cluster
def test_ranks_wait_for_a_slow_reward_under_deepspeed_too(monkeypatch):
    """It opens the process group before the trainer's arguments could, and would give up after ten minutes."""
    asked = []
    monkeypatch.setattr("deepspeed.init_distributed", lambda backend, timeout: asked.append(timeout.total_seconds()))
    monkeypatch.setenv("WORLD_SIZE", "2")
    cfg = configs.compose_config("grpo", ["parallel=zero3", "parallel.trainer.ddp_timeout=9000"])
    assert trainer_fields("grpo", cfg.grpo.trainer, cfg.parallel)["ddp_timeout"] == 9000
    assert asked == [9000]


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
    return [sys.executable, "-m", "kernelrl.cli", stage, *shared, *words]


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
def test_two_ranks_that_are_told_to_stop_go_on_and_learn_what_one_learns(toy, tmp_path):
    stopped = command("sft", toy, tmp_path, "sft.trainer.save_steps=1000")
    folder = tmp_path / "sft"
    with subprocess.Popen(stopped, stderr=subprocess.PIPE, text=True) as running:
        while len(read_log(folder / "log.jsonl")) < 2:
            assert running.poll() is None
            time.sleep(0.02)
        running.send_signal(signal.SIGTERM)
        _, said = running.communicate(timeout=300)
    assert running.returncode == 75 and "the same command goes on" in said
    (checkpoint,) = (folder / "checkpoints").glob("checkpoint-*")
    assert checkpoint.name == f"checkpoint-{len(losses(folder))}"
    done = subprocess.run(stopped, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert_alike(toy / "sft", folder)


@pytest.mark.cluster
@pytest.mark.parametrize("parallel", ["zero2", "zero3", "fsdp2"])
def test_ranks_that_share_the_model_learn_what_one_learns(toy, tmp_path, parallel):
    done = subprocess.run(command("sft", toy, tmp_path, f"parallel={parallel}"), capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert_alike(toy / "sft", tmp_path / "sft")


@pytest.mark.cluster
@pytest.mark.parametrize("parallel", ["zero2", "zero3", "fsdp2"])
def test_an_adapter_is_saved_whole_by_ranks_that_share_the_model(parallel, tmp_path):
    cfg = training_config(tmp_path, "launcher.processes=2", f"parallel={parallel}", "sft.peft={r: 2}")
    write_data(cfg)
    run_stage("sft", cfg)
    base, whole, adapted = (
        models.load_policy(tmp_path / "sft" / name)[0].state_dict() for name in ("base", "final", "final/adapter")
    )
    assert all(torch.equal(whole[name], adapted[name]) for name in base)
    assert any(not torch.equal(whole[name], base[name]) for name in base)


@pytest.mark.slow
def test_the_main_rank_judges_for_all(toy, tmp_path):
    words = (f"sft.folder={toy}/sft", "grpo.trainer.max_completion_length=64")
    done = subprocess.run(command("grpo", toy, tmp_path, *words), capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    records = list(Ledger(tmp_path / "grpo" / "records"))
    assert [record.id for record in records] == [f"grpo/{step}/{index}" for step in range(3) for index in range(16)]
    for start in range(0, len(records), 4):
        assert len({record.task_id for record in records[start : start + 4]}) == 1, "a group is whole"
    assert len({record.prompt for record in records[:16]}) == 4
