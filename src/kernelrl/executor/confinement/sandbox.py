"""Confinement of untrusted processes: namespaces, Landlock, seccomp, no clock, limits.

Called in a freshly forked, single-threaded child before any untrusted byte is looked at. Every layer that the kernel
offers is used; `confine` names those that hold, and `kernelrl doctor` shows them.
"""

from __future__ import annotations

import ctypes
import fcntl
import os
import resource
import signal
import socket
import struct
import sys
import sysconfig
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import landlock

from kernelrl.executor.confinement.system_calls import filter_candidate, filter_other

_LIBC = ctypes.CDLL(None, use_errno=True)
_LIBC.mmap.restype = ctypes.c_void_p
_CLONE_NEWNS = 0x00020000
_CLONE_NEWIPC = 0x08000000
_CLONE_NEWUSER = 0x10000000
_CLONE_NEWPID = 0x20000000
_CLONE_NEWNET = 0x40000000
_MS_BIND, _MS_REC, _MS_PRIVATE, _MS_NOSUID_NODEV, _MS_NOEXEC = 0x1000, 0x4000, 0x40000, 0x6, 0x8
_MNT_DETACH = 0x2
_SIOCSIFFLAGS, _IFF_UP = 0x8914, 0x1
_SYS_PIVOT_ROOT, _SYS_MOUNT_SETATTR, _AT_FDCWD, _AT_RECURSIVE = 155, 442, -100, 0x8000
_MOUNT_ATTR_RDONLY, _MOUNT_ATTR_NOEXEC = 0x1, 0x8
_PR_SET_PDEATHSIG = 1
_PR_SET_TSC, _PR_TSC_ENABLE, _PR_TSC_SIGSEGV = 26, 1, 2
_PR_SET_NO_NEW_PRIVS = 38
_MAP_FIXED_PRIVATE_ANONYMOUS = 0x10 | 0x02 | 0x20


_RIGHTS_OF_FILES = (
    landlock.FSAccess.EXECUTE
    | landlock.FSAccess.READ_FILE
    | landlock.FSAccess.WRITE_FILE
    | landlock.FSAccess.TRUNCATE
    | landlock.FSAccess.IOCTL_DEV
)
ENDED_FIRST = "1000"
"""What the kernel is told of a confined process, so that it ends that one first when memory is short."""
LAYERS = ("namespaces", "noexec", "landlock", "seccomp", "clock")
"""Layers of confinement. Two are for candidates alone: `noexec` (no file can be mapped executable) and `clock` (nothing
tells the time)."""


def explain_missing(layers: list[str]) -> str:
    """What to tell a user whose machine lacks layers of confinement."""
    names = ", ".join(layers)
    return (
        f"candidates would run without these layers of confinement: {names} (`kernelrl doctor` says why). "
        f"On a machine that may be lost, executor.allow_missing=[{names}] lets them."
    )


_OF_THE_PROCESSOR = (
    "/proc/cpuinfo",
    *(f"/sys/devices/system/cpu/{name}" for name in ("online", "possible", "present")),
)
"""What a candidate may read of the machine. /proc/self, /proc/meminfo and counters below /sys tell the time."""

_OF_A_DRIVER = (
    *("/proc/driver/nvidia", "/proc/devices", "/proc/modules"),
    *("/sys/module", "/sys/bus/pci", "/sys/class"),
)
"""What NVIDIA's driver reads."""
_OF_TRITON = ("/sbin",)
"""Where Triton finds the program that tells it where the driver's library lies."""

_without_network = False
"""Whether `leave_network` has succeeded in this process or the one that forked it."""

