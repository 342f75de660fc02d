"""Starting a forkserver, and the environment variables with which one starts."""

from __future__ import annotations

import os
import signal
import socket
import sys
from dataclasses import dataclass
from pathlib import Path

from kernelrl.executor.api import ExecutorSettings
from kernelrl.executor.processes.helpers import compiled_helper, sanitizers
from kernelrl.executor.quota import num_cores

SPIN_COUNT = "1000"
"""OpenMP's threads spin this long (some 30 µs) before they sleep: spinning ones are slow to stop, and in the way."""

ASAN_OPTIONS = (
    "detect_leaks=0:alloc_dealloc_mismatch=0:detect_odr_violation=0:"
    "handle_segv=2:handle_sigbus=2:malloc_context_size=0:fast_unwind_on_fatal=1"
)
"""Leaks and what the libraries do are not looked for; no handler of theirs replaces the sanitizer's; short reports."""

PRELOADED = ("call_memory", "still_clock", "static_guard", "core_count", "quick_exit")
"""Helpers whose functions take the place of the C library's in the processes of candidates and references."""

OF_CUDA = ("CUDA_HOME", "CUDA_PATH", "LD_LIBRARY_PATH", "TRITON_LIBCUDA_PATH", "TRITON_PTXAS_PATH")
"""Environment variables by which the driver, the toolkit and Triton's assembler are found where a system has them."""


@dataclass(frozen=True)
class Warming:
    """A forkserver that is starting."""

    pid: int
    control: socket.socket
    """The service's end of the socket over which it is asked."""

    def end(self) -> int:
        """Kill it, if it has not ended. Returns its exit status (as `os.waitstatus_to_exitcode`)."""
        os.kill(self.pid, signal.SIGKILL)
        return os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])


def start_forkserver(environment: dict[str, str]) -> Warming:
    """Start a forkserver with these environment variables, all that a candidate could read of one."""
    control, other_end = socket.socketpair()
    with other_end:
        fd = other_end.fileno()
        os.set_inheritable(fd, True)
        command = [sys.executable, "-P", "-m", "kernelrl.executor.contest.forkserver", str(fd)]
        return Warming(os.posix_spawn(sys.executable, command, environment), control)


def num_threads(settings: ExecutorSettings) -> int:
    """Threads of one run of a candidate."""
    return settings.threads or num_cores()


def forkserver_environment(settings: ExecutorSettings, sanitized: bool = False) -> dict[str, str]:
    """Environment variables of the forkserver of an executor with these settings.

    Args:
        settings: of the executor.
        sanitized: its processes have AddressSanitizer's memory instead of that of a call.

    Raises:
        InfrastructureError: there is no C compiler, or it comes without its sanitizers.
    """
    environment = {
        "PATH": os.environ.get("PATH", os.defpath),
        "OMP_NUM_THREADS": str(num_threads(settings)),
        "GOMP_SPINCOUNT": SPIN_COUNT,
        "OPENBLAS_NUM_THREADS": "1",  # NumPy's, under Triton's interpreter: its threads look at the clock
        "MALLOC_TRIM_THRESHOLD_": str(1 << 30),  # what contestants free, they keep,
        "MALLOC_MMAP_THRESHOLD_": str(1 << 25),  # as other programs come to do, up to the largest that these may keep
        "LC_ALL": "C.UTF-8",
        "TRITON_DEFAULT_FP_FUSION": "1",
    }
    if paths := os.environ.get("PYTHONPATH"):  # what this process was found by
        environment["PYTHONPATH"] = os.pathsep.join(map(os.path.abspath, paths.split(os.pathsep)))
    if settings.device == "cuda":  # it must not touch the device: what it had of it would not survive a fork
        device = os.environ.get("CUDA_VISIBLE_DEVICES", "0").partition(",")[0]  # the first that this process may use
        environment |= {"PYTORCH_NVML_BASED_CUDA_CHECK": "1", "CUDA_VISIBLE_DEVICES": device}
        environment |= {name: os.environ[name] for name in OF_CUDA if name in os.environ}
    else:
        environment |= {"TRITON_INTERPRET": "1", "CUDA_VISIBLE_DEVICES": ""}
        cache = Path(settings.cache_dir).expanduser()
        environment["LD_PRELOAD"] = " ".join(str(compiled_helper(cache, name)) for name in PRELOADED)
    if sanitized:
        environment |= {"LD_PRELOAD": " ".join(sanitizers()), "ASAN_OPTIONS": ASAN_OPTIONS}
    return environment
