"""AXPY, GEMV, GEMM, SpMV, Jacobi and CG: the kernels of the proficiency metric (`eval/channels/hpc.py`)."""

from __future__ import annotations

from pathlib import Path

from omegaconf import DictConfig

from kernelrl.data.sources import Gathering, TaskSplit
from kernelrl.data.sources.suite import read_programs
from kernelrl.task import Task

FILE = Path(__file__).parents[1] / "hpc" / "hpc.py"


def load(cfg: DictConfig) -> TaskSplit:
    """The six tasks, with ids `hpc/NAME`.

    Args:
        cfg: the settings of a `Gathering`.
    """
    found = Gathering(cfg)
    for name, level, source in read_programs(FILE):
        id = f"hpc/{name}"
        found.add(Task(id=id, source=source, category=name, level=level, origin="hpc", licence="Apache-2.0"))
    return found.split()
