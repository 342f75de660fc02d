"""Starting the forkserver before torch is imported: it and the service both take seconds for that, side by side."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from kernelrl.executor.api import ExecutorSettings
from kernelrl.executor.processes.helpers import compiled_helper
from kernelrl.executor.quota import num_cores

SPIN_COUNT = "1000"
"""OpenMP's threads spin this long (some 30 µs) before they sleep: spinning ones are slow to stop, and in the way."""


@dataclass(frozen=True)
class Warming:
    """A forkserver that is starting."""

    process: subprocess.Popen[bytes]
    control: socket.socket
    """The service's end of the socket over which it is asked."""


def start_forkserver(environment: dict[str, str]) -> Warming:
    """Start a forkserver with these environment variables, all that a candidate could read of one."""
    control, theirs = socket.socketpair()
    with theirs:
        fd = theirs.fileno()
        command = [sys.executable, "-m", "kernelrl.executor.contest.forkserver", str(fd)]
        return Warming(subprocess.Popen(command, env=environment, pass_fds=(fd,)), control)


def num_threads(settings: ExecutorSettings) -> int:
    """Threads of one run of a candidate."""
    return settings.threads or num_cores()


def forkserver_environment(settings: ExecutorSettings) -> dict[str, str]:
    """Environment variables of the forkserver of an executor with these settings.

    Raises:
        InfrastructureError: there is no C compiler.
    """
    environment = {
        "PATH": os.environ.get("PATH", os.defpath),
        "OMP_NUM_THREADS": str(num_threads(settings)),
        "GOMP_SPINCOUNT": SPIN_COUNT,
        "MALLOC_TRIM_THRESHOLD_": str(1 << 30),  # what contestants free, they keep
        "LC_ALL": "C.UTF-8",
        "TRITON_DEFAULT_FP_FUSION": "1",
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    if settings.device == "cuda":  # it must not touch the device: what it had of it would not survive a fork
        device = os.environ.get("CUDA_VISIBLE_DEVICES", "0").partition(",")[0]  # the first that this process may use
        environment |= {"PYTORCH_NVML_BASED_CUDA_CHECK": "1", "CUDA_VISIBLE_DEVICES": device}
    else:
        environment |= {"TRITON_INTERPRET": "1", "CUDA_VISIBLE_DEVICES": ""}
        environment["LD_PRELOAD"] = str(compiled_helper(Path(settings.cache_dir).expanduser(), "call_memory"))
    return environment
