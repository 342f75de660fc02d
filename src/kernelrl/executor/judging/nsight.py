"""Counters of a GPU: Nsight Compute (`ncu`) over one call of a kernel that was judged, in a run of its own.

Nothing is judged or paid by what it says: ncu works from within the process that it profiles, which is the candidate's.
That process learns nothing that is secret: it draws inputs as the task shows them, and reads no files but libraries,
ncu's own and what it was given.
"""

from __future__ import annotations

import contextlib
import csv
import json
import math
import shutil
import sys
import tempfile
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path

import kernelrl
from kernelrl.executor.building.compilers import Compilers, printable
from kernelrl.executor.contest import profiled
from kernelrl.executor.processes.cores import Cores
from kernelrl.executor.processes.forking import ForkServer
from kernelrl.verdict import GpuCounters

MISSING = "ncu is not on PATH: install NVIDIA's Nsight Compute"
ADMINISTRATORS_ONLY = "the driver shows its counters to administrators only"
NOT_A_FOLDER_OF_ITS_OWN = "ncu lies in a folder that holds private files, which a profiled kernel would read"
MOVE = "install Nsight Compute in a folder of its own, as below /opt or /usr/local"
ALLOW = "options nvidia NVreg_RestrictProfilingToAdminUsers=0 in /etc/modprobe.d, and load the driver again"
_DRIVER = Path("/proc/driver/nvidia/params")
MAX_LAUNCHES = 16
"""Launches of one call that are profiled: each is run again for every pass of the counters."""
MAX_KERNELS = 8
"""Kernels that a verdict names: those that took longest."""
WALL_S = 120.0
"""Time on the clock for importing torch, compiling and all passes (in seconds): nobody else has the device meanwhile.
Each process may compute for so long, too."""
SCRATCH_BYTES = 256 << 20
"""Size of all that ncu and the kernel write together."""
_FIELDS = {
    "gpu__time_duration.sum": "microseconds",
    "sm__throughput.avg.pct_of_peak_sustained_elapsed": "compute",
    "dram__throughput.avg.pct_of_peak_sustained_elapsed": "dram",
    "dram__bytes_read.sum": "read_bytes",
    "dram__bytes_write.sum": "written_bytes",
    "sm__warps_active.avg.pct_of_peak_sustained_active": "occupancy",
}
"""By metric: the field of `GpuCounters` that it becomes."""
_UNITS = {"%": 0.01, "ns": 1e-3, "nsecond": 1e-3, "us": 1.0, "usecond": 1.0, "ms": 1e3, "msecond": 1e3, "byte": 1.0}
_STALLED, _PER_ISSUE = "smsp__average_warps_issue_stalled_", "_per_issue_active.ratio"
STALLS = {
    "long_scoreboard": "memory of the device",
    "lg_throttle": "the queue of memory accesses",
    "short_scoreboard": "shared memory",
    "mio_throttle": "the queue of shared memory",
    "barrier": "other warps at a barrier",
    "math_pipe_throttle": "an arithmetic unit",
    "wait": "the result of the instruction before",
    "no_instruction": "instructions",
    "membar": "a memory fence",
    "imc_miss": "constants",
}
"""Reasons why a warp does not issue, by ncu's name: what it waits for."""
METRICS = (*_FIELDS, *(f"{_STALLED}{name}{_PER_ISSUE}" for name in STALLS))
Profile = tuple[tuple[GpuCounters, ...], str]
"""Counters of the kernels of one call, and why there are none."""


def command(ncu: str, program: list[str]) -> list[str]:
    """The command line that profiles what a program does between `cudaProfilerStart` and `cudaProfilerStop`."""
    return [
        *(ncu, "--csv", "--print-units", "base", "--print-kernel-base", "function"),
        *("--target-processes", "application-only", "--profile-from-start", "off", "--clock-control", "none"),
        *("--launch-count", str(MAX_LAUNCHES), "--metrics", ",".join(METRICS)),
        *program,
    ]


def parse(text: str) -> tuple[GpuCounters, ...]:
    """What ncu says with `--csv`: one entry per kernel, of its longest launch; those that took longest first.

    Beside the table there are lines of ncu's own, and what the program has printed.
    """
    lines = text.splitlines()
    start = next((number for number, line in enumerate(lines) if line.startswith('"ID","Process ID"')), len(lines))
    launches: dict[str, tuple[str, dict[str, float]]] = {}
    for row in _rows(lines[start:]):
        try:
            value = float(row["Metric Value"].replace(",", "")) * _UNITS.get(row["Metric Unit"], 1.0)
            kernel, metrics = launches.setdefault(row["ID"], (row["Kernel Name"], {}))
        except (KeyError, ValueError, AttributeError, TypeError):  # `n/a`, or no line of the table
            continue
        if math.isfinite(value):
            metrics[row["Metric Name"]] = value
    kernels: dict[str, list[GpuCounters]] = {}
    for name, metrics in launches.values():
        kernels.setdefault(name, []).append(_of_launch(name, metrics))
    longest = [
        max(of_kernel, key=_duration).model_copy(update={"launches": len(of_kernel)}) for of_kernel in kernels.values()
    ]
    return tuple(sorted(longest, key=_duration, reverse=True)[:MAX_KERNELS])


