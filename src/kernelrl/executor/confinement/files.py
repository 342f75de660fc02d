"""Files that confined processes need, and Landlock, which lets them reach no others."""

from __future__ import annotations

import os
import sys
import sysconfig
from functools import cache
from pathlib import Path

import landlock

_RIGHTS_OF_FILES = (
    landlock.FSAccess.EXECUTE
    | landlock.FSAccess.READ_FILE
    | landlock.FSAccess.WRITE_FILE
    | landlock.FSAccess.TRUNCATE
    | landlock.FSAccess.IOCTL_DEV
)
OF_THE_PROCESSOR = (
    "/proc/cpuinfo",
    *(f"/sys/devices/system/cpu/{name}" for name in ("online", "possible", "present")),
)
"""What a candidate may read of the machine. /proc/self, /proc/meminfo and counters below /sys tell the time."""

OF_A_DRIVER = (
    *("/proc/driver/nvidia", "/proc/devices", "/proc/modules"),
    *("/sys/module", "/sys/bus/pci", "/sys/class"),
)
"""What NVIDIA's driver reads."""
OF_TRITON = ("/sbin",)
"""Where Triton finds the program that tells it where the driver's library lies."""


@cache
def library_paths() -> tuple[str, ...]:
    """Folders and files of the libraries that every Python process with torch reads."""
    python = {sys.prefix, sys.base_prefix, *sysconfig.get_paths().values()}
    python |= {path for path in sys.path if path.endswith(("/site-packages", "/dist-packages"))}  # a module system's
    system = ("/usr", "/lib", "/lib64", "/bin", "/etc/ld.so.cache", "/etc/alternatives", "/etc/localtime")
    return tuple(path for path in (*sorted(python), *system) if os.path.exists(path))


@cache
def system_paths() -> tuple[str, ...]:
    """What every trusted process with torch needs to read."""
    devices = ("/proc/cpuinfo", "/proc/meminfo", "/proc/self", "/sys/devices/system", "/dev/null", "/dev/zero")
    random = ("/dev/urandom", "/dev/random")
    return (*library_paths(), *(path for path in (*devices, *random) if os.path.exists(path)))


def cuda_devices() -> list[str]:
    """Device files of NVIDIA's driver."""
    return [str(path) for path in (*Path("/dev").glob("nvidia*"), *Path("/dev/nvidia-caps").glob("*")) if path.exists()]


def restrict_files(
    readable: tuple[str, ...],
    writable: Path | None,
    may_exec: bool,
    cuda: bool,
    processes: tuple[str, ...] = ("/proc/self/comm", "/proc/self/task"),
) -> bool:
    """Let this process and what it starts reach these files and no others. Returns whether Landlock does so.

    Args:
        readable: files and folders.
        writable: a folder that may be written to.
        may_exec: what can be read may be executed.
        cuda: allow NVIDIA's devices, and what its driver reads.
        processes: of /proc, what that driver writes the names of its threads to, without which it does not start.
    """
    read = landlock.FSAccess.READ_FILE | landlock.FSAccess.READ_DIR
    if may_exec:
        read |= landlock.FSAccess.EXECUTE
    try:
        rules = landlock.Ruleset()
        for path in readable:
            _allow(rules, path, read)
        if cuda:
            for path in filter(os.path.exists, OF_A_DRIVER):
                _allow(rules, path, read)
            for path in cuda_devices():
                _allow(rules, path, landlock.FSAccess.all())
            for path in processes:
                _allow(rules, path, read | landlock.FSAccess.WRITE_FILE | landlock.FSAccess.TRUNCATE)
        if writable is not None:
            rules.allow("/dev/null", rules=landlock.FSAccess.READ_FILE | landlock.FSAccess.WRITE_FILE)
            rules.allow(str(writable))
        rules.apply()
    except (landlock.LandlockError, OSError):
        return False
    return True


def restrict_writing(writable: Path) -> bool:
    """Let this process write no longer to its own memory by /proc, only to a folder and NVIDIA's devices.

    Returns whether Landlock does so.
    """
    write = landlock.FSAccess.WRITE_FILE | landlock.FSAccess.TRUNCATE
    try:
        rules = landlock.Ruleset(write)
        for path in ("/dev/null", str(writable), *cuda_devices()):
            rules.allow(path, rules=write)
        rules.apply()
    except (landlock.LandlockError, OSError):
        return False
    return True


def driver_files() -> list[str]:
    """The files of NVIDIA's driver that a process which has loaded it may load later."""
    with open("/proc/self/maps") as maps:
        folders = {os.path.dirname(line.split()[-1]) for line in maps if "/libcuda.so" in line}
    return [
        str(path)
        for folder in sorted(folders)
        for kind in ("cuda", "nvidia")
        for path in Path(folder).glob(f"lib{kind}*")
    ]


def _allow(rules: landlock.Ruleset, path: str, rights: landlock.FSAccess) -> None:
    """Allow access below a path. The kernel refuses a rule that gives a file the rights of a folder."""
    rules.allow(path, rules=rights if os.path.isdir(path) else rights & _RIGHTS_OF_FILES)
