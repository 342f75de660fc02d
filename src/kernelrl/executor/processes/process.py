"""The trusted side of an untrusted process: talk to it, freeze it, time it from outside, read its memory.

A contestant only ever runs between a question and its answer. Before a timed call it is frozen while its inputs are
written; the clock starts when it is thawed and stops when it answers; then it is frozen again, and its outputs are read
from its memory as they were at that moment. A background thread, a lazy output or a forged answer gains nothing.
"""

from __future__ import annotations

import contextlib
import ctypes
import itertools
import os
import secrets
import select
import signal
import socket
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, Literal

import torch

from kernelrl.errors import InfrastructureError
from kernelrl.executor import wire
from kernelrl.executor.processes.note import Note
from kernelrl.executor.processes.patience import OutOfPatience, Patience, never_paused
from kernelrl.executor.processes.warming import Warming

Needs = Literal["nothing", "library", "jit", "compiler"]
"""What a contestant may use: nothing but its own code; the libraries, which references compute with; Triton's assembler
and C compiler, under the filter of system calls; or whatever `torch.compile` starts for a trusted text."""

STARTING_S = 600.0
"""Time for the forkserver to start, and for it to fork (in seconds)."""
CANDIDATE_MESSAGE_BYTES = 2 << 20
"""Length of the longest message of a candidate's: its largest are the texts that it wants built."""
STOPPING_S = 60.0
"""Time for the threads of a stopped process to stand (in seconds): much on a loaded machine, moments on another."""
SENDING_S = 60.0
"""Time for a process to take a message (in seconds)."""
MAX_NEW_FILE_BYTES = 64 << 20
"""Further pages of files are a process's own memory: it may map scratch files to compute in."""
_LIBC = ctypes.CDLL(None, use_errno=True)


class _Iovec(ctypes.Structure):
    _fields_ = [("base", ctypes.c_void_p), ("length", ctypes.c_size_t)]


class ProcessFailure(Exception):
    """A process did not answer as it should. The text says what it did."""

    final = True
    """False: the load on the machine, or somebody else's signal, may have been the cause."""


class ProcessDied(ProcessFailure):
    """It ended, or hung up, before it answered."""

    def __init__(self, reason: str, final: bool = True):
        super().__init__(reason)
        self.final = final


class ProcessTimeout(ProcessFailure):
    """It did not answer in time."""

    def __init__(self, final: bool = True) -> None:
        super().__init__("took too long")
        self.final = final


class ForgedMessage(ProcessFailure):
    """It answered something that it was not asked."""

    def __init__(self) -> None:
        super().__init__("answered what it was not asked")


class ForkServer:
    """The service's end of the forkserver. Thread-safe.

    Args:
        warming: the forkserver's process, started.
        on_death: called when the forkserver is gone.

    Raises:
        InfrastructureError: it does not start.
    """

    def __init__(self, warming: Warming, on_death: Callable[[], None]):
        self._control = warming.control
        self._on_death = on_death
        self._lock = threading.Lock()
        self._spawned: dict[int, int] = {}
        self._status: dict[int, int] = {}
        self._news = threading.Condition()
        self._alive = True
        self._token = 0
        try:
            self._control.settimeout(STARTING_S)
            wire.receive(self._control)
        except (wire.WireError, TimeoutError):
            warming.process.kill()
            reason = f"exit status {warming.process.wait()}"  # -9: it took too long, or somebody killed it
            raise InfrastructureError(f"the executor's forkserver did not start ({reason})") from None
        self._control.settimeout(None)
        threading.Thread(target=self._listen, daemon=True, name="forkserver-news").start()

    def spawn(self, request: dict[str, Any], fds: tuple[int, ...]) -> int:
        """Fork a child and return its pid."""
        with self._lock:
            self._token += 1
            token = self._token
            wire.send(self._control, request | {"spawn": token}, fds)
        with self._news:
            if (
                not self._news.wait_for(lambda: token in self._spawned or not self._alive, timeout=STARTING_S)
                or not self._alive
            ):
                raise InfrastructureError("the executor's forkserver died")
            return self._spawned.pop(token)

    def wait(self, pid: int, timeout: float) -> int | None:
        """The wait status of a child that has exited, or None when it has not within `timeout` (in seconds)."""
        with self._news:
            self._news.wait_for(lambda: pid in self._status or not self._alive, timeout=timeout)
            return self._status.pop(pid, None)

    def _listen(self) -> None:
        while True:
            try:
                message, _ = wire.receive(self._control)
            except wire.WireError:
                break
            with self._news:
                if "spawned" in message:
                    self._spawned[message["spawned"]] = message["pid"]
                else:
                    self._status[message["exited"]] = message["status"]
                self._news.notify_all()
        with self._news:
            self._alive = False
            self._news.notify_all()
        self._on_death()


