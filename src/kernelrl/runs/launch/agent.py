"""What runs on each node of a job: `python -m kernelrl.runs.launch.agent CONFIG STAGE [key=value]` checks the node
and runs the stage.

A stage that trains is started once per rank, by torch's elastic launcher; every other one runs in this process.
Without Slurm's variables the node is the only one.
"""

from __future__ import annotations

import json
import logging
import os
import platform
import signal
import socket
import sys
import time
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import cast

import psutil
from omegaconf import DictConfig, OmegaConf

from kernelrl.configs import read_node
from kernelrl.console import set_up_logging
from kernelrl.errors import InfrastructureError, KernelRLError, UserError
from kernelrl.executor import ExecutorSettings
from kernelrl.records import write_json
from kernelrl.runs.launch.about import check_same
from kernelrl.runs.launch.logs import open_logs
from kernelrl.runs.preflight import require_machine
from kernelrl.runs.stages import JUDGING, STAGES, TRAINING
from kernelrl.training import interruption
from kernelrl.training.interruption import Interrupted

SHARED_WAIT_S = 60.0
"""Time for a file that one node writes to be seen by the others: network file systems cache."""
ENDS = (UserError, InfrastructureError, Interrupted)
"""What a rank can end with, the gravest first."""
JOB_CODES: dict[type[KernelRLError], int] = {UserError: 200, Interrupted: 75}
"""Exit codes of agents. `srun` ends the others when one ends, and returns the highest: a cause has to be above 143."""
FAILED = 190
SETTLE_S = 3.0
"""For the others to have started: one that is ended before it can say why counts as lost (in seconds)."""


@dataclass(frozen=True)
class Nodes:
    """This node among those that run the same stage."""

    index: int
    count: int
    attempt: str
    """Names this start of the stage; the same on all nodes."""
    address: str
    """Of node 0."""

    @classmethod
    def of_environment(cls) -> Nodes:
        """As Slurm's `srun` says, one task on each node."""
        environment = os.environ.get
        if "SLURM_STEP_ID" not in os.environ:
            return cls(0, 1, f"local-{os.getpid()}", "127.0.0.1")
        parts = (environment(name, "0") for name in ("SLURM_JOB_ID", "SLURM_RESTART_COUNT", "SLURM_STEP_ID"))
        index, count = int(os.environ["SLURM_PROCID"]), int(os.environ["SLURM_NTASKS"])
        return cls(index, count, ".".join(parts), environment("SLURM_LAUNCH_NODE_IPADDR", "127.0.0.1"))

    @property
    def name(self) -> str:
        """Of this node."""
        return os.environ.get("SLURMD_NODENAME", platform.node())


def main(config: Path, stage: str, overrides: Sequence[str] = ()) -> None:
    """Run one stage on this node.

    Args:
        overrides: values that are known on the node only, for a stage that does not train.

    Raises:
        UserError: the node cannot take part: other code, a folder that it does not share.
    """
    interruption.install()
    nodes = Nodes.of_environment()
    if not config.exists():
        raise UserError(
            f"{nodes.name}: {config} is not there; output_dir has to be on a file system that all nodes share"
        )
    check_same(config.parent, nodes.name)
    cfg = cast(DictConfig, OmegaConf.merge(OmegaConf.load(config), OmegaConf.from_dotlist(list(overrides))))
    if stage in JUDGING and nodes.index == 0:
        require_machine(cfg.dialect, read_node(ExecutorSettings, cfg.executor, "executor"))
    if stage in TRAINING and needs_ranks(cfg, stage, nodes.count * cfg.launcher.processes):
        run_ranks(config, stage, nodes, cfg.launcher.processes)
    else:
        STAGES[stage].run(cfg)


def needs_ranks(cfg: DictConfig, stage: str, number: int) -> bool:
    """Whether a stage that trains by so many processes runs in processes of their own, as ranks.

    DeepSpeed and FSDP hold the model of a single rank too: one GPU may leave the optimizer's state to the host.
    """
    from kernelrl.training import ranks  # seconds, which stages that do not train need not wait for

    fields = ranks.merged_fields(cfg[stage].trainer, cfg.parallel)
    return number > 1 or num_gpus() > 1 or ranks.holds_the_model(fields)


