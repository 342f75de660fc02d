"""Confinement of untrusted processes: namespaces, Landlock, seccomp, limits.

Called in a freshly forked, single-threaded child before any untrusted byte is looked at. Every layer that the kernel
offers is used; `confine` names those that hold, and `kernelrl doctor` shows them.
"""

from __future__ import annotations

import ctypes
import errno
import os
import resource
import signal
import sys
import sysconfig
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import landlock

try:
    import pyseccomp as seccomp
except (ImportError, OSError, RuntimeError):  # there is no libseccomp
    seccomp = None

_LIBC = ctypes.CDLL(None, use_errno=True)
_CLONE_NEWNS = 0x00020000
_CLONE_NEWIPC = 0x08000000
_CLONE_NEWUSER = 0x10000000
_CLONE_NEWPID = 0x20000000
_CLONE_NEWNET = 0x40000000
_CLONE_THREAD = 0x00010000
_MS_BIND = 0x1000
_SYS_MOUNT_SETATTR, _AT_FDCWD, _AT_RECURSIVE = 442, -100, 0x8000
_MOUNT_ATTR_RDONLY, _MOUNT_ATTR_NOEXEC = 0x1, 0x8
_PR_SET_PDEATHSIG = 1
_PR_SET_NO_NEW_PRIVS = 38

# What a kernel never needs. They answer EPERM rather than kill, because libraries probe some of them.
_DENIED = (
    "ptrace process_vm_readv process_vm_writev kcmp pidfd_open pidfd_getfd "
    "pidfd_send_signal socket socketpair connect bind listen accept accept4 bpf perf_event_open mount "
    "umount2 pivot_root chroot unshare setns move_mount mount_setattr fsopen fsmount open_tree setsid setpgid "
    "keyctl add_key request_key io_uring_setup io_uring_enter io_uring_register memfd_create shmget shmat msgget "
    "semget mq_open userfaultfd personality sched_setaffinity sched_setscheduler sched_setattr setpriority "
    "ioprio_set reboot swapon swapoff init_module finit_module kexec_load settimeofday clock_settime "
    "adjtimex clock_adjtime quotactl name_to_handle_at open_by_handle_at memfd_secret process_madvise "
    "set_mempolicy migrate_pages move_pages timer_create chmod fchmod fchmodat fchmodat2 chown fchown lchown fchownat "
    "utime utimes futimesat utimensat setxattr lsetxattr fsetxattr removexattr lremovexattr fremovexattr mknod mknodat"
).split()
_CHILDREN = ("execve", "execveat", "fork", "vfork")
_SIGNALS_BY_FILE = {"fcntl": (8, 10, 15), "ioctl": (0x8901, 0x8902, 0x5452)}
"""F_SETOWN, F_SETSIG, F_SETOWN_EX; FIOSETOWN, SIOCSPGRP, FIOASYNC: they have the kernel signal other processes."""
_PROT_WRITE, _PROT_EXEC, _MAP_ANONYMOUS = 0x2, 0x4, 0x20
_TO_A_PROCESS = ("kill", "tgkill", "rt_sigqueueinfo", "rt_tgsigqueueinfo")


_RIGHTS_OF_FILES = (
    landlock.FSAccess.EXECUTE
    | landlock.FSAccess.READ_FILE
    | landlock.FSAccess.WRITE_FILE
    | landlock.FSAccess.TRUNCATE
    | landlock.FSAccess.IOCTL_DEV
)
LAYERS = ("namespaces", "noexec", "landlock", "seccomp")
"""Layers of confinement. Of these `noexec` is for candidates alone: no file can be mapped executable."""


def explain_missing(layers: list[str]) -> str:
    """What to tell a user whose machine lacks layers of confinement."""
    names = ", ".join(layers)
    return (
        f"candidates would run without these layers of confinement: {names} (`kernelrl doctor` says why). "
        f"On a machine that may be lost, executor.allow_missing=[{names}] lets them."
    )


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


