"""`kernelrl launch COMMAND [overrides]`: the same command on other machines.

Everything that a launch needs lies in `OUTPUT_DIR/launch`: the config, resolved once for all nodes, the job scripts,
and what was submitted.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from omegaconf import DictConfig, OmegaConf

from kernelrl.commands.arguments import Parser
from kernelrl.console import set_up_logging
from kernelrl.errors import UserError
from kernelrl.records import write_atomically
from kernelrl.runs.launch import about
from kernelrl.runs.stages import STAGES, TRAINING

FOLDER = "launch"
CONFIG = "config.yaml"
JOBS = "jobs.json"


def run_stage(name: str, cfg: DictConfig) -> Path:
    """Run a stage on this machine: by several ranks where `launcher.processes` asks for them, else in this process.

    Returns:
        Its artefact.
    """
    if cfg.launcher.name == "local" and cfg.nodes != 1:
        raise UserError(f"nodes={cfg.nodes}: launcher=local is this machine alone; add launcher=slurm")
    processes = cfg.launcher.processes if cfg.launcher.name == "local" else 1
    if name not in TRAINING or processes == 1 or "RANK" in os.environ:
        return STAGES[name].run(cfg)
    from kernelrl.runs.launch.agent import Nodes, run_ranks

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


def main(arguments: Sequence[str]) -> int:
    """Entry point of `kernelrl launch`."""
    from kernelrl import configs
    from kernelrl.runs.ablation import fixed
    from kernelrl.runs.launch import slurm

    parser = Parser(
        prog="kernelrl launch",
        usage="kernelrl launch COMMAND launcher=slurm [nodes=N] [key=value ...] [--dry-run]",
        description="Run a command as a job of a cluster: its config is composed once, and its job script rendered.",
        epilog="examples:\n"
        "  kernelrl launch pipeline recipe=toy launcher=slurm nodes=2 launcher.partition=gpu --dry-run\n"
        "  kernelrl launch grpo recipe=demo launcher=slurm nodes=4 launcher.executors=8 executor=ray\n"
        "  kernelrl launch eval recipe=demo launcher=slurm launcher.array=8",
    )
    parser.add_argument("command", choices=STAGES, metavar="COMMAND", help=", ".join(STAGES))
    parser.add_argument("overrides", nargs="*", metavar="key=value", help="as of the command itself")
    parser.add_argument("--dry-run", action="store_true", help="show the job script and submit nothing")
    asked = parser.parse_intermixed_args(arguments)
    configs.check_overrides(asked.overrides)
    cfg = configs.compose_config(asked.command, fixed(asked.overrides))
    set_up_logging()
    if cfg.launcher.name != "slurm":
        raise UserError(f"launcher=local is this machine: use `kernelrl {asked.command}`, or add launcher=slurm")
    print(slurm.launch(cfg, asked.command, asked.overrides, dry_run=asked.dry_run))
    return 0
