"""Compilers: confined processes that the forkserver starts, with limits of time, memory and output."""

from __future__ import annotations

import os
import signal
import tempfile
import time
import unicodedata
from dataclasses import dataclass
from pathlib import Path

from kernelrl.executor.processes.cores import Cores
from kernelrl.executor.processes.forking import ForkServer, explain_status
from kernelrl.executor.processes.patience import ceiling

MEMORY_BYTES = 4 << 30
FILE_BYTES = 64 << 20
MAX_LOG_CHARS = 4000
KILLED = "was killed by SIGKILL"
CUT = " characters …\n"
"""What stands in the place of the middle of a text that is too long."""
OUT_OF_CPU = "CPU time limit exceeded"


@dataclass(frozen=True)
class Compiled:
    """What one run of a compiler came to."""

    ok: bool
    log: str
    seconds: float
    """Wall time without pauses (in seconds)."""
    final: bool = True
    out_of_time: bool = False


class Compilers:
    """Runs compilers. Thread-safe.

    Args:
        forkserver: forks them.
        cores: says when one may run.
        cpu_s: CPU time of each process of a compiler (in seconds).
        readable: files and folders that they may read, beside the system's; those that are there.
        hidden: folder that their words are not to name.
    """

    name = "the compiler"
    """What messages call one."""
    profiled = False
    """Whether they run kernels on the device, under a profiler."""

    def __init__(self, forkserver: ForkServer, cores: Cores, cpu_s: float, readable: tuple[Path, ...], hidden: Path):
        self._forkserver = forkserver
        self._cores = cores
        self.cpu_s = cpu_s
        self._readable = readable
        self._hidden = hidden

    def wall_s(self, cpu_s: float) -> float:
        """Time on the clock after which one that may compute for so long is ended (in seconds)."""
        return ceiling(cpu_s)

    def run(
        self,
        command: list[str],
        folder: Path,
        file_bytes: int = FILE_BYTES,
        shortened: bool = True,
        cpu_s: float | None = None,
        readable: tuple[Path, ...] = (),
    ) -> Compiled:
        """Run a compiler.

        Args:
            command: the program and its arguments.
            folder: the working directory, and the only folder that it may write to.
            file_bytes: size of any file that it writes, and if it is profiled of all together.
            shortened: leave out the middle of what it says.
            cpu_s: time for which each of its processes may compute (in seconds); None: as all may.
            readable: what it may read beside what all may.
        """
        cpu_s = cpu_s or self.cpu_s
        wall_s = self.wall_s(cpu_s)
        started, waiting = time.monotonic(), self._cores.clock.waiting
        with tempfile.TemporaryFile() as log:
            request = {
                "kind": "compiler",
                "command": command,
                "folder": str(folder),
                "readable": [str(path) for path in (*self._readable, *readable) if path.exists()],
                "memory_bytes": MEMORY_BYTES,
                "file_bytes": file_bytes,
                "cpu_s": cpu_s,
                "profiled": self.profiled,
            }
            with self._cores.stoppable(lambda: self._forkserver.spawn(request, (log.fileno(),))) as pid:
                paused = self._cores.paused_s
                status = self._forkserver.wait(pid, wall_s)
                while status is None and self._cores.paused_s > paused:
                    paused, longer = self._cores.paused_s, self._cores.paused_s - paused
                    status = self._forkserver.wait(pid, longer)
            if status is None:
                os.killpg(pid, 9)
                self._forkserver.wait(pid, 5)
            log.seek(0)
            text = log.read(1 << 20).decode("utf-8", "replace")
            text = text.replace(f"{folder}/", "").replace(f"{self._hidden}/", "")
        seconds = time.monotonic() - started - (self._cores.clock.waiting - waiting)
        if status is None:
            text = f"{self.name} did not end within {wall_s:g} s"
            return Compiled(False, text, seconds, final=False, out_of_time=True)
        if status == 0:
            return Compiled(True, shorten(text) if shortened else text, seconds)
        if OUT_OF_CPU in text or status >> 8 in (128 + signal.SIGXCPU, -signal.SIGXCPU & 0xFF):
            text = f"{self.name} took longer than {cpu_s:g} s and was stopped"
            return Compiled(False, text, seconds, out_of_time=True)
        if os.WIFSIGNALED(status) or status >> 8 == 137 or "Killed signal terminated program" in text:
            return Compiled(False, f"{self.name} {KILLED}", seconds, final=False)
        if not text.strip():
            text = f"{self.name} {explain_status(status)}"
        return Compiled(False, shorten(text) if shortened else text, seconds)


def printable(text: str) -> str:
    """The text with what would command a terminal, or turn the order of letters, written out (`\\x1b`, `\\u202e`)."""
    return "".join(
        each if each in "\n\t" or unicodedata.category(each)[0] != "C" else each.encode("unicode_escape").decode()
        for each in text
    )


def shorten(text: str, limit: int = MAX_LOG_CHARS) -> str:
    """The text as `printable` gives it, with its middle left out where it is longer than `limit` characters."""
    if len(text) > limit:
        text = f"{text[: limit * 3 // 4]}\n… {len(text) - limit}{CUT}{text[-limit // 4 :]}"
    return printable(text)
