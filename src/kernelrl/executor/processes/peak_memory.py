"""The peak of another process's memory, read from outside."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

MAX_NEW_FILE_BYTES = 64 << 20
"""Further pages of files are a process's own memory: it may map scratch files to compute in."""


class PeakMemory:
    """Memory that a process holds at most from now on, beyond what it holds now.

    Pages of files, such as the code of libraries, and those of the inputs are no memory of its own.

    Args:
        pid: of the process.
    """

    def __init__(self, pid: int):
        self._pid = pid
        self._at_first = self._held()
        self._peak_before = 0
        self._forget()

    @contextmanager
    def replacing_files(self) -> Iterator[None]:
        """Measure the peak before and after this each by itself: other pages of files are mapped."""
        self._peak_before = self.num_bytes(0)
        yield
        self._forget()

    def num_bytes(self, inputs_bytes: int) -> int:
        """The peak so far.

        Args:
            inputs_bytes: size of the inputs that it has been given.
        """
        now = self._held()
        files = min(now["RssFile"], self._at_first["RssFile"] + MAX_NEW_FILE_BYTES)
        peak = now["VmHWM"] - files - min(now["RssShmem"], inputs_bytes) - self._at_first["RssAnon"]
        return max(peak, self._peak_before)

    def _forget(self) -> None:
        Path(f"/proc/{self._pid}/clear_refs").write_text("5")  # sets VmHWM back to VmRSS

    def _held(self) -> dict[str, int]:
        lines = Path(f"/proc/{self._pid}/status").read_text().splitlines()
        fields = (line.split() for line in lines if line.startswith(("VmHWM", "Rss")))
        return {name.rstrip(":"): int(number) * 1024 for name, number, _ in fields}
