"""One measurement at a time on a host, whoever runs it: executors of several runs and users share a lock on a file."""

from __future__ import annotations

import contextlib
import fcntl
import os
import stat
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from kernelrl.errors import InfrastructureError

ASK_EVERY_S = 0.002
PATIENCE_S = 1800.0
"""Time after which whoever has the lock must be stuck (in seconds)."""


class HostLock:
    """A lock among all threads and processes of this machine. The kernel frees it when its holder ends.

    Args:
        path: a file that every executor of this machine sees and none need write to; it is made where there is none.
    """

    def __init__(self, path: str):
        self._path = path
        self._mine = threading.Lock()  # a descriptor is locked once for all threads

    @contextmanager
    def held(self) -> Iterator[None]:
        """Have the lock.

        Raises:
            InfrastructureError: the file is no file, or somebody keeps it locked.
        """
        with self._mine:
            handle = self._lock()
            try:
                yield
            finally:
                os.close(handle)

    def _lock(self) -> int:
        """A descriptor that holds the lock."""
        deadline = time.monotonic() + PATIENCE_S
        while time.monotonic() < deadline:
            handle = self._open()
            with contextlib.suppress(BlockingIOError, FileNotFoundError):
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                if os.stat(self._path).st_ino == os.fstat(handle).st_ino:  # nobody has removed it meanwhile
                    return handle
            os.close(handle)
            time.sleep(ASK_EVERY_S)
        raise InfrastructureError(f"{self._path} has been locked for {PATIENCE_S:g} s: an executor here is stuck")

    def _open(self) -> int:
        """The file, made where there is none. Its lock needs no right to write: nobody gets more than to read it."""
        flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC  # a pipe would block
        try:
            with contextlib.suppress(FileExistsError):
                handle = os.open(self._path, flags | os.O_CREAT | os.O_EXCL, 0o644)
                os.fchmod(handle, 0o644)  # whatever the umask: other users lock it too
                return handle
            handle = os.open(self._path, flags)
        except OSError as error:
            raise InfrastructureError(f"executor.lock_file={self._path} cannot be locked: {error.strerror}") from None
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            os.close(handle)
            raise InfrastructureError(f"executor.lock_file={self._path} is no file")
        return handle
