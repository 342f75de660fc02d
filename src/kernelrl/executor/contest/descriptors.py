"""The descriptors of a contestant's process: its log, one socket, and none beside."""

from __future__ import annotations

import contextlib
import os
import socket

FIRST_FREE, MAX_FD = 4, 4096
"""Descriptors from the first on are closed: below are the log and the socket."""


def close_others() -> None:
    """Close every descriptor but the socket and the log."""
    os.closerange(FIRST_FREE, MAX_FD)


def close_all_of(file: os.stat_result) -> None:
    """Close every descriptor of a file; others are a driver's."""
    for fd in range(FIRST_FREE, MAX_FD):
        with contextlib.suppress(OSError):
            if os.path.samestat(os.fstat(fd), file):
                os.close(fd)


def keep_only(sock: socket.socket, log: int) -> int:
    """Close every inherited descriptor but the socket (moved to 3) and the log (as 1 and 2)."""
    null = os.open(os.devnull, os.O_RDONLY)
    sock_fd = sock.detach()
    os.dup2(null, 0)
    os.dup2(log, 1)
    os.dup2(log, 2)
    if sock_fd != 3:
        os.dup2(sock_fd, 3)
    close_others()
    return FIRST_FREE - 1
