"""Confinement of untrusted processes: namespaces, Landlock, seccomp, no clock, limits.

Called in a freshly forked, single-threaded child before any untrusted byte is looked at. Every layer that the kernel
offers is used; `confine` names those that hold, and `kernelrl doctor` shows them.
"""

from __future__ import annotations

import ctypes
import os
import resource
import signal
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from kernelrl.executor.confinement.files import (
    OF_A_DRIVER,
    OF_THE_PROCESSOR,
    OF_TRITON,
    cuda_devices,
    driver_files,
    library_paths,
    restrict_files,
    restrict_writing,
    system_paths,
)
from kernelrl.executor.confinement.namespaces import enter_namespaces, execute_only, mount_in_memory, show_only
from kernelrl.executor.confinement.system_calls import filter_candidate, filter_other

_LIBC = ctypes.CDLL(None, use_errno=True)
_LIBC.mmap.restype = ctypes.c_void_p
_PR_SET_PDEATHSIG = 1
_PR_SET_TSC, _PR_TSC_ENABLE, _PR_TSC_SIGSEGV = 26, 1, 2
_PR_SET_NO_NEW_PRIVS = 38
_MAP_FIXED_PRIVATE_ANONYMOUS = 0x10 | 0x02 | 0x20

ENDED_FIRST = "1000"
"""What the kernel is told of a confined process, so that it ends that one first when memory is short."""
LAYERS = ("namespaces", "noexec", "landlock", "seccomp", "clock")
"""Layers of confinement. Two are for candidates alone: `noexec` (no file can be mapped executable) and `clock` (nothing
tells the time)."""
MAX_THREADS = 512
"""Threads and processes of one confined process."""


def explain_missing(layers: list[str]) -> str:
    """What to tell a user whose machine lacks layers of confinement."""
    names = ", ".join(layers)
    return (
        f"candidates would run without these layers of confinement: {names} (`kernelrl doctor` says why). "
        f"On a machine that may be lost, executor.allow_missing=[{names}] lets them."
    )


@dataclass(frozen=True)
class Limits:
    """Limits of one confined process."""

    memory_bytes: int
    """Address space beyond what the process has when it is confined."""
    file_bytes: int
    """Size of one file and, where namespaces hold, of all of the scratch folder."""
    open_files: int = 256


def tie_to_parent() -> None:
    """Have the kernel kill this process when its parent dies."""
    _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)


def name_process(name: str) -> None:
    """Let `top` and the like call this process so: up to 15 letters."""
    Path("/proc/self/comm").write_text(name)


def confine(
    scratch: Path,
    limits: Limits,
    readable: tuple[str, ...] = (),
    may_exec: bool = False,
    own_processes: bool = False,
    filtered: bool = True,
    bounded: bool = True,
    cuda: bool = False,
    open_device: Callable[[], None] | None = None,
    modules: Path | None = None,
    sealed: bool = True,
) -> list[str]:
    """Confine this process for good and say which layers hold.

    Args:
        scratch: the only folder that it may write to.
        limits: memory, file size, open files.
        readable: what it may read beside the system's and Python's libraries.
        may_exec: allow child processes and programs, which a compiler needs.
        own_processes: put children into a process namespace, whose first process takes the others along when it ends.
        filtered: filter system calls; what compilers do is too much for that.
        bounded: give it an empty scratch folder in memory, which nobody else sees and whose size is limited.
        cuda: let it use NVIDIA's devices, whose driver reserves more addresses than any limit would grant: then what it
            writes to counts, instead of address space.
        open_device: does, before system calls are filtered, what a GPU's driver needs sockets for. The threads that
            this starts are filtered too.
        modules: for a candidate, the folder of the modules that are built for it. On the CPU it sees those and the
            libraries and no other file, writes to none, and has no clock. It must have one thread.
        sealed: of a candidate, whether only files of that folder can be mapped executable from now on, and memory that
            is not executable now can never become so.

    Returns:
        Names of those `LAYERS` that hold.
    """
    layers = []
    in_namespaces = enter_namespaces(scratch, limits.file_bytes if bounded else None, own_processes)
    _set_limits(limits, resource.RLIMIT_DATA if cuda else resource.RLIMIT_AS, in_namespaces)
    files, timeless, alone = system_paths(), False, False
    judged_on_gpu, judged_on_cpu = modules is not None and cuda, modules is not None and not cuda
    if in_namespaces:
        layers.append("namespaces")
    if judged_on_gpu:
        if in_namespaces and execute_only((str(modules), *driver_files())):
            layers.append("noexec")
    elif judged_on_cpu:
        timeless = close_clocks()
        files = (*library_paths(), *filter(os.path.exists, OF_THE_PROCESSOR))
        alone = in_namespaces and show_only((*files, *readable), scratch, modules if sealed else None)
        if alone and sealed:
            layers.append("noexec")
    _LIBC.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    _drop_capabilities()
    restricted = restrict_files((*files, *readable), None if judged_on_cpu else scratch, may_exec, cuda)
    if open_device is not None:
        open_device()
    if restricted and (not judged_on_gpu or restrict_writing(scratch)):
        layers.append("landlock")
    if filtered and (filter_candidate(sealed, timeless) if judged_on_cpu else filter_other(may_exec, judged_on_gpu)):
        layers.append("seccomp")
        if timeless and alone:
            layers.append("clock")
    return layers


