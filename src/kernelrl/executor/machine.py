"""The fingerprint of this machine: what a time, and so a cached verdict, depends on."""

from __future__ import annotations

import os
import platform
import subprocess
from functools import cache
from pathlib import Path

import torch


@cache
def fingerprint() -> str:
    """Processor, cores, device and toolchain in one line."""
    device = torch.cuda.get_device_name(0) if torch.cuda.is_available() else "no GPU"
    cores = len(os.sched_getaffinity(0))
    return f"{processor()} x{cores} | {device} | torch {torch.__version__} | {compiler() or 'no C++ compiler'}"


@cache
def processor() -> str:
    """Model name of the processor."""
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.machine()


@cache
def compiler() -> str | None:
    """First line of `g++ --version`; None: there is no g++."""
    try:
        result = subprocess.run(["g++", "--version"], capture_output=True, text=True, check=True)
    except (FileNotFoundError, subprocess.CalledProcessError):
        return None
    return result.stdout.splitlines()[0]
