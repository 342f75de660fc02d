"""The time below which no program can do a task on this machine, so that what is too good to be true is not believed.

Whatever a program does, it must read those inputs and parameters on which the outputs depend, and write the outputs.
The bound is the longest of three times: of reading, of writing, and of multiplying where a task is one product of
matrices, each at the highest speed that this machine has shown. The first two hold for every program. The third holds
for all that multiply matrices as programs do: three levels of Strassen's algorithm are granted. It is left out wherever
less work may do (see `product_flops`), and on processors with matrix units.
"""

from __future__ import annotations

import ctypes
import hashlib
import json
import math
import platform
import threading
from collections import OrderedDict
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal, NamedTuple

import torch

from kernelrl.errors import InfrastructureError
from kernelrl.executor import machine
from kernelrl.executor.judging.demand import Demand
from kernelrl.executor.judging.reference import Reference
from kernelrl.executor.processes.cores import Cores
from kernelrl.executor.processes.helpers import compiled_helper
from kernelrl.executor.quota import num_cores
from kernelrl.records import write_json

MARGIN = 2.0
"""A time is implausible when it is shorter than the bound by more than this factor: half of a symmetric input is
enough, and a measurement of the machine may have been disturbed."""
SIZES = tuple(1 << exponent for exponent in range(16, 29, 2))
"""Memory that is read and written to measure the machine: all levels of its caches, and beyond (in bytes)."""
SECONDS, TIMES = 0.002, 4
"""Length of one measurement (in seconds), and how often it is made: the best one counts."""
STRASSEN = (7 / 8) ** 3
"""Share of the multiplications that are left after three levels of Strassen's algorithm (Strassen 1969)."""
MAX_KNOWN = 4096
"""Tasks whose demands are remembered."""
Work = Literal["reading", "writing", "multiplying"]
_READ, _WRITE, _FILL, _MULTIPLY = range(4)


class Bound(NamedTuple):
    """The time that no program undercuts."""

    seconds: float
    work: Work
    """What takes so long."""
    num_bytes: int
    """Memory that must be read and written."""


@dataclass(frozen=True)
class Peaks:
    """The highest speeds that this machine has shown, with all cores.

    Raises:
        ValueError: these are no speeds.
    """

    read: tuple[float, ...]
    """For each of `SIZES` (in bytes per second)."""
    write: tuple[float, ...]
    multiply: float | None
    """Operations on float32 (per second); None: not known, as for a processor with matrix units."""

    def __post_init__(self) -> None:
        multiply = () if self.multiply is None else (self.multiply,)
        rates = *self.read, *self.write, *multiply
        if not len(self.read) == len(self.write) == len(SIZES) or not all(0 < rate < math.inf for rate in rates):
            raise ValueError(f"no speeds: {self}")

    def bound(self, demand: Demand) -> Bound:
        """The shortest time in which a demand can be met."""
        size = demand.read + demand.written
        times: dict[Work, float] = {
            "reading": _time(demand.read, size, self.read),
            "writing": _time(demand.written, size, self.write),
        }
        if self.multiply:
            times["multiplying"] = STRASSEN * demand.flops / self.multiply
        work = max(times, key=times.__getitem__)
        return Bound(times[work], work, size)

    def best(self, other: Peaks) -> Peaks:
        """The higher ones of two."""
        read, write = (tuple(map(max, *pair)) for pair in ((self.read, other.read), (self.write, other.write)))
        multiply = max(self.multiply or 0.0, other.multiply or 0.0)
        return Peaks(read, write, multiply or None)


def _time(num_bytes: int, size: int, rates: tuple[float, ...]) -> float:
    """Time to move memory that is part of `size` bytes, half of which may still lie in a faster cache (in seconds)."""
    first = sum(2 * held <= size for held in SIZES[1:])  # the largest that is no more than half of it
    return num_bytes / max(rates[first:])


