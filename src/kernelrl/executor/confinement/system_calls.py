"""System calls of confined processes: a candidate makes those of a list, and a reference or tool all but another's.

A candidate's list is what Python, PyTorch's plain operations, OpenMP and the channel to the referee need. Whatever
else the kernel offers, now or later, answers EPERM: it locks files that others wait for, hides the process from the
referee, tells the time, or what other processes left in the kernel. A call that is a clock and nothing else ends the
process, so that the verdict can name it.
"""

from __future__ import annotations

import contextlib
import errno
import os
import socket
from collections.abc import Iterator
from typing import Any

try:
    import pyseccomp as seccomp
except (ImportError, OSError, RuntimeError):  # there is no libseccomp
    seccomp = None

_ALLOWED = (
    "read readv pread64 preadv write writev pwrite64 open openat close close_range lseek stat lstat access faccessat "
    "faccessat2 readlink readlinkat getcwd chdir getdents getdents64 recvmsg sendmsg recvfrom sendto "
    "shutdown getsockname getpeername getsockopt munmap brk msync mlock munlock "
    "exit exit_group set_robust_list set_tid_address rseq restart_syscall wait4 waitid "
    "gettid getpid getppid getpgrp getuid geteuid getgid getegid getresuid getresgid getgroups umask "
    "uname getrlimit getrandom sched_yield "
    "sched_get_priority_max sched_get_priority_min rt_sigaction rt_sigprocmask rt_sigreturn rt_sigpending "
    "rt_sigsuspend sigaltstack pause"
).split()
"""What a candidate's process may call with any arguments."""
_FCNTL = (0, 1, 2, 3, 4, 1030)
"""F_DUPFD, F_GETFD, F_SETFD, F_GETFL, F_SETFL, F_DUPFD_CLOEXEC. Others lock and lease files, and ask for signals."""
_IOCTL = (0x5401, 0x541B, 0x5421, 0x5450, 0x5451)
"""TCGETS, FIONREAD, FIONBIO, FIONCLEX, FIOCLEX."""
_PRCTL = (3, 15, 16, 21, 23, 39, 0x53564D41)
"""PR_GET_DUMPABLE, PR_SET_NAME, PR_GET_NAME, PR_GET_SECCOMP, PR_CAPBSET_READ, PR_GET_NO_NEW_PRIVS, PR_SET_VMA."""
_ARCH_PRCTL = (0x1002, 0x1003, 0x1021, 0x1022, 0x1023)
"""ARCH_SET_FS, ARCH_GET_FS; the state that tile registers need: ARCH_GET_XCOMP_SUPP, _PERM, ARCH_REQ_XCOMP_PERM."""
_MADVISE = (4, 8, 14, 15, 16, 17, 102, 103)
"""MADV_DONTNEED, FREE, HUGEPAGE, NOHUGEPAGE, DONTDUMP, DODUMP, GUARD_INSTALL and GUARD_REMOVE. Others send pages of a
file out of memory, or move them, where another candidate would find that out (as `mincore` would say)."""
_OF_ITSELF = ("getpgid", "getsid", "get_robust_list", "sched_getparam", "sched_getscheduler")
"""A process may ask this of itself: of another number the answer tells whether there is such a process."""
_MEMBARRIER = (0, 8, 16, 32, 64, 128, 256)
"""MEMBARRIER_CMD_QUERY and the private ones. The others wait for the kernel by the millisecond."""
_FUTEX_COMMAND, _FUTEX_PRIVATE = 0x7F, 0x80
_FUTEX_WAKES = (1, 3, 4, 5, 7, 8, 10, 12)
"""Of this process's own waits: the number of those that wait for a word of a library, in all processes, is none of its
concern."""
_FUTEX_WAITS = (0, 6, 9, 11, 13)
"""FUTEX_WAIT, LOCK_PI, WAIT_BITSET, WAIT_REQUEUE_PI and LOCK_PI2, whose fourth argument is a time."""
_PR_SET_PDEATHSIG, _PR_SET_TSC = 1, 26
_ARCH_MAP_VDSO = (0x2001, 0x2002, 0x2003)
_PROT_WRITE, _PROT_EXEC, _MAP_ANONYMOUS = 0x2, 0x4, 0x20
_CLONE_THREAD = 0x00010000
_A_THREAD = 0x3D0F00
"""The flags with which the C library makes a thread. With others it might be one that waits for another (CLONE_VFORK),
where no signal stops it."""
_CLOCKS = (
    "clock_gettime clock_getres clock_nanosleep nanosleep gettimeofday time times getrusage adjtimex clock_adjtime "
    "alarm setitimer getitimer timer_create timer_settime timer_gettime timerfd_create timerfd_settime timerfd_gettime "
    "poll ppoll select pselect6 epoll_wait epoll_pwait epoll_pwait2 recvmmsg rt_sigtimedwait io_setup futex_wait "
    "futex_waitv syslog"
).split()
"""What tells the time or waits for it. A candidate that calls one gets SIGSYS, so that the verdict can name it."""
_OF_A_FILE = ("fstat", "newfstatat", "statx", "dup", "dup2", "dup3")
"""With a descriptor first: they tell when its file was written to, or give it another number. A candidate may not ask
that of its log, the only file that it writes to."""
_LOG = (1, 2)
_DESCRIPTORS = range(3, 8)
"""Bits of the descriptors that are no standard ones: a process has at most 256."""
_TO_A_PROCESS = ("kill", "tgkill", "rt_sigqueueinfo", "rt_tgsigqueueinfo")

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
"""What a reference, or a candidate on a GPU, never needs. It answers EPERM rather than kill: libraries probe some."""
_OF_A_PROFILER = (
    "socket socketpair connect bind listen accept accept4 setsid setpgid mknod mknodat chmod fchmod fchmodat fchmodat2"
).split()
"""What a profiler needs of it, to talk to the process that it profiles by sockets and pipes that are files."""
_NAMESPACES = (0x80, 0x20000, 0x2000000, 0x4000000, 0x8000000, 0x10000000, 0x20000000, 0x40000000)
"""CLONE_NEW…: in a user namespace of its own a child would have all capabilities over what it enters with it."""
_CHILDREN = ("execve", "execveat", "fork", "vfork")
_DENIED_BY_FILE = {"fcntl": (8, 10, 15, 1024), "ioctl": (0x8901, 0x8902, 0x5452)}
"""F_SETOWN, F_SETSIG, F_SETOWN_EX, F_SETLEASE; FIOSETOWN, SIOCSPGRP, FIOASYNC: they have the kernel signal other
processes, or make them wait."""


