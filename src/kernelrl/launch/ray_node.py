"""Ray on one node of a job: `python -m kernelrl.launch.ray_node`, started on each by `srun`, lives as long as its step.

The first node, where the driver runs, is the head; `RAY_ADDRESS` says where.
"""

from __future__ import annotations

import os
import socket
import sys
import time

from kernelrl.errors import InfrastructureError
from kernelrl.launch.agent import run_as_task

HEAD_WAIT_S = 120.0


def main() -> None:
    """Become `ray start`.

    Raises:
        InfrastructureError: the head did not come.
    """
    host, _, port = os.environ["RAY_ADDRESS"].rpartition(":")
    command = [sys.executable, "-m", "ray.scripts.scripts", "start", "--block", "--disable-usage-stats"]
    index = int(os.environ["SLURM_PROCID"])
    if index < int(os.environ["KERNELRL_NODES"]) and int(os.environ["KERNELRL_EXECUTORS"]):
        command.append("--num-cpus=0")  # it trains: the executor has nodes of its own
    if index == 0:
        command += ["--head", f"--node-ip-address={host}", f"--port={port}", "--include-dashboard=false"]
    else:
        _await(host, int(port))
        command.append(f"--address={host}:{port}")
    os.execv(sys.executable, command)


def _await(host: str, port: int) -> None:
    until = time.monotonic() + HEAD_WAIT_S
    while True:
        try:
            socket.create_connection((host, port), timeout=5).close()
            return
        except OSError as error:
            if time.monotonic() > until:
                raise InfrastructureError(f"Ray's head at {host}:{port} did not come: {error}") from None
            time.sleep(0.5)


if __name__ == "__main__":
    run_as_task(main)