def num_gpus() -> int:
    """How many GPUs this process sees; of several a trainer that is no rank takes all, which TRL refuses."""
    import torch

    return torch.cuda.device_count()


def run_ranks(config: Path, stage: str, nodes: Nodes, processes: int) -> None:
    """Run a stage by `processes` ranks on each node, and return when they have finished.

    Raises:
        UserError, Interrupted, InfrastructureError: what a rank ended with.
    """
    from torch.distributed.elastic.multiprocessing.errors import ChildFailedError  # seconds, after the checks
    from torch.distributed.launcher.api import LaunchConfig, elastic_launch

    port = _meet(config.parent / "nodes" / f"{nodes.attempt}.{stage}", nodes)
    logs = open_logs(config.parent.parent, nodes.attempt.rpartition(".")[0] or nodes.attempt)
    threads = max(1, len(os.sched_getaffinity(0)) // processes)
    environment = {"KERNELRL_LOGS": str(logs), "OMP_NUM_THREADS": os.environ.get("OMP_NUM_THREADS", str(threads))}
    os.environ.update(environment)
    launch = LaunchConfig(
        min_nodes=nodes.count,
        max_nodes=nodes.count,
        nproc_per_node=processes,
        run_id=nodes.attempt,
        rdzv_backend="static",
        rdzv_endpoint=f"{nodes.address}:{port}",
        rdzv_configs={"rank": nodes.index, "timeout": 900},
        max_restarts=0,
        monitor_interval=0.5,
        signals_to_handle="SIGHUP",
    )
    logging.getLogger("torch.distributed.elastic").setLevel(logging.CRITICAL)  # its errors are the ranks', told below
    handlers = {number: signal.signal(number, _tell_ranks) for number in interruption.SIGNALS}
    try:
        elastic_launch(launch, sys.executable)("-m", "kernelrl.runs.launch.rank", str(config), stage)
    except ChildFailedError as error:
        codes = {failure.exitcode for failure in error.failures.values()}
        known = [end for end in ENDS if end.exit_code in codes]
        if known == [Interrupted]:
            raise Interrupted(f"{stage} on {nodes.name} has stopped; the same command goes on from here") from None
        where = f"{stage} on {nodes.name}, rank {error.get_first_failure()[0]}"
        raise (known or [InfrastructureError])[0](f"{where} ended; its log is in {logs}") from None
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)


def _tell_ranks(number: int, frame: FrameType | None) -> None:
    for child in psutil.Process().children():
        child.send_signal(signal.SIGTERM)


def _meet(folder: Path, nodes: Nodes) -> int:
    """Wait for all nodes, which also shows that they share the folder. Returns a free port of node 0.

    Raises:
        UserError: a node's file is not seen.
    """
    if nodes.count == 1:
        return _free_port()
    folder.mkdir(parents=True, exist_ok=True)
    write_json(folder / f"{nodes.index}.json", {"node": nodes.name, "port": _free_port() if nodes.index == 0 else None})
    waiting_until = time.monotonic() + SHARED_WAIT_S
    while missing := [index for index in range(nodes.count) if not (folder / f"{index}.json").exists()]:
        if time.monotonic() > waiting_until:
            raise UserError(
                f"{nodes.name} (node {nodes.index} of {nodes.count}) does not see what node {missing[0]} wrote to "
                f"{folder}; output_dir has to be on a file system that all nodes share"
            )
        time.sleep(0.2)
    port: int = json.loads((folder / "0.json").read_text())["port"]
    return port


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("", 0))
        port: int = probe.getsockname()[1]
        return port


def run_as_task(main: Callable[[], object]) -> None:
    """Run a task of a job, and end the process with a code that says how it went."""
    set_up_logging()
    try:
        main()
    except KernelRLError as error:
        for number in interruption.SIGNALS:  # `srun` ends this one when another has ended: what counts is why it ended
            signal.signal(number, signal.SIG_IGN)
        print(f"error: {error}", file=sys.stderr, flush=True)
        if not isinstance(error, Interrupted):
            time.sleep(SETTLE_S)
        sys.exit(JOB_CODES.get(type(error), FAILED))
    except Exception:
        traceback.print_exc()
        sys.exit(FAILED)


if __name__ == "__main__":
    run_as_task(lambda: main(Path(sys.argv[1]), sys.argv[2], sys.argv[3:]))