def explain_status(status: int) -> str:
    """A wait status in words."""
    if os.WIFSIGNALED(status):
        number = os.WTERMSIG(status)
        names = {known.value: known.name for known in signal.Signals}
        return f"was killed by {names.get(number, f'signal {number}')}"
    return f"exited with status {os.WEXITSTATUS(status)}"


def nothing() -> None:
    """No work."""


class Process:
    """One contestant, frozen except between a question and its answer.

    Use it as a context manager: leaving it kills the process and removes its scratch folder.

    Args:
        forkserver: forks it.
        spec: its limits, see `contestant.main`.
        scratch: folder in which its own scratch folder is made.

    Raises:
        InfrastructureError: it does not start.
    """

    def __init__(self, forkserver: ForkServer, spec: dict[str, Any], scratch: Path):
        self._forkserver = forkserver
        self._scratch = tempfile.TemporaryDirectory(dir=scratch, ignore_cleanup_errors=True)
        self._log: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115
        self.max_message_bytes = wire.MAX_MESSAGE_BYTES
        self.note = Note()
        self.modules = Path(self._scratch.name) / "modules"
        self.helper: str = spec["helper"]
        self._num_modules = 0
        folders = {"scratch": f"{self._scratch.name}/scratch", "modules": str(self.modules)}
        for folder in folders.values():
            os.mkdir(folder)
        self.sock, theirs = socket.socketpair()
        # a candidate that could read its log could execute what it has written there
        log = os.open(f"/proc/self/fd/{self._log.fileno()}", os.O_WRONLY | os.O_APPEND)
        try:
            with theirs:
                request = spec | {"kind": "contestant"} | folders
                self.pid = forkserver.spawn(request, (theirs.fileno(), log, self.note.fd))
        finally:
            os.close(log)
        self._pidfd = os.pidfd_open(self.pid)
        self._stat = os.open(f"/proc/{self.pid}/stat", os.O_RDONLY)
        self._frozen = False
        try:
            message = self.next_message(None, timeout=30)
        except ProcessFailure as error:
            reason = f"{error}; {self.log_tail().strip()}".rstrip("; ")
            self.close()
            raise InfrastructureError(f"a contestant's process did not start: {reason}") from None
        self.layers: list[str] = message["ready"]
        self.settings: dict[str, str] = message["settings"]
        self.freeze()

    def __enter__(self) -> Process:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    @property
    def alive(self) -> bool:
        """Whether it still runs."""
        return self._pidfd >= 0 and not _ended(self._pidfd, 0)

    def close(self) -> None:
        """Kill the process and what it started, whatever state it is in."""
        if self._pidfd < 0:
            return
        if self.alive:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.pid, signal.SIGKILL)
        self._signal(signal.SIGKILL)
        self.sock.close()
        _ended(self._pidfd, 10)
        os.close(self._stat)
        os.close(self._pidfd)
        self._pidfd = -1
        self._forkserver.wait(self.pid, timeout=5)
        self._log.close()
        self.note.close()
        self._scratch.cleanup()

    def offer_module(self, built: Path, name: str) -> Path:
        """Let the process load a native module, which lies where it cannot write. Returns the path."""
        self._num_modules += 1
        path = self.modules / str(self._num_modules) / f"{name}.so"
        path.parent.mkdir()
        os.link(built, path)
        return path

    def log_tail(self, num_bytes: int = 2000) -> str:
        """The end of what it printed."""
        size = os.fstat(self._log.fileno()).st_size
        return os.pread(self._log.fileno(), num_bytes, max(0, size - num_bytes)).decode("utf-8", "replace")

    def ask(
        self,
        message: dict[str, Any],
        timeout: float,
        fds: tuple[int, ...] = (),
        meanwhile: Callable[[], None] = nothing,
    ) -> tuple[dict[str, Any], float]:
        """Put a question: the answer within `timeout` seconds, and the time between thawing and freezing (in seconds).

        Args:
            message: the question.
            timeout: for the answer (in seconds).
            fds: descriptors that go with it.
            meanwhile: work to do until the answer is there; the time may then be that of the work.

        Raises:
            ProcessFailure
        """
        nonce = self.post(message, fds)
        started = time.perf_counter()
        self.thaw()
        try:
            meanwhile()
        finally:
            reply = self.next_message(nonce, timeout)
            self.freeze()
        return reply, time.perf_counter() - started  # work after the answer is paid for until it stands

    def post(self, message: dict[str, Any], fds: tuple[int, ...] = ()) -> str:
        """Send a question and return the nonce that its answer must carry."""
        nonce = secrets.token_hex(8)
        self.reply(message | {"nonce": nonce}, fds)
        return nonce

    def reply(self, message: dict[str, Any], fds: tuple[int, ...] = ()) -> None:
        """Send a message that expects no answer, such as the outcome of a build."""
        reads_on = self._frozen and wire.is_long(message)  # what stands takes no more than fits into the socket
        try:
            if reads_on:
                self.thaw()
            self.sock.settimeout(SENDING_S)
            wire.send(self.sock, message, fds)
            if reads_on:
                self.freeze()
        except TimeoutError:
            raise ProcessTimeout(final=False) from None
        except OSError as error:
            raise self._death(str(error)) from None

    def next_message(
        self, nonce: str | None, timeout: float, pauses: Callable[[], tuple[bool, float]] = never_paused
    ) -> dict[str, Any]:
        """Its next message: a `build` request, or the answer that carries the nonce.

        Args:
            nonce: None: of the first message.
            timeout: limit (in seconds, see `Patience`).
            pauses: when it was stopped for a measurement, see `Patience`.

        Raises:
            ProcessFailure
        """
        try:
            patience = Patience(self.pid, self.sock, timeout, pauses)
            message, _ = wire.receive(self.sock, wait=patience.wait, max_bytes=self.max_message_bytes)
        except OutOfPatience as end:
            raise ProcessDied(str(end)) if str(end) else ProcessTimeout(end.final) from None
        except (wire.WireError, OSError) as error:
            raise self._death(str(error)) from None
        if "build" not in message and message.get("nonce") != nonce:
            raise ForgedMessage
        return message

    def freeze(self) -> None:
        """Stop every thread of the process and wait until it stands.

        Raises:
            ProcessDied: it has ended, or does something that cannot be stopped.
        """
        self._signal(signal.SIGSTOP)
        self._frozen = True
        deadline = time.monotonic() + STOPPING_S
        while time.monotonic() < deadline:
            try:
                state = os.pread(self._stat, 512, 0).rpartition(b") ")[2][:1]
            except OSError:
                state = b"X"
            if state in (b"T", b"t"):
                return
            if state in (b"Z", b"X"):
                raise self._death()
            os.sched_yield()  # to a thread that has yet to stop on this core
        raise ProcessDied("could not be stopped", final=False)

    def thaw(self) -> None:
        """Let it run."""
        if self._frozen:
            self._signal(signal.SIGCONT)
            self._frozen = False

    def has_children(self) -> bool:
        """Whether a process that it started still runs."""
        threads = f"/proc/{self.pid}/task"
        for thread in os.listdir(threads):
            with open(f"{threads}/{thread}/children", "rb", buffering=0) as children:
                if children.read(1):
                    return True
        return False

    def watch_memory(self) -> None:
        """Begin to measure the peak of its memory anew."""
        self._watched = self._memory()
        Path(f"/proc/{self.pid}/clear_refs").write_text("5")  # sets VmHWM back to VmRSS

    def peak_memory(self, arena_bytes: int) -> int:
        """Memory that it has held at most since `watch_memory` beyond what it held then (in bytes).

        Pages of files, such as the code of libraries, and those of the inputs are no memory of its own.

        Args:
            arena_bytes: memory through which its inputs arrive.
        """
        now = self._memory()
        files = min(now["RssFile"], self._watched["RssFile"] + MAX_NEW_FILE_BYTES)
        return max(now["VmHWM"] - files - min(now["RssShmem"], arena_bytes) - self._watched["RssAnon"], 0)

    def _memory(self) -> dict[str, int]:
        lines = Path(f"/proc/{self.pid}/status").read_text().splitlines()
        fields = (line.split() for line in lines if line.startswith(("VmHWM", "Rss")))
        return {name.rstrip(":"): int(number) * 1024 for name, number, _ in fields}

    @contextmanager
    def pinned(self) -> Iterator[None]:
        """Keep its first thread on the first core and the others on the other ones.

        Left alone, the scheduler now and then runs two that work together on one core, for as long as a judgement
        takes: the same program is then several times slower, or faster, than itself.
        """
        cores = sorted(os.sched_getaffinity(0))
        threads = sorted(int(name) for name in os.listdir(f"/proc/{self.pid}/task"))
        places = itertools.chain(cores[:1], itertools.cycle(cores[1:] or cores))
        try:
            for thread, core in zip(threads, places, strict=False):
                with contextlib.suppress(OSError):
                    os.sched_setaffinity(thread, {core})
            yield
        finally:
            for thread in threads:
                with contextlib.suppress(OSError):
                    os.sched_setaffinity(thread, cores)

    def read(self, pointer: int, num_bytes: int) -> torch.Tensor:
        """Copy of `num_bytes` of its memory, as uint8.

        Raises:
            ValueError: there is no such memory.
        """
        assert self._frozen, "what runs may change while it is read"
        buffer = torch.empty(num_bytes, dtype=torch.uint8)
        done = 0
        while done < num_bytes:
            local = _Iovec(buffer.data_ptr() + done, num_bytes - done)
            remote = _Iovec(pointer + done, num_bytes - done)
            count = _LIBC.process_vm_readv(self.pid, ctypes.byref(local), 1, ctypes.byref(remote), 1, 0)
            if count <= 0:
                reason = os.strerror(ctypes.get_errno())
                raise ValueError(f"memory of process {self.pid} at {pointer:#x} cannot be read: {reason}")
            done += count
        return buffer

    def tensor(self, described: dict[str, Any]) -> torch.Tensor:
        """Copy of the tensor that it described (see `wire.describe`).

        Raises:
            ValueError: there is no such memory.
        """
        dtype = wire.DTYPES[described["dtype"]]
        num_bytes = wire.span_bytes(described["shape"], described["stride"], dtype.itemsize)
        flat = self.read(described["pointer"], num_bytes).view(dtype)
        return flat.as_strided(described["shape"], described["stride"])

    def _death(self, reason: str = "hung up") -> ProcessDied:
        """How it ended; the `reason` why it is given up where it still lives."""
        with contextlib.suppress(ProcessLookupError):
            self._signal(signal.SIGCONT)
        status = self._forkserver.wait(self.pid, timeout=2)
        by_sigkill = status is not None and os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL
        return ProcessDied(reason if status is None else explain_status(status), final=not by_sigkill)

    def _signal(self, number: int) -> None:
        with contextlib.suppress(ProcessLookupError):
            signal.pidfd_send_signal(self._pidfd, number)


def _ended(pidfd: int, seconds: float) -> bool:
    """Whether a process has ended, waiting for it so long."""
    poll = select.poll()
    poll.register(pidfd, select.POLLIN)
    return bool(poll.poll(seconds * 1000))