def filter_candidate(sealed: bool, timeless: bool) -> bool:
    """Leave this process, a candidate's on the CPU, what is on the list. Returns whether the filter holds.

    Args:
        sealed: memory that is not executable now can never become so.
        timeless: its other clocks are closed, so these are too. Where they are not, the C library may need a call to
            tell the time.
    """
    if seccomp is None:
        return False
    try:
        rules = seccomp.SyscallFilter(defaction=seccomp.ERRNO(errno.EPERM))
        for name in _ALLOWED:
            _add_if_known(rules, seccomp.ALLOW, name)
        for name in _CLOCKS:
            _add_if_known(rules, seccomp.TRAP if timeless else seccomp.ALLOW, name)
        _allow_by_argument(rules, timeless)
        _allow_memory(rules, sealed)
        rules.add_rule(seccomp.ERRNO(errno.ENOSYS), "clone3")  # its flags are in memory: glibc falls back to clone
        rules.add_rule(seccomp.ERRNO(errno.ENOSYS), "sched_getaffinity")  # a thread that is timed is kept on one core
        rules.load()
    except (RuntimeError, OSError):
        return False
    return True


def filter_other(may_exec: bool, sealed: bool = False) -> bool:
    """Deny this process, a reference's or a candidate's on a GPU, what neither needs. Returns whether the filter holds.

    Args:
        may_exec: allow child processes and programs, which a compiler needs.
        sealed: memory that is not executable now can never become so.
    """
    if seccomp is None:
        return False
    try:
        rules = seccomp.SyscallFilter(defaction=seccomp.ALLOW)
        rules.set_attr(seccomp.Attr.CTL_TSYNC, 1)  # for the threads of a GPU's driver too
        denied = seccomp.ERRNO(errno.EPERM)
        for name in (*_DENIED, *(() if may_exec else _CHILDREN)):
            _add_if_known(rules, denied, name)
        for name in _TO_A_PROCESS:
            rules.add_rule(denied, name, seccomp.Arg(0, seccomp.NE, os.getpid()))
        _deny_by_argument(rules, denied)
        if not may_exec:
            rules.add_rule(denied, "clone", seccomp.Arg(0, seccomp.MASKED_EQ, _CLONE_THREAD, 0))
        _deny_namespaces(rules, denied)
        if sealed:
            _deny_executable_memory(rules, denied)
        rules.load()
    except (RuntimeError, OSError):
        return False
    return True


