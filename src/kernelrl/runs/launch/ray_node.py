"""Ray on one node of a job: `python -m kernelrl.runs.launch.ray_node`, started by `srun`, lives as long as its step.

The first node, where the driver runs, is the head; `RAY_ADDRESS` says where.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time

from kernelrl.errors import InfrastructureError
from kernelrl.runs.launch.agent import run_as_task

HEAD_WAIT_S = 120.0
RAY = (sys.executable, "-m", "ray.scripts.scripts")


def main() -> None:
    """Become `ray start`.

    Raises:
        InfrastructureError: the head did not come.
    """
    host, _, port = os.environ["RAY_ADDRESS"].rpartition(":")
    command = [*RAY, "start", "--block", "--disable-usage-stats"]
    index = int(os.environ["SLURM_PROCID"])
    if index < int(os.environ["KERNELRL_NODES"]) and int(os.environ["KERNELRL_EXECUTORS"]):
        command.append("--num-cpus=0")  # it trains: the executor has nodes of its own
    if index == 0:
        command += ["--head", f"--port={port}", "--include-dashboard=false"]
    else:
        _await(host, int(port))
        command.append(f"--address={host}:{port}")
    os.execv(sys.executable, command)


def _await(host: str, port: int) -> None:
    until = time.monotonic() + HEAD_WAIT_S
    check = [*RAY, "health-check", "--address", f"{host}:{port}"]
    while subprocess.run(check, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL).returncode:
        if time.monotonic() > until:
            raise InfrastructureError(f"Ray's head at {host}:{port} did not come")
        time.sleep(0.5)


if __name__ == "__main__":
    run_as_task(main)
