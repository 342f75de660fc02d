"""Slurm: render the job script of a command from `slurm/COMMAND.sbatch`, check what is known of the cluster, submit.

A rendered script is that file with `#SBATCH` lines and variables in front, nothing else: it can be read, and submitted
by hand.
"""

from __future__ import annotations

import difflib
import json
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any, Literal

from omegaconf import DictConfig
from pydantic import BaseModel, ConfigDict, Field, NonNegativeInt, PositiveInt

from kernelrl.configs import read_node
from kernelrl.errors import UserError
from kernelrl.records import write_atomically, write_json
from kernelrl.runs.launch import JOBS, write_config
from kernelrl.runs.preflight import require_all
from kernelrl.runs.stages import JUDGING, STAGES, TRAINING

STEPS = "steps.sh"
SHARED_OUT = ("curate", "eval")
"""Commands that an array of jobs can share; one more job, after all of them, puts together what they have made."""


class SlurmSettings(BaseModel):
    """The node `launcher` of the config (`configs/launcher/slurm.yaml`)."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: Literal["slurm"]
    processes: PositiveInt | None
    """Ranks on each node that trains; None: one per GPU of a node, or one."""
    executors: NonNegativeInt
    """Nodes for the executor alone."""
    generators: Literal[0, 1]
    """Nodes for generation alone: TRL's trainer asks one server."""
    vllm: dict[str, str | int | float | bool]
    """Options of `vllm serve` on the node that generates, by their long names."""
    array: PositiveInt | None
    """Jobs that share the samples of an evaluation or the tasks of a curation; None: one job does it all."""
    partition: str | None
    time: Annotated[str, Field(pattern=r"^(\d+-)?\d+(:\d\d){0,2}$")] | None
    gpus_per_node: NonNegativeInt
    cpus_per_node: PositiveInt | None
    memory_per_node: str | None
    grace_s: PositiveInt
    """How long before its end a job is told to save a checkpoint (in seconds)."""
    retries: NonNegativeInt
    """Times that a job is queued again after a failure."""
    setup: tuple[str, ...]
    """Shell lines that prepare a node."""
    options: dict[str, str | int | bool]
    """Other options of sbatch, by their long names."""


def scripts() -> Path:
    """The folder of the job scripts: inside the installed package, or at the root of the checkout."""
    package = Path(__file__).parents[2]
    shipped = package / "slurm"
    return shipped if shipped.is_dir() else package.parents[1] / "slurm"


def launch(cfg: DictConfig, command: str, overrides: Sequence[str] = (), dry_run: bool = False) -> str:
    """Submit a command, or only show its script.

    Args:
        overrides: as given, for a command that composes configs itself (ablate).

    Returns:
        What to tell the user: the script, or the job's number and where its output goes.

    Raises:
        UserError: no Slurm here, no such partition, more nodes than there are, or what sbatch itself refuses.
    """
    settings = read_node(SlurmSettings, cfg.launcher, "launcher")
    nodes = _num_nodes(command, cfg.nodes, settings)
    if settings.array and command not in SHARED_OUT:
        shared = " and ".join(SHARED_OUT)
        raise UserError(f"launcher.array={settings.array}: only {shared} can be shared out as an array, not {command}")
    if settings.executors and cfg.executor.engine != "ray":
        raise UserError(f"launcher.executors={settings.executors}: nodes of their own judge by Ray; add executor=ray")
    if not dry_run:
        if settings.generators and find_spec("vllm") is None:
            raise UserError("launcher.generators=1: vLLM is not installed; pip install 'kernelrl[vllm]'")
        _check_cluster(settings, nodes)
    require_all(cfg, STAGES[command].runs or (command,), here=False, ask_hub=not dry_run)
    cfg = cfg.copy()
    cfg.launcher.processes = settings.processes or max(1, settings.gpus_per_node)
    config = write_config(cfg)
    shutil.copy(scripts() / STEPS, config.parent / STEPS)
    script = _render(cfg, command, settings, nodes, config)
    path = config.parent / f"{command}.sbatch"
    write_atomically(path, script)
    if command == "ablate":
        words = [word for word in overrides if not word.startswith(("launcher", "nodes="))]
        write_atomically(config.parent / "command", shlex.join(["ablate", *words]))
    if dry_run:
        return script
    (config.parent.parent / "logs").mkdir(exist_ok=True)
    (config.parent / "failures").unlink(missing_ok=True)
    if not settings.array:
        job = _submit(path, config, [])
    else:
        parts = _submit(path, config, [f"--array=0-{settings.array - 1}"])
        job = _submit(path, config, [f"--dependency=afterok:{parts}"])
    return f"job {job}, {nodes} node{'s' if nodes > 1 else ''}; its output: {config.parent.parent}/logs/{job}.log"