def confine(
    scratch: Path,
    limits: Limits,
    readable: tuple[str, ...] = (),
    may_exec: bool = False,
    own_processes: bool = False,
    filtered: bool = True,
    cuda: bool = False,
    modules: Path | None = None,
) -> list[str]:
    """Confine this process for good and say which layers hold.

    Args:
        scratch: the only folder that it may write to.
        limits: memory, file size, open files.
        readable: what it may read beside the system's and Python's libraries.
        may_exec: allow child processes and programs, which a compiler needs.
        own_processes: put children into a process namespace, whose first process takes the others along when it ends.
        filtered: filter system calls, and bound the scratch folder; what compilers do is too much for that.
        cuda: let it use NVIDIA's devices, whose driver reserves more addresses than any limit would grant: then what it
            writes to counts, instead of address space.
        modules: for a candidate, the only folder whose files can be mapped executable from now on, and which it cannot
            write to. Memory that is not executable now can never become so.

    Returns:
        Names of those `LAYERS` that hold.
    """
    layers = []
    if _enter_namespaces(scratch, limits.file_bytes if filtered else None, own_processes):
        layers.append("namespaces")
        if modules is not None and _forbid_executable_files(modules):
            layers.append("noexec")
    _set_limits(limits, resource.RLIMIT_DATA if cuda else resource.RLIMIT_AS, in_namespace="namespaces" in layers)
    _LIBC.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    _drop_capabilities()
    if _restrict_files(scratch, readable, may_exec, cuda):
        layers.append("landlock")
    if filtered and _filter_system_calls(may_exec, sealed=modules is not None):
        layers.append("seccomp")
    return layers


def leave_network() -> None:
    """Move this process and its children to come to a network without devices, where the kernel lets it.

    The forkserver does that once for all: a network namespace for each process would take the kernel tens of
    milliseconds to clear away, in the background, while the next candidate is timed.
    """
    global _without_network
    _without_network = _unshare(_CLONE_NEWUSER | _CLONE_NEWNET | _CLONE_NEWIPC)


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
        _LIBC.mount(b"none", b"/", None, 0x44000, None)  # MS_REC | MS_PRIVATE: nothing leaks back
        _LIBC.mount(b"tmpfs", os.fsencode(scratch), b"tmpfs", 0x6, options)  # MS_NOSUID | MS_NODEV
    return True


class _MountAttributes(ctypes.Structure):
    _fields_ = [(name, ctypes.c_uint64) for name in ("set", "clear", "propagation", "user_namespace")]


def _forbid_executable_files(modules: Path) -> bool:
    """Have the kernel map no file of any mount executable but those in one folder, which becomes read-only."""
    _LIBC.mount(os.fsencode(modules), os.fsencode(modules), None, _MS_BIND, None)
    forbid = _MountAttributes(set=_MOUNT_ATTR_NOEXEC)
    allow = _MountAttributes(set=_MOUNT_ATTR_RDONLY, clear=_MOUNT_ATTR_NOEXEC)
    for path, flags, attributes in ((b"/", _AT_RECURSIVE, forbid), (os.fsencode(modules), 0, allow)):
        size = ctypes.sizeof(attributes)
        if _LIBC.syscall(_SYS_MOUNT_SETATTR, _AT_FDCWD, path, flags, ctypes.byref(attributes), size) != 0:
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
    Path("/proc/self/oom_score_adj").write_text("1000")


def _drop_capabilities() -> None:
    header = (ctypes.c_uint32 * 2)(0x20080522, 0)  # _LINUX_CAPABILITY_VERSION_3, this process
    _LIBC.capset(ctypes.byref(header), ctypes.byref((ctypes.c_uint32 * 6)()))


@cache
def system_paths() -> tuple[str, ...]:
    """Folders and files that every Python process with torch needs to read."""
    python = {sys.prefix, sys.base_prefix, *sysconfig.get_paths().values()}
    python |= {path for path in sys.path if path.endswith(("/site-packages", "/dist-packages"))}  # a module system's
    system = ("/usr", "/lib", "/lib64", "/bin", "/etc/ld.so.cache", "/etc/alternatives", "/etc/localtime")
    devices = ("/proc/cpuinfo", "/proc/meminfo", "/proc/self", "/sys/devices/system", "/dev/null", "/dev/zero")
    random = ("/dev/urandom", "/dev/random")
    return tuple(path for path in (*sorted(python), *system, *devices, *random) if os.path.exists(path))


