"""`kernelrl launch COMMAND [overrides]`: the same command on other machines."""

from __future__ import annotations

from kernelrl import configs
from kernelrl.commands.arguments import Parser
from kernelrl.console import set_up_logging
from kernelrl.errors import UserError
from kernelrl.runs.ablation import fixed
from kernelrl.runs.launch import slurm
from kernelrl.runs.stages import STAGES


def main(arguments: list[str]) -> int:
    """Run the command; returns its exit code."""
    parser = Parser(
        prog="kernelrl launch",
        usage="kernelrl launch COMMAND launcher=slurm [nodes=N] [key=value ...] [--dry-run]",
        description="Run a command as a job of a cluster: its config is composed once, and its job script rendered.",
        epilog="examples:\n"
        "  kernelrl launch pipeline recipe=toy launcher=slurm nodes=2 launcher.partition=gpu --dry-run\n"
        "  kernelrl launch grpo recipe=demo launcher=slurm nodes=4 launcher.executors=8 executor=ray\n"
        "  kernelrl launch curate recipe=concur launcher=slurm launcher.array=8\n"
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