def confine_profiler(scratch: Path, limits: Limits, readable: tuple[str, ...]) -> None:
    """Confine this process, so that a profiler can start and profile a kernel in it. It is the first of the process
    namespace that `enter_namespaces_of_a_profiler` has made.

    It sees the libraries, what is given, NVIDIA's devices and the processes of its namespace, and an empty scratch
    folder in memory to write to. System calls are not filtered here: `filter_profiler`.

    Raises:
        OSError: a layer does not hold.
    """
    seen = (*system_paths(), *readable, *cuda_devices(), *filter(os.path.exists, (*OF_A_DRIVER, *OF_TRITON)))
    seen = tuple(path for path in seen if not path.startswith("/proc"))
    _set_limits(limits, resource.RLIMIT_DATA, in_namespace=True)
    if not show_only(seen, scratch, None, processes=True):
        raise OSError("no root of its own")
    mount_in_memory(scratch, limits.file_bytes)  # over the one that has become the root
    os.chdir(scratch)
    if _LIBC.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) or _drop_capabilities():
        raise OSError("capabilities stay")
    if not restrict_files(seen, scratch, may_exec=True, cuda=True, processes=("/proc",)):
        raise OSError("no Landlock")


@cache
def clock_pages() -> tuple[int, int]:
    """Start and end of the memory in which the kernel shows its clocks to every process; (0, 0): there is none.

    A forked process has it at the same address.
    """
    lines = Path("/proc/self/maps").read_text().splitlines()
    ends = [line.split("-") for line in lines if "[vvar" in line]
    if not ends:
        return 0, 0
    return int(ends[0][0], 16), int(ends[-1][1].split()[0], 16)


def close_clocks() -> bool:
    """Close the clocks that need no system call, and stop those of the C library. Returns whether all are closed."""
    stop_clocks = getattr(_LIBC, "kernelrl_stop_clocks", None)  # of contest/still_clock.c
    if stop_clocks is None or not close_shown_clocks():
        return False
    stop_clocks()
    return True


def close_shown_clocks() -> bool:
    """Have the processor's time-stamp counter, and the memory through which the vDSO tells the time, end this process
    when it reads them. The threads that it starts inherit that.

    Returns:
        Whether they do; otherwise all is as it was.
    """
    low, high = clock_pages()
    if _LIBC.prctl(_PR_SET_TSC, _PR_TSC_SIGSEGV, 0, 0, 0) != 0:
        return False
    place = _LIBC.mmap(ctypes.c_void_p(low), ctypes.c_size_t(high - low), 0, _MAP_FIXED_PRIVATE_ANONYMOUS, -1, 0)
    if low != high and place != low:  # a kernel may seal that memory
        _LIBC.prctl(_PR_SET_TSC, _PR_TSC_ENABLE, 0, 0, 0)
        return False
    return True


def _set_limits(limits: Limits, memory: int, in_namespace: bool) -> None:
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    for kind, value in (
        (memory, used + limits.memory_bytes),
        (resource.RLIMIT_FSIZE, limits.file_bytes),
        (resource.RLIMIT_NOFILE, limits.open_files),
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_MEMLOCK, 0),
        (resource.RLIMIT_MSGQUEUE, 0),
    ):
        resource.setrlimit(kind, (value, value))
    if in_namespace:  # outside of one the limit would count the user's other processes
        resource.setrlimit(resource.RLIMIT_NPROC, (MAX_THREADS, MAX_THREADS))
    Path("/proc/self/oom_score_adj").write_text(ENDED_FIRST)


def _drop_capabilities() -> int:
    """Returns zero if there are none any more."""
    header = (ctypes.c_uint32 * 2)(0x20080522, 0)  # _LINUX_CAPABILITY_VERSION_3, this process
    dropped: int = _LIBC.capset(ctypes.byref(header), ctypes.byref((ctypes.c_uint32 * 6)()))
    return dropped