def cuda_devices() -> list[str]:
    """Device files of NVIDIA's driver."""
    return [str(path) for path in (*Path("/dev").glob("nvidia*"), *Path("/dev/nvidia-caps").glob("*")) if path.exists()]


def _restrict_files(scratch: Path, readable: tuple[str, ...], may_exec: bool, cuda: bool) -> bool:
    read = landlock.FSAccess.READ_FILE | landlock.FSAccess.READ_DIR
    if may_exec:
        read |= landlock.FSAccess.EXECUTE
    try:
        rules = landlock.Ruleset()
        for path in (*system_paths(), *readable):
            _allow(rules, path, read)
        rules.allow("/dev/null", rules=landlock.FSAccess.READ_FILE | landlock.FSAccess.WRITE_FILE)
        if cuda:
            drivers = (
                "/proc/driver/nvidia",
                "/proc/devices",
                "/proc/modules",
                "/sys/module",
                "/sys/bus/pci",
                "/sys/class",
            )
            for path in filter(os.path.exists, drivers):
                _allow(rules, path, read)
            for path in cuda_devices():
                _allow(rules, path, landlock.FSAccess.all())
        rules.allow(str(scratch))
        rules.apply()
    except (landlock.LandlockError, OSError):
        return False
    return True


def _allow(rules: landlock.Ruleset, path: str, rights: landlock.FSAccess) -> None:
    """Allow access below a path. The kernel refuses a rule that gives a file the rights of a folder."""
    rules.allow(path, rules=rights if os.path.isdir(path) else rights & _RIGHTS_OF_FILES)


def _filter_system_calls(may_exec: bool, sealed: bool) -> bool:
    if seccomp is None:
        return False
    try:
        rules = seccomp.SyscallFilter(defaction=seccomp.ALLOW)
        denied = seccomp.ERRNO(errno.EPERM)
        for name in (*_DENIED, *(() if may_exec else _CHILDREN)):
            try:
                rules.add_rule(denied, name)
            except (RuntimeError, ValueError, OSError):
                continue  # this architecture or libseccomp does not know the call
        for name in _TO_A_PROCESS:
            rules.add_rule(denied, name, seccomp.Arg(0, seccomp.NE, os.getpid()))
        for name, commands in _SIGNALS_BY_FILE.items():
            for command in commands:
                rules.add_rule(denied, name, seccomp.Arg(1, seccomp.MASKED_EQ, 0xFFFFFFFF, command))
        rules.add_rule(denied, "tkill")
        rules.add_rule(denied, "prctl", seccomp.Arg(0, seccomp.EQ, _PR_SET_PDEATHSIG))  # it dies with its parent
        rules.add_rule(denied, "prlimit64", seccomp.Arg(0, seccomp.NE, 0))
        if sealed:
            _forbid_executable_memory(rules, denied)
        if not may_exec:
            rules.add_rule(denied, "clone", seccomp.Arg(0, seccomp.MASKED_EQ, _CLONE_THREAD, 0))
        rules.add_rule(seccomp.ERRNO(errno.ENOSYS), "clone3")  # its flags are in memory: glibc falls back to clone
        rules.load()
    except (RuntimeError, OSError):
        return False
    return True


def _forbid_executable_memory(rules: Any, denied: Any) -> None:
    """No memory becomes executable, but that of files that nobody can write to and nothing is written to."""
    executable = seccomp.Arg(2, seccomp.MASKED_EQ, _PROT_EXEC, _PROT_EXEC)
    writable = seccomp.Arg(2, seccomp.MASKED_EQ, _PROT_EXEC | _PROT_WRITE, _PROT_EXEC | _PROT_WRITE)
    rules.add_rule(denied, "mmap", executable, seccomp.Arg(3, seccomp.MASKED_EQ, _MAP_ANONYMOUS, _MAP_ANONYMOUS))
    rules.add_rule(denied, "mmap", writable)
    rules.add_rule(denied, "mprotect", executable)
    rules.add_rule(denied, "pkey_mprotect", executable)
    rules.add_rule(denied, "mremap")  # it would let executable memory grow over the closed pages that follow it
    rules.add_rule(denied, "remap_file_pages")