def _rows(lines: list[str]) -> Iterator[dict[str, str]]:
    """The rows of a table, up to the first that is no CSV: the program that is profiled can print one."""
    with contextlib.suppress(csv.Error):
        yield from csv.DictReader(lines)


def _duration(counters: GpuCounters) -> float:
    return counters.microseconds or 0.0


def _of_launch(name: str, metrics: dict[str, float]) -> GpuCounters:
    stalls = {key: metrics[metric] for key in STALLS if (metric := f"{_STALLED}{key}{_PER_ISSUE}") in metrics}
    waits = max(stalls, key=stalls.__getitem__) if any(stalls.values()) else None
    fields = {field: metrics.get(metric) for metric, field in _FIELDS.items()}
    return GpuCounters(kernel=printable(name[:200]), stalled_by=waits and STALLS[waits], **fields)  # type: ignore[arg-type]


def is_restricted() -> bool:
    """Whether the driver shows its counters to administrators only, which no confined process is."""
    return _DRIVER.exists() and "RmProfilingAdminOnly: 1" in _DRIVER.read_text()


class Profiler:
    """Profiles kernels on the device that is here.

    Args:
        forkserver: forks the confined process in which ncu and the kernel run.
        cores: says when it may run.
        scratch: folder in which its own folder is made.
        ncu: the program; None: there is none.
        private: folders whose files no kernel may read, beside the user's home: the executor's cache.
        device: on which the kernel runs.
    """

    def __init__(
        self,
        forkserver: ForkServer,
        cores: Cores,
        scratch: Path,
        ncu: str | None,
        private: tuple[Path, ...],
        device: str = "cuda",
    ):
        self._ncu, self._scratch, self._cores, self._device = ncu, scratch, cores, device
        self._cannot = MISSING if ncu is None else ""
        readable = [Path(kernelrl.__file__).parents[1], Path("/opt/nvidia")]
        if ncu is not None:
            place = Path(ncu).resolve().parent.parent
            readable.append(place)
            if any(folder.resolve().is_relative_to(place) for folder in (Path.home(), *private)):
                self._cannot = f"{NOT_A_FOLDER_OF_ITS_OWN}: {MOVE}"
        self._runs = _ProfiledRuns(forkserver, cores, WALL_S, tuple(readable), scratch)

    def profile(
        self, task: str, candidate: str, modules: tuple[Path, ...], unreached: tuple[tuple[int, ...], ...] | None = None
    ) -> Profile:
        """`run` with the device to itself. What fails is why there are no counters, and costs no verdict."""
        try:
            with self._cores.on_device():
                return self.run(task, candidate, modules, unreached)
        except Exception as error:
            return (), printable(f"{type(error).__name__}: {error}")

    def run(
        self, task: str, candidate: str, modules: Sequence[Path], unreached: Collection[Sequence[int]] | None = None
    ) -> Profile:
        """Profile one call.

        Args:
            task: text of the reference.
            candidate: text of the kernel.
            modules: the native modules that it asks for, in this order.
            unreached: see `import_text`.
        """
        if self._ncu is None or self._cannot:
            return (), self._cannot
        with tempfile.TemporaryDirectory(dir=self._scratch, ignore_cleanup_errors=True) as name:
            given, folder = Path(name, "given"), Path(name, "own")
            given.mkdir()
            folder.mkdir()
            for number, path in enumerate(modules):
                shutil.copy(path, given / f"{number}.so")
            request = {"task": task, "candidate": candidate, "device": self._device, "unreached": unreached}
            (given / profiled.REQUEST).write_text(json.dumps(request))
            program = [sys.executable, "-m", profiled.__name__, str(given)]
            made = self._runs.run(
                command(self._ncu, program), folder, file_bytes=SCRATCH_BYTES, shortened=False, readable=(given,)
            )
        counters = parse(made.log)
        return counters, "" if counters else _explain(made.log)


class _ProfiledRuns(Compilers):
    """Runs a profiler over kernels, which is confined and limited like a compiler, and has the device."""

    name = "the profiled run"
    profiled = True

    def wall_s(self, cpu_s: float) -> float:
        """No more than it may compute: nobody else has the device meanwhile."""
        return cpu_s


def _explain(log: str) -> str:
    """Why there are no counters, in the last words that were said."""
    if "ERR_NVGPUCTRPERM" in log:
        return f"{ADMINISTRATORS_ONLY}: {ALLOW}"
    lines = [line.strip() for line in log.splitlines() if line.strip()]
    errors = [line for line in lines if line.startswith("==ERROR==")]
    of_program = [line for line in lines if not line.startswith("==")]
    said = [*errors[:1], *of_program[-1:]] or lines[-1:] or ["it said nothing"]
    return printable(f"ncu gave no counters: {'; '.join(said)[:300]}")