def _num_nodes(command: str, nodes: int, settings: SlurmSettings) -> int:
    """Nodes of the whole job."""
    training = nodes if {command} & {*TRAINING, "pipeline"} else 1
    generating = settings.generators if command in ("grpo", "pipeline") else 0
    return training + generating + (settings.executors if command in (*JUDGING, "pipeline") else 0)


def _render(cfg: DictConfig, command: str, settings: SlurmSettings, nodes: int, config: Path) -> str:
    options: dict[str, Any] = {
        "job-name": f"{cfg.name}-{command}",
        "nodes": nodes,
        "ntasks-per-node": 1,
        "exclusive": True,  # a machine that others use measures nothing
        "requeue": True,
        "open-mode": "append",
        "signal": f"USR1@{settings.grace_s}",
        "output": config.parent.parent / "logs" / "%j.log",
        "partition": settings.partition,
        "time": settings.time,
        "gpus-per-node": settings.gpus_per_node or None,
        "cpus-per-task": settings.cpus_per_node,
        "mem": settings.memory_per_node,
        **settings.options,
    }
    given = {name: value for name, value in options.items() if value not in (None, False)}
    lines = [f"#SBATCH --{name}" if value is True else f"#SBATCH --{name}={value}" for name, value in given.items()]
    variables = {
        "STEPS": config.parent / STEPS,
        "PYTHON": sys.executable,
        "CONFIG": config,
        "NODES": cfg.nodes,
        "EXECUTORS": settings.executors,
        "GENERATORS": settings.generators,
        "RAY": int(cfg.executor.engine == "ray"),
        "RETRIES": settings.retries,
        "ARRAY": settings.array or "",
    }
    exports = [f"export KERNELRL_{name}={shlex.quote(str(value))}" for name, value in variables.items()]
    shebang, *body = (scripts() / f"{command}.sbatch").read_text().splitlines()
    return "\n".join([shebang, *lines, *exports, *settings.setup, *body]) + "\n"


def _check_cluster(settings: SlurmSettings, nodes: int) -> None:
    if shutil.which("sbatch") is None:
        raise UserError("launcher=slurm: no Slurm here (sbatch is not on PATH); use a login node, or launcher=local")
    sizes: dict[str, int] = {}
    default = ""
    for line in _slurm("sinfo", "--noheader", "--format=%P %D").splitlines():
        name, _, size = line.strip().partition(" ")
        default = name.rstrip("*") if name.endswith("*") else default
        sizes[name.rstrip("*")] = sizes.get(name.rstrip("*"), 0) + int(size)
    partition = settings.partition or default
    if partition not in sizes:
        close = difflib.get_close_matches(partition, sizes, n=1)
        hint = f"did you mean {close[0]!r}?" if close else f"there are {', '.join(sizes)}"
        raise UserError(f"launcher.partition={settings.partition}: Slurm has no such partition; {hint}")
    if nodes > sizes[partition]:
        raise UserError(
            f"the job needs {nodes} nodes, and partition {partition} has {sizes[partition]}; "
            "lower nodes or launcher.executors"
        )


def _submit(script: Path, config: Path, options: list[str]) -> str:
    """Returns the job's number."""
    job = _slurm("sbatch", "--parsable", *options, str(script)).strip().partition(";")[0]
    jobs = config.parent / JOBS
    known = json.loads(jobs.read_text()) if jobs.exists() else []
    write_json(jobs, [*known, {"job_id": job, "name": script.stem, "submitted": time.strftime("%Y-%m-%dT%H:%M:%S")}])
    return job


def _slurm(*command: str) -> str:
    """What a program of Slurm prints.

    Raises:
        UserError: it refuses; its own words.
    """
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        reason = done.stderr.strip().splitlines() or [f"exit code {done.returncode}"]
        raise UserError(f"{command[0]}: {reason[-1].removeprefix(command[0]).removeprefix(': ')}")
    return done.stdout
