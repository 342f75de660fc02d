"""The same commands on other machines.

Everything that a launch needs lies in `OUTPUT_DIR/launch`: the config, resolved once for all nodes, the job scripts,
and what was submitted.
"""

from __future__ import annotations

import os
from pathlib import Path

from omegaconf import DictConfig, OmegaConf

from kernelrl.errors import UserError
from kernelrl.records import write_atomically
from kernelrl.runs.launch import about
from kernelrl.runs.stages import STAGES, TRAINING

FOLDER = "launch"
CONFIG = "config.yaml"
JOBS = "jobs.json"


def run_stage(name: str, cfg: DictConfig) -> Path:
    """Run a stage on this machine: by ranks where `launcher.processes`, `parallel` or its trainer asks for them.

    Returns:
        Its artefact.
    """
    if cfg.launcher.name == "local" and cfg.nodes != 1:
        raise UserError(f"nodes={cfg.nodes}: launcher=local is this machine alone; add launcher=slurm")
    if name not in TRAINING or "RANK" in os.environ or cfg.launcher.name != "local":
        return STAGES[name].run(cfg)
    from kernelrl.runs.launch.agent import Nodes, needs_ranks, num_gpus, run_ranks

    processes = cfg.launcher.processes or max(1, num_gpus())
    if not needs_ranks(cfg, name, processes):
        return STAGES[name].run(cfg)
    run_ranks(write_config(cfg), name, Nodes.of_environment(), processes)
    return Path(cfg[name].folder)


def write_config(cfg: DictConfig) -> Path:
    """Write the config, as every process of the run will read it. Returns the file."""
    cfg = cfg.copy()
    cfg.output_dir = str(Path(cfg.output_dir).absolute())
    folder = Path(cfg.output_dir) / FOLDER
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UserError(f"cannot create folder {folder}: {error.strerror}; choose another output_dir=") from None
    about.write(folder)
    write_atomically(folder / CONFIG, OmegaConf.to_yaml(cfg, resolve=True))
    return folder / CONFIG