MAX_THREADS = 512
"""Threads and processes of one confined process."""


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
        modules: for a candidate on the CPU, the folder of the modules that are built for it. It sees those and the
            libraries and no other file, writes to none, and has no clock. It must have one thread.
        sealed: of a candidate, whether only files of that folder can be mapped executable from now on, and memory that
            is not executable now can never become so.

    Returns:
        Names of those `LAYERS` that hold.
    """
    layers = []
    in_namespaces = _enter_namespaces(scratch, limits.file_bytes if bounded else None, own_processes)
    _set_limits(limits, resource.RLIMIT_DATA if cuda else resource.RLIMIT_AS, in_namespaces)
    files, timeless, alone = system_paths(), False, False
    if in_namespaces:
        layers.append("namespaces")
    if modules is not None:
        timeless = close_clocks()
        files = (*library_paths(), *filter(os.path.exists, _OF_THE_PROCESSOR))
        alone = in_namespaces and _show_only((*files, *readable), scratch, modules if sealed else None)
        if alone and sealed:
            layers.append("noexec")
    _LIBC.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    _drop_capabilities()
    if _restrict_files((*files, *readable), scratch if modules is None else None, may_exec, cuda):
        layers.append("landlock")
    if open_device is not None:
        open_device()
    if filtered and (filter_other(may_exec) if modules is None else filter_candidate(sealed, timeless)):
        layers.append("seccomp")
        if timeless and alone:
            layers.append("clock")
    return layers


def enter_namespaces_of_a_profiler() -> None:
    """Move this process to a user and a mount namespace, and its children to a process namespace, of their own.

    Raises:
        OSError: the kernel does not let it.
    """
    _enter_network_of_its_own()
    if not _unshare(_CLONE_NEWUSER | _CLONE_NEWNS | _CLONE_NEWPID):
        raise OSError("no namespaces of its own")
    _check(_LIBC.mount(b"none", b"/", None, _MS_REC | _MS_PRIVATE, None))


def confine_profiler(scratch: Path, limits: Limits, readable: tuple[str, ...]) -> None:
    """Confine this process, the first of a process namespace, so that a profiler can start and profile a kernel in it.

    It sees the libraries, what is given, NVIDIA's devices and the processes of its namespace, and an empty scratch
    folder in memory to write to. System calls are not filtered here: `filter_profiler`.

    Raises:
        OSError: a layer does not hold.
    """
    seen = (*system_paths(), *readable, *cuda_devices(), *filter(os.path.exists, (*_OF_A_DRIVER, *_OF_TRITON)))
    seen = tuple(path for path in seen if not path.startswith("/proc"))
    options = f"size={limits.file_bytes},nr_inodes=1024,mode=0700".encode()
    _check(_LIBC.mount(b"tmpfs", os.fsencode(scratch), b"tmpfs", _MS_NOSUID_NODEV, options))
    _set_limits(limits, resource.RLIMIT_DATA, in_namespace=True)
    if not _show_only(seen, scratch, None, processes=True):
        raise OSError("no root of its own")
    _check(_LIBC.mount(b"tmpfs", os.fsencode(scratch), b"tmpfs", _MS_NOSUID_NODEV, options))
    os.chdir(scratch)
    _LIBC.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    _drop_capabilities()
    if not _restrict_files(seen, scratch, may_exec=True, cuda=True, processes=("/proc",)):
        raise OSError("no Landlock")


def leave_network() -> None:
    """Move this process and its children to come to a network without devices, where the kernel lets it.

    The forkserver does that once for all: a network namespace for each process would take the kernel tens of
    milliseconds to clear away, in the background, while the next candidate is timed.
    """
    global _without_network
    _without_network = _unshare(_CLONE_NEWUSER | _CLONE_NEWNET | _CLONE_NEWIPC)


def _enter_network_of_its_own() -> None:
    """Move this process to a network in which it reaches itself and nobody else, for programs that talk to each other.

    Sockets that are files (Unix) are in no network, and none is shown to it.

    Raises:
        OSError: the kernel does not let it.
    """
    _check(_LIBC.unshare(_CLONE_NEWNET))
    with socket.socket() as any_socket:
        fcntl.ioctl(any_socket, _SIOCSIFFLAGS, struct.pack("16sH14x", b"lo", _IFF_UP))


def _unshare(flags: int) -> bool:
    uid, gid = os.getuid(), os.getgid()
    if _LIBC.unshare(flags) != 0:
        return False
    for name, text in (("setgroups", "deny"), ("uid_map", f"{uid} {uid} 1"), ("gid_map", f"{gid} {gid} 1")):
        with open(f"/proc/self/{name}", "w") as file:
            file.write(text)
    return True


def _enter_namespaces(scratch: Path, scratch_bytes: int | None, own_processes: bool) -> bool:
    flags = _CLONE_NEWUSER | (_CLONE_NEWNS if scratch_bytes else 0) | (_CLONE_NEWPID if own_processes else 0)
    if not _without_network or not _unshare(flags):
        return False
    if scratch_bytes:
        options = f"size={scratch_bytes},nr_inodes=1024,mode=0700".encode()
        _LIBC.mount(b"none", b"/", None, _MS_REC | _MS_PRIVATE, None)  # nothing leaks back
        _LIBC.mount(b"tmpfs", os.fsencode(scratch), b"tmpfs", _MS_NOSUID_NODEV, options)
    return True


def _show_only(paths: tuple[str, ...], scratch: Path, executable: Path | None, processes: bool = False) -> bool:
    """Move this process to a root in which there are only these paths and an empty scratch folder, all of it read-only.

    Every file that somebody writes to is a clock, as are /proc and most of /sys.

    Args:
        paths: folders and files.
        scratch: the working directory.
        executable: the kernel maps no files executable but those of this one of the folders; None: any.
        processes: show the processes of this namespace too.
    """
    root = os.fsencode(scratch)
    try:
        for path in _outermost(paths):
            place = f"{scratch}{path}"
            os.makedirs(place if os.path.isdir(path) else os.path.dirname(place), exist_ok=True)
            if not os.path.isdir(path):
                os.mknod(place)
            _check(_LIBC.mount(os.fsencode(path), os.fsencode(place), None, _MS_BIND | _MS_REC, None))
        os.makedirs(f"{scratch}{scratch}", exist_ok=True)
        if processes:
            os.mkdir(f"{scratch}/proc")
        _set_mount(root, _AT_RECURSIVE, forbid=_MOUNT_ATTR_RDONLY | (_MOUNT_ATTR_NOEXEC if executable else 0), allow=0)
        if executable:
            _set_mount(root + os.fsencode(executable), 0, forbid=0, allow=_MOUNT_ATTR_NOEXEC)
        if processes:
            _show_processes(f"{scratch}/proc")
        os.chdir(scratch)
        _check(_LIBC.syscall(_SYS_PIVOT_ROOT, b".", b"."))
        _check(_LIBC.umount2(b".", _MNT_DETACH))
        os.chdir(scratch)
    except OSError:
        return False
    return True


def _show_processes(place: str) -> None:
    """Show /proc of this namespace there: what is no process of its own can be read, whoever its owner is."""
    _check(_LIBC.mount(b"proc", os.fsencode(place), b"proc", _MS_NOSUID_NODEV | _MS_NOEXEC, None))
    for entry in os.scandir(place):
        if not entry.name.isdigit() and not entry.is_symlink():
            path = os.fsencode(entry.path)
            _check(_LIBC.mount(path, path, None, _MS_BIND | _MS_REC, None))
            _set_mount(path, _AT_RECURSIVE, forbid=_MOUNT_ATTR_RDONLY, allow=0)


def _outermost(paths: tuple[str, ...]) -> list[str]:
    """The paths that do not lie below another one."""
    return [path for path in sorted(set(paths)) if not any(path.startswith(f"{other}/") for other in paths)]


class _MountAttributes(ctypes.Structure):
    _fields_ = [(name, ctypes.c_uint64) for name in ("set", "clear", "propagation", "user_namespace")]


def _set_mount(path: bytes, flags: int, forbid: int, allow: int) -> None:
    attributes = _MountAttributes(set=forbid, clear=allow)
    size = ctypes.sizeof(attributes)
    _check(_LIBC.syscall(_SYS_MOUNT_SETATTR, _AT_FDCWD, path, flags, ctypes.byref(attributes), size))


def _check(result: int) -> None:
    if result != 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))


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


def _drop_capabilities() -> None:
    header = (ctypes.c_uint32 * 2)(0x20080522, 0)  # _LINUX_CAPABILITY_VERSION_3, this process
    _LIBC.capset(ctypes.byref(header), ctypes.byref((ctypes.c_uint32 * 6)()))


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


def _restrict_files(
    readable: tuple[str, ...],
    writable: Path | None,
    may_exec: bool,
    cuda: bool,
    processes: tuple[str, ...] = ("/proc/self/comm", "/proc/self/task"),
) -> bool:
    read = landlock.FSAccess.READ_FILE | landlock.FSAccess.READ_DIR
    if may_exec:
        read |= landlock.FSAccess.EXECUTE
    try:
        rules = landlock.Ruleset()
        for path in readable:
            _allow(rules, path, read)
        if cuda:
            for path in filter(os.path.exists, _OF_A_DRIVER):
                _allow(rules, path, read)
            for path in cuda_devices():
                _allow(rules, path, landlock.FSAccess.all())
            for path in processes:  # the driver names its threads, or does not start
                _allow(rules, path, read | landlock.FSAccess.WRITE_FILE | landlock.FSAccess.TRUNCATE)
        if writable is not None:
            rules.allow("/dev/null", rules=landlock.FSAccess.READ_FILE | landlock.FSAccess.WRITE_FILE)
            rules.allow(str(writable))
        rules.apply()
    except (landlock.LandlockError, OSError):
        return False
    return True


def _allow(rules: landlock.Ruleset, path: str, rights: landlock.FSAccess) -> None:
    """Allow access below a path. The kernel refuses a rule that gives a file the rights of a folder."""
    rules.allow(path, rules=rights if os.path.isdir(path) else rights & _RIGHTS_OF_FILES)