class Bounds:
    """Lower bounds of the tasks that one executor meets. Thread-safe.

    Args:
        cache: folder of the executor's helpers.
        folder: this machine's folder, which keeps its speeds.
        cores: are had alone while it is measured.
    """

    def __init__(self, cache: Path, folder: Path, cores: Cores):
        self._cache = cache
        self._cores = cores
        measuring = Path(__file__).parents[1] / "contest" / "peaks.c"
        made_by = machine.fingerprint(), SIZES, measuring.read_text()
        self._path = folder / f"peaks-{hashlib.sha256(repr(made_by).encode()).hexdigest()[:16]}.json"
        self._lock = threading.Lock()
        self._peaks: Peaks | None = None
        self._demands: OrderedDict[str, Demand] = OrderedDict()

    def of(self, reference: Reference) -> Bound:
        """The bound of a task.

        Raises:
            InfrastructureError: the machine cannot be measured.
        """
        key = reference.task.digest
        demand = self._demands.get(key)
        if demand is None:
            cores = self._cores
            with cores.preparing(), cores.on_device(), cores.holding(reference.lock), cores.making_reference():
                demand = self._demands.get(key) or reference.demand()  # another candidate may have been first
                self._demands[key] = demand
            while len(self._demands) > MAX_KNOWN:
                self._demands.popitem(last=False)
        with self._cores.holding(self._lock):
            if self._peaks is None:
                self._peaks = self._read() or self._measure()
            return self._peaks.bound(demand)

    def measure_again(self) -> None:
        """Measure the machine once more, and keep the higher speeds: somebody was faster than it seemed to allow.

        Raises:
            InfrastructureError: the machine cannot be measured.
        """
        with self._cores.holding(self._lock):
            self._measure()

    def _read(self) -> Peaks | None:
        """The speeds in the file; None: there is none, or it holds something else, and is written anew."""
        try:
            kept = json.loads(self._path.read_text())
            return Peaks(tuple(kept["read"]), tuple(kept["write"]), kept["multiply"])
        except (OSError, ValueError, LookupError, TypeError):
            return None

    def _measure(self) -> Peaks:
        known = self._peaks or self._read()
        measured = measure_peaks(self._cache, self._cores)
        self._peaks = measured if known is None else measured.best(known)
        try:
            write_json(self._path, asdict(self._peaks))
        except OSError as error:
            raise InfrastructureError(f"{self._path} cannot be written: {error}") from error
        return self._peaks


def too_fast(seconds: float, bound_s: float) -> bool:
    """Whether a time is shorter than any program's can be."""
    return MARGIN * seconds < bound_s


def measure_peaks(cache: Path, cores: Cores) -> Peaks:
    """Measure how fast this machine reads, writes and multiplies, in a second or less.

    Raises:
        InfrastructureError: what comes out are no speeds, as where the threads cannot be started.
    """
    peak = ctypes.CDLL(str(compiled_helper(cache, "peaks"))).kernelrl_peak
    peak.restype = ctypes.c_double
    memory = torch.ones(SIZES[-1] + 64, dtype=torch.uint8)
    start = ctypes.c_void_p(-(-memory.data_ptr() // 64) * 64)

    def best(what: int, size: int) -> float:
        arguments = what, start, ctypes.c_size_t(size), num_cores(), ctypes.c_double(SECONDS)
        return max(float(peak(*arguments)) for _ in range(TIMES))

    with cores.measuring():
        read = [best(_READ, size) for size in SIZES]
        write = [max(best(_WRITE, size), best(_FILL, size)) for size in SIZES]
        multiply = None if _has_matrix_units() else best(_MULTIPLY, SIZES[0])
    try:
        return Peaks(tuple(read), tuple(write), multiply)
    except ValueError as error:
        raise InfrastructureError(f"{num_cores()} threads cannot measure this machine: {error}") from None


def _has_matrix_units() -> bool:
    """Whether the processor multiplies whole matrices, faster than its vectors do; of others than x86 nobody knows."""
    return platform.machine() != "x86_64" or " amx_tile" in Path("/proc/cpuinfo").read_text()
