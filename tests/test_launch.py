"""Job scripts: what `kernelrl launch --dry-run` shows, without a cluster."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from kernelrl.configs import compose_config
from kernelrl.errors import UserError
from kernelrl.runs.launch import slurm
from kernelrl.runs.stages import STAGES

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
    lines = render("grpo", tmp_path, *words, *more).splitlines()
    options = {line.removeprefix("#SBATCH ") for line in lines if line.startswith("#SBATCH")}
    assert options >= {"--nodes=6", "--time=12:00:00", "--gpus-per-node=8", "--account=ml", "--partition=gpu"}
    assert options >= {"--requeue", "--signal=USR1@120", "--exclusive", "--open-mode=append"}
    assert "module load cuda" in lines and "export KERNELRL_RAY=1" in lines and "export KERNELRL_NODES=4" in lines
    config = (tmp_path / "launch" / "config.yaml").read_text()
    assert "processes: 8" in config, "one rank for each GPU"
    assert "${" not in config, "every process reads the same values"


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
        (["launcher.array=2"], r"launcher.array=2: only eval can be shared out"),
    ],
)
def test_what_cannot_be_rendered_is_named(words, message, tmp_path):
    with pytest.raises(UserError, match=message):
        render("sft", tmp_path, *words)