def filter_profiler() -> bool:
    """Deny this process and what it starts, confined by `confine_profiler`, what neither a profiler nor a kernel needs.

    Returns whether the filter holds.

    Of sockets it leaves those of the internet protocols, which the network namespace bounds, and of Unix, whose files
    are not to be seen, unless somebody puts one among libraries: others are doors to the kernel.
    """
    if seccomp is None:
        return False
    try:
        rules = seccomp.SyscallFilter(defaction=seccomp.ALLOW)
        denied = seccomp.ERRNO(errno.EPERM)
        for name in _DENIED:
            if name not in _OF_A_PROFILER:
                _add_if_known(rules, denied, name)
        for name in ("socket", "socketpair"):
            rules.add_rule(denied, name, seccomp.Arg(0, seccomp.GT, socket.AF_INET6))
            for family in {*range(socket.AF_INET6)} - {socket.AF_UNIX, socket.AF_INET}:
                rules.add_rule(denied, name, _low_word(0, family))
        _deny_by_argument(rules, denied)
        _deny_namespaces(rules, denied)
        rules.load()
    except (RuntimeError, OSError):
        return False
    return True


def name_of_call(number: int) -> str:
    """Name of a system call by which a candidate reaches for a clock."""
    names = (*_CLOCKS, "futex", "prctl", "arch_prctl")
    known = (name for name in names if seccomp.resolve_syscall(seccomp.Arch.NATIVE, name) == number)
    return next(known, str(number))


def _deny_by_argument(rules: Any, denied: Any) -> None:
    """Deny that the process has others signalled or made to wait, changes their limits, or outlives its parent."""
    for name, commands in _DENIED_BY_FILE.items():
        for command in commands:
            rules.add_rule(denied, name, _low_word(1, command))
    rules.add_rule(denied, "tkill")
    rules.add_rule(denied, "prctl", _low_word(0, _PR_SET_PDEATHSIG))
    rules.add_rule(denied, "prlimit64", seccomp.Arg(0, seccomp.NE, 0))


def _deny_namespaces(rules: Any, denied: Any) -> None:
    """Deny children in namespaces of their own. The flags of `clone3` are in memory: glibc falls back to `clone`."""
    for flag in _NAMESPACES:
        rules.add_rule(denied, "clone", seccomp.Arg(0, seccomp.MASKED_EQ, flag, flag))
    rules.add_rule(seccomp.ERRNO(errno.ENOSYS), "clone3")


def _deny_executable_memory(rules: Any, denied: Any) -> None:
    """Deny what `_allow_memory` does not allow. By a key (`pkey_mprotect`) memory can become executable too."""
    executable = seccomp.Arg(2, seccomp.MASKED_EQ, _PROT_EXEC, _PROT_EXEC)
    rules.add_rule(denied, "mprotect", executable)
    rules.add_rule(denied, "mmap", executable, seccomp.Arg(3, seccomp.MASKED_EQ, _MAP_ANONYMOUS, _MAP_ANONYMOUS))
    written = _PROT_EXEC | _PROT_WRITE
    rules.add_rule(denied, "mmap", seccomp.Arg(2, seccomp.MASKED_EQ, written, written))
    for name in ("mremap", "pkey_mprotect", "remap_file_pages"):
        _add_if_known(rules, denied, name)


