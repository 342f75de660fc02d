"""The fingerprint of this machine: what a time, and so a cached verdict, depends on.

Who asks an executor need not import torch, which takes longer than the rest together: only some functions here do.
"""

from __future__ import annotations

import hashlib
import os
import platform
import re
import shutil
import subprocess
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from kernelrl.executor.quota import num_cores

if TYPE_CHECKING:
    import torch

FIRST_WITH_FEATURES_OF_ITS_OWN = 9
"""Compute capability from which on a GPU has instructions that no later one need have, under a name with an `a`."""
COMPILERS = {"cpp": ("g++", "apt-get install g++"), "cuda": ("nvcc", "pip install nvidia-cuda-nvcc")}
"""By dialect: the program that builds it, and the line that installs the program."""


def missing_compiler(dialect: str) -> str | None:
    """What this machine lacks to build kernels of a dialect, and the way out; None: nothing."""
    program, install = COMPILERS.get(dialect, (None, None))
    if program is None or shutil.which(program) is not None:
        return None
    return f"no compiler for dialect {dialect}: {program} is not on PATH; {install}"


def has_gpu() -> bool:
    """Whether torch sees a CUDA device."""
    import torch

    return torch.cuda.is_available()


@cache
def fingerprint() -> str:
    """Processor, cores, device and toolchain in one line."""
    import torch

    device = torch.cuda.get_device_name(0) if has_gpu() else "no GPU"
    return f"{processor()} x{num_cores()} | {device} | torch {torch.__version__} | {compiler() or 'no C++ compiler'}"


@cache
def processor() -> str:
    """Model name of the processor."""
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.machine()


def clock_mhz() -> float | None:
    """Mean clock of the cores now (in MHz); None: the machine does not say."""
    clocks = re.findall(r"^cpu MHz\s*:\s*([\d.]+)", Path("/proc/cpuinfo").read_text(), re.MULTILINE)
    return sum(map(float, clocks)) / len(clocks) if clocks else None


def gpu_arch() -> str:
    """Architecture of the first GPU with all that it alone has, e.g. `sm_80`, `sm_90a`."""
    import torch

    major, minor = torch.cuda.get_device_capability(0)
    return f"sm_{major}{minor}{'a' if major >= FIRST_WITH_FEATURES_OF_ITS_OWN else ''}"


def settle_caches(state: str) -> None:
    """Bring the processor's caches into the state in which a timed call finds them.

    `warm`: as the writing of the inputs has left them. `cold`: filled with something else.
    """
    if state == "cold":
        _other_memory().add_(1)


@cache
def _other_memory() -> torch.Tensor:
    """Twice the size of the last-level cache."""
    import torch

    sizes = [32 << 20]
    for path in Path("/sys/devices/system/cpu/cpu0/cache").glob("index*/size"):
        number, unit = re.fullmatch(r"(\d+)([KMG]?)", path.read_text().strip()).groups()  # type: ignore[union-attr]
        sizes.append(int(number) << {"": 0, "K": 10, "M": 20, "G": 30}[unit])
    return torch.zeros(2 * max(sizes), dtype=torch.uint8)


@cache
def native_target() -> str:
    """What `-march=native` means here: a module built on another kind of processor might not run on this one."""
    command = ["g++", "-march=native", "-Q", "--help=target"]
    options = subprocess.run(command, capture_output=True, env=os.environ | {"LC_ALL": "C"}).stdout
    return hashlib.sha256(options).hexdigest()[:16]


@cache
def optimizations() -> frozenset[str]:
    """Flags of the compiler that choose how it optimises, without `no-` and values, e.g. `-funroll-loops`."""
    command = ["g++", "-Q", "--help=optimizers"]
    environment = os.environ | {"LC_ALL": "C"}
    said = subprocess.run(command, capture_output=True, text=True, check=True, env=environment).stdout
    return frozenset(re.findall(r"^\s+(-f[\w-]+)", said, re.MULTILINE))


@cache
def linker() -> tuple[str, ...]:
    """The compiler's flag for the fastest linker that is here; nothing: its own."""
    for name in ("mold", "lld", "gold"):
        if shutil.which(name if name == "mold" else f"ld.{name}"):
            own_choice = ("-Wl,--no-dependent-libraries",) if name == "lld" else ()  # an object file names none
            return (f"-fuse-ld={name}", *own_choice)
    return ()


@cache
def compiler() -> str | None:
    """First line of `g++ --version`; None: there is no g++."""
    try:
        result = subprocess.run(["g++", "--version"], capture_output=True, text=True, check=True)
    except (FileNotFoundError, subprocess.CalledProcessError):
        return None
    return result.stdout.splitlines()[0]
