"""Job scripts: what `kernelrl launch --dry-run` shows, without a cluster."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
import torch
from omegaconf import OmegaConf
from transformers import Qwen3Config

from kernelrl.configs import compose_config
from kernelrl.errors import UserError
from kernelrl.policies import models
from kernelrl.runs.launch import agent, generator, run_stage, slurm
from kernelrl.runs.stages import STAGES, Stage

IN_AN_ARRAY = {"SLURM_ARRAY_TASK_ID": "2", "SLURM_ARRAY_TASK_COUNT": "8"}
SLURM = ["recipe=toy", "launcher=slurm"]


def render(command: str, folder: Path, *words: str) -> str:
    cfg = compose_config(command, [*SLURM, f"output_dir={folder}", *words])
    return slurm.launch(cfg, command, dry_run=True)


@pytest.mark.parametrize("command", STAGES)
def test_every_command_has_a_job_script_that_bash_reads(command, tmp_path):
    script = render(command, tmp_path)
    assert script.startswith("#!/bin/bash\n#SBATCH --job-name=toy-")
    for text in (script, (slurm.scripts() / "steps.sh").read_text()):
        subprocess.run(["bash", "-n"], input=text, text=True, check=True)
    assert (tmp_path / "launch" / f"{command}.sbatch").read_text() == script


def test_what_is_asked_for_becomes_options_of_sbatch(tmp_path):
    words = ["nodes=4", "launcher.executors=2", "executor=ray", "launcher.time=12:00:00", "launcher.gpus_per_node=8"]
    more = ["+launcher.options.account=ml", "launcher.setup=['module load cuda']", "launcher.partition=gpu"]
    lines = render("grpo", tmp_path, *words, *more, "grpo.trainer.per_device_train_batch_size=32").splitlines()
    options = {line.removeprefix("#SBATCH ") for line in lines if line.startswith("#SBATCH")}
    assert options >= {"--nodes=6", "--time=12:00:00", "--gpus-per-node=8", "--account=ml", "--partition=gpu"}
    assert options >= {"--requeue", "--signal=USR1@120", "--exclusive", "--open-mode=append"}
    assert "module load cuda" in lines and "export KERNELRL_RAY=1" in lines and "export KERNELRL_NODES=4" in lines
    config = (tmp_path / "launch" / "config.yaml").read_text()
    assert "processes: 8" in config, "one rank for each GPU"
    assert "${" not in config, "every process reads the same values"


def test_a_dry_run_does_not_ask_the_hub_and_a_launch_asks_it_once(tmp_path, monkeypatch):
    asked = []

    def model_info(self, name, revision, timeout):
        asked.append((name, timeout <= 10))
        raise ConnectionError("no network here")

    monkeypatch.setattr(models.HfApi, "model_info", model_info)
    monkeypatch.setattr(models.AutoConfig, "from_pretrained", lambda **words: pytest.fail(f"asked for {words}"))
    monkeypatch.setattr(slurm, "_check_cluster", lambda settings, nodes: None)
    words = ["model=hf", "model.name=Somebody/Model"]
    render("sft", tmp_path, *words)
    assert asked == []
    cfg = compose_config("sft", [*SLURM, f"output_dir={tmp_path}", *words])
    with pytest.raises(
        UserError, match=r"model.name=Somebody/Model: not in .* cache .*\(no network here\); .*hf download"
    ):
        slurm.launch(cfg, "sft")
    assert asked == [("Somebody/Model", True)]


@pytest.mark.parametrize(
    "command, nodes", [("curate", 3), ("sft", 2), ("grpo", 4), ("eval", 3), ("report", 1), ("pipeline", 4)]
)
def test_a_job_has_the_nodes_that_its_command_can_use(command, nodes, tmp_path):
    script = render(command, tmp_path, "nodes=2", "launcher.executors=2", "executor=ray")
    assert f"#SBATCH --nodes={nodes}\n" in script


@pytest.mark.parametrize(
    "words, message",
    [
        (["launcher.time=soon"], r"launcher.time='soon': String should match"),
        (["launcher.processes=0"], r"launcher.processes=0: Input should be greater than 0"),
        (["launcher.executors=2"], r"launcher.executors=2: nodes of their own judge by Ray; add executor=ray"),
        (["launcher.generators=2"], r"launcher.generators=2: Input should be 0 or 1"),
        (["launcher.array=2"], r"launcher.array=2: only curate and eval can be shared out"),
    ],
)
def test_what_cannot_be_rendered_is_named(words, message, tmp_path):
    with pytest.raises(UserError, match=message):
        render("sft", tmp_path, *words)


@pytest.mark.parametrize(
    ("words", "of_slurm", "expected"),
    [
        (
            ["launcher.array=8"],
            {"SLURM_ARRAY_TASK_ID": "2", "SLURM_ARRAY_TASK_COUNT": "8"},
            "1 curate curate.shard=3/8",
        ),
        (["launcher.array=8"], {}, "1 curate curate.merge=true"),
        ([], {}, "1 curate"),
    ],
)
def test_an_array_of_a_curation_verifies_shards_and_the_job_after_it_merges_them(words, of_slurm, expected, tmp_path):
    script = render("curate", tmp_path, *words)
    (tmp_path / "launch" / "steps.sh").write_text('start_executor() { :; }\nrun() { echo "$@"; }\n')
    done = subprocess.run(["bash"], input=script, text=True, capture_output=True, check=True, env=os.environ | of_slurm)
    assert done.stdout.strip() == expected


def test_a_login_node_needs_neither_the_gpus_nor_the_compilers_of_the_nodes(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    words = ["dialect=cuda", "executor.device=cuda", "grpo.trainer.bf16=true", "+grpo.trainer.tf32=true"]
    assert "#SBATCH" in render("grpo", tmp_path, *words, "launcher.gpus_per_node=8")
    assert "#SBATCH" in render("sft", tmp_path, "sft.trainer.bf16=true")


def test_what_a_trainer_does_not_take_is_still_found_there(tmp_path):
    with pytest.raises(UserError, match="grpo.trainer: .*num_generations"):
        render("grpo", tmp_path, "grpo.trainer.bf16=true", "grpo.trainer.num_generations=5")


@pytest.mark.parametrize(
    ("asked", "gpus", "ranks"), [("null", 0, None), ("null", 1, None), ("null", 8, 8), ("1", 8, 1), ("2", 0, 2)]
)
def test_on_one_machine_there_is_a_rank_for_each_gpu(asked, gpus, ranks, tmp_path, monkeypatch):
    """A trainer that is no rank takes every GPU that it sees, and TRL refuses to train on several that way."""
    started = []
    monkeypatch.setattr(torch.cuda, "device_count", lambda: gpus)
    monkeypatch.setattr(agent, "run_ranks", lambda config, stage, nodes, processes: started.append(processes))
    monkeypatch.setattr(Stage, "run", lambda self, cfg: started.append(None))
    run_stage("sft", compose_config("sft", [f"launcher.processes={asked}", f"output_dir={tmp_path}"]))
    assert started == [ranks]


@pytest.mark.parametrize(
    ("heads", "key_value_heads", "gpus", "split"),
    [
        (32, 8, 8, (8, 1)),
        (28, 4, 8, (4, 2)),
        (14, 2, 8, (2, 4)),
        (9, 3, 8, (1, 8)),
        (40, 8, 4, (4, 1)),
        (64, 8, 16, (16, 1)),
    ],
)
def test_vllm_shares_out_whole_heads_and_uses_every_gpu(heads, key_value_heads, gpus, split):
    config = Qwen3Config(num_attention_heads=heads, num_key_value_heads=key_value_heads)
    assert generator.split_gpus(config, gpus) == split


def test_options_of_the_server_are_passed_through(tmp_path):
    Qwen3Config(num_attention_heads=28, num_key_value_heads=4).save_pretrained(tmp_path)
    words = generator.serve_command(tmp_path, 40001, 8, {"max-model-len": 16384, "enforce-eager": True})
    assert words[2:4] == ["serve", str(tmp_path)]
    wanted = ["--port=40001", "--tensor-parallel-size=4", "--data-parallel-size=2", "--max-model-len=16384"]
    assert {*wanted, "--enforce-eager"} <= set(words)


def test_the_server_loads_a_model_of_the_hub_as_its_settings_say(tmp_path, monkeypatch):
    model = tmp_path / "model"
    Qwen3Config(num_attention_heads=4, num_key_value_heads=4).save_pretrained(model)
    words = ["model=hf", "model.name=me/kernels", "model.trust_remote_code=true", "model.dtype=bfloat16"]
    cfg = compose_config("grpo", [*words, "grpo.policy=me/kernels", "launcher=slurm", f"output_dir={tmp_path}"])
    OmegaConf.save(cfg, tmp_path / "config.yaml", resolve=True)
    monkeypatch.setattr(models, "snapshot_download", lambda name, revision, allow_patterns: str(model))
    started = []
    monkeypatch.setattr(os, "execve", lambda file, words, environment: started.append(words))
    generator.main(tmp_path / "config.yaml", 40001)
    (words,) = started
    assert words[3:5] == ["serve", str(model)] and {"--trust-remote-code", "--dtype=bfloat16"} <= set(words)