def _allow_by_argument(rules: Any, timeless: bool) -> None:
    """What a candidate may call with some arguments."""
    for name, argument, values in (
        ("ioctl", 1, _IOCTL),
        ("madvise", 2, _MADVISE),
        ("mbind", 5, (0,)),
        ("get_mempolicy", 4, (0,)),
        ("membarrier", 0, _MEMBARRIER),
        *((name, 0, (0, os.getpid())) for name in _OF_ITSELF),
        ("prctl", 0, _PRCTL),
        ("arch_prctl", 0, _ARCH_PRCTL),
    ):
        for value in values:
            rules.add_rule(seccomp.ALLOW, name, _low_word(argument, value))
    rules.add_rule(seccomp.TRAP, "prctl", _low_word(0, _PR_SET_TSC))
    for value in _ARCH_MAP_VDSO:
        rules.add_rule(seccomp.TRAP, "arch_prctl", _low_word(0, value))
    for descriptor in _no_log():
        for name in _OF_A_FILE:
            rules.add_rule(seccomp.ALLOW, name, descriptor)
        for command in _FCNTL:
            rules.add_rule(seccomp.ALLOW, "fcntl", descriptor, _low_word(1, command))
    for log in _LOG:
        for command in _FCNTL[1:5]:
            rules.add_rule(seccomp.ALLOW, "fcntl", _low_word(0, log), _low_word(1, command))
    for command in _FUTEX_WAKES:
        own = seccomp.Arg(1, seccomp.MASKED_EQ, _FUTEX_COMMAND | _FUTEX_PRIVATE, command | _FUTEX_PRIVATE)
        rules.add_rule(seccomp.ALLOW, "futex", own)
    for command in _FUTEX_WAITS:
        waits = seccomp.Arg(1, seccomp.MASKED_EQ, _FUTEX_COMMAND, command)
        rules.add_rule(seccomp.ALLOW, "futex", waits, seccomp.Arg(3, seccomp.EQ, 0))
        rules.add_rule(seccomp.TRAP if timeless else seccomp.ALLOW, "futex", waits, seccomp.Arg(3, seccomp.NE, 0))
    for name in ("kill", "tgkill"):
        rules.add_rule(seccomp.ALLOW, name, seccomp.Arg(0, seccomp.EQ, os.getpid()))
    rules.add_rule(seccomp.ALLOW, "prlimit64", seccomp.Arg(0, seccomp.EQ, 0), seccomp.Arg(2, seccomp.EQ, 0))
    rules.add_rule(seccomp.ALLOW, "getpriority", _low_word(0, 0), _low_word(1, 0))
    rules.add_rule(seccomp.ALLOW, "clone", _low_word(0, _A_THREAD))


def _allow_memory(rules: Any, sealed: bool) -> None:
    """No memory becomes executable, but that of files that nobody can write to and nothing is written to.

    Nor is any moved (`mremap`): executable memory could grow over the closed pages that follow it.
    """
    if not sealed:
        for name in ("mmap", "mprotect", "mremap"):
            rules.add_rule(seccomp.ALLOW, name)
        return
    plain = seccomp.Arg(2, seccomp.MASKED_EQ, _PROT_EXEC, 0)
    code = seccomp.Arg(2, seccomp.MASKED_EQ, _PROT_EXEC | _PROT_WRITE, _PROT_EXEC)
    rules.add_rule(seccomp.ALLOW, "mmap", plain)
    rules.add_rule(seccomp.ALLOW, "mmap", code, seccomp.Arg(3, seccomp.MASKED_EQ, _MAP_ANONYMOUS, 0))
    rules.add_rule(seccomp.ALLOW, "mprotect", plain)


def _no_log() -> Iterator[Any]:
    """Descriptors other than 1 and 2, as conditions on a call's first argument: no condition can name two values."""
    yield from (_low_word(0, descriptor) for descriptor in (0, 3))
    yield from (seccomp.Arg(0, seccomp.MASKED_EQ, 1 << bit, 1 << bit) for bit in (2, *_DESCRIPTORS))


def _low_word(argument: int, value: int) -> Any:
    """An argument of 32 bits: the kernel does not look at those above."""
    return seccomp.Arg(argument, seccomp.MASKED_EQ, 0xFFFFFFFF, value)


def _add_if_known(rules: Any, action: Any, name: str) -> None:
    with contextlib.suppress(
        RuntimeError, ValueError, OSError
    ):  # this architecture or libseccomp does not know the call
        rules.add_rule(action, name)
