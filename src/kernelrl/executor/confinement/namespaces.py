"""Namespaces and mounts: what a process sees of the network, of other processes and of the files."""

from __future__ import annotations

import ctypes
import fcntl
import os
import socket
import struct
from pathlib import Path

_LIBC = ctypes.CDLL(None, use_errno=True)
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

_without_network = False
"""Whether `leave_network` has succeeded in this process or the one that forked it."""


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


def enter_namespaces(scratch: Path, scratch_bytes: int | None, own_processes: bool) -> bool:
    """Move this process to namespaces of its own. Returns whether the kernel lets it.

    Args:
        scratch: a folder.
        scratch_bytes: size of an empty one in memory that takes its place; None: it stays.
        own_processes: children are in a process namespace, too.
    """
    flags = _CLONE_NEWUSER | (_CLONE_NEWNS if scratch_bytes else 0) | (_CLONE_NEWPID if own_processes else 0)
    if not _without_network or not _unshare(flags):
        return False
    if scratch_bytes:
        try:
            _check(_LIBC.mount(b"none", b"/", None, _MS_REC | _MS_PRIVATE, None))  # nothing leaks back
            mount_in_memory(scratch, scratch_bytes)
        except OSError:
            return False
    return True


def show_only(paths: tuple[str, ...], scratch: Path, executable: Path | None, processes: bool = False) -> bool:
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


def execute_only(paths: tuple[str, ...]) -> bool:
    """Have the kernel map no files executable but these, and those of these folders, in this mount namespace.

    Returns whether it does.
    """
    try:
        for path in paths:
            _check(_LIBC.mount(os.fsencode(path), os.fsencode(path), None, _MS_BIND, None))
        _set_mount(b"/", _AT_RECURSIVE, forbid=_MOUNT_ATTR_NOEXEC, allow=0)
        for path in paths:
            _set_mount(os.fsencode(path), 0, forbid=0, allow=_MOUNT_ATTR_NOEXEC)
    except OSError:
        return False
    return True


def enter_namespaces_of_a_profiler(scratch: Path, scratch_bytes: int) -> None:
    """Move this process to a network and to namespaces of its own, and its children to a process namespace.

    Args:
        scratch: see `enter_namespaces`.
        scratch_bytes: likewise.

    Raises:
        OSError: the kernel does not let it.
    """
    _enter_network_of_its_own()
    if not enter_namespaces(scratch, scratch_bytes, own_processes=True):
        raise OSError("no namespaces of its own")


def mount_in_memory(folder: Path, num_bytes: int) -> None:
    """Put an empty folder in memory, of this size at most, in place of one.

    Raises:
        OSError: the kernel does not let it.
    """
    options = f"size={num_bytes},nr_inodes=1024,mode=0700".encode()
    _check(_LIBC.mount(b"tmpfs", os.fsencode(folder), b"tmpfs", _MS_NOSUID_NODEV, options))


def _unshare(flags: int) -> bool:
    uid, gid = os.getuid(), os.getgid()
    if _LIBC.unshare(flags) != 0:
        return False
    for name, text in (("setgroups", "deny"), ("uid_map", f"{uid} {uid} 1"), ("gid_map", f"{gid} {gid} 1")):
        with open(f"/proc/self/{name}", "w") as file:
            file.write(text)
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
