"""The trusted side of an untrusted process: talk to it, freeze it, time it from outside, read its memory.

A contestant only ever runs between a question and its answer, and a trusted one waits for the next. Before a timed call
it is frozen while its inputs are written; the clock starts when it is thawed and stops when it answers; then it is
frozen again, and its outputs are read from its memory as they were at that moment. A background thread, a lazy output
or a forged answer gains nothing.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import re
import secrets
import select
import shutil
import signal
import socket
import tempfile
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, Literal

import torch

from kernelrl.errors import InfrastructureError
from kernelrl.executor import trees, wire
from kernelrl.executor.confinement.sandbox import ENDED_FIRST
from kernelrl.executor.processes.failures import ForgedMessage, ProcessDied, ProcessFailure, ProcessTimeout
from kernelrl.executor.processes.foreign_memory import read_memory
from kernelrl.executor.processes.forking import ForkServer, explain_status
from kernelrl.executor.processes.note import Note
from kernelrl.executor.processes.patience import OutOfPatience, Patience, never_paused
from kernelrl.executor.processes.standing import ENDED, STOPPED, StillRuns, Threads, cpu_s, wait_until_it_stands
from kernelrl.executor.quota import num_cores

Needs = Literal["nothing", "operators", "library", "sanitizer", "jit", "compiler"]
"""What a contestant may use: nothing but its own code; PyTorch's operators, as a candidate in Python; all of the
libraries, which references compute with; these under AddressSanitizer, for a second look at a candidate; Triton's
assembler and C compiler, under the filter of system calls; or whatever `torch.compile` starts for a trusted text."""

CANDIDATE_MESSAGE_BYTES = 2 << 20
"""Length of the longest message of a candidate's: its largest are the texts that it wants built."""
STOPPING_A_THREAD_S = 1e-5
"""Time that it takes to stop one thread (in seconds): who computes for longer after the first one stands, works on."""
SENDING_S, STANDING_S = 60.0, 1.0
"""Time for a process to take a message, and for one that stands: its socket has room for it, or never will (in
seconds)."""
ENDING_S, STATUS_S = 2.0, 60.0
"""Time for a process that has hung up to end, and for the word of how it ended, which tells whose doing it was (in
seconds)."""
_LINE = re.compile(r'File "[^"\n]*/kernel_module\.py", line (\d+) in')


def nothing() -> None:
    """No work."""


class Process:
    """One contestant, frozen except between a question and its answer, unless its text is trusted.

    Use it as a context manager: leaving it kills the process and removes its scratch folder.

    Args:
        forkserver: forks it.
        spec: its limits, see `starting.become_contestant`.
        scratch: folder in which its own scratch folder is made.
        trusted: it waits for questions and does nothing meanwhile, and is not stopped for it.

    Raises:
        InfrastructureError: it does not start.
    """

    def __init__(self, forkserver: ForkServer, spec: dict[str, Any], scratch: Path, trusted: bool = False):
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
        self.sock, other_end = socket.socketpair()
        # a candidate that could read its log could execute what it has written there
        log = os.open(f"/proc/self/fd/{self._log.fileno()}", os.O_WRONLY | os.O_APPEND)
        try:
            with other_end:
                request = spec | {"kind": "contestant"} | folders
                self.pid = forkserver.spawn(request, (other_end.fileno(), log, self.note.fd))
        finally:
            os.close(log)
        self._pidfd = os.pidfd_open(self.pid)
        self._stat = os.open(f"/proc/{self.pid}/stat", os.O_RDONLY)
        self._threads = Threads(self.pid)
        self._frozen = False
        self._unsent: deque[tuple[bytes, tuple[int, ...]]] = deque()
        self._on_gpu = spec["device"] == "cuda"
        self._trusted = trusted
        self._ending: int | None = None  # its wait status, once that was asked for
        try:
            message = self.next_message(None, timeout=30)
        except ProcessFailure as error:
            reason = f"{error}; {self.log_tail().strip()}".rstrip("; ")
            self.close()
            raise InfrastructureError(f"a contestant's process did not start: {reason}") from None
        self.layers: list[str] = message["ready"]
        self.settings: dict[str, str] = message["settings"]
        self._threads = Threads(self.pid, start_others="seccomp" not in self.layers or spec["may_exec"])
        self.freeze()

    def __enter__(self) -> Process:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    @property
    def alive(self) -> bool:
        """Whether it still runs."""
        return self._pidfd >= 0 and not _ended(self._pidfd, 0)

    def halt(self) -> None:
        """Stop the process and what it started, whatever state it is in, without waiting until it stands."""
        self._signal_all(signal.SIGSTOP)

    def kill(self) -> None:
        """Kill the process and what it started, whatever state it is in, and wait until its memory is given back."""
        self._signal_all(signal.SIGKILL)
        _ended(self._pidfd, 10)

    def _signal_all(self, number: int) -> None:
        if self._pidfd < 0:
            return
        if self.alive:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.pid, number)
        self._signal(number)

    def close(self) -> None:
        """Kill it (see `kill`), and remove what it leaves."""
        if self._pidfd < 0:
            return
        self.kill()
        self.sock.close()
        os.close(self._stat)
        self._threads.close()
        os.close(self._pidfd)
        self._pidfd = -1
        if self._ending is None:
            self._forkserver.wait(self.pid, timeout=5)
        self._log.close()
        self.note.close()
        self._scratch.cleanup()

    def offer_module(self, built: Path, name: str, shared: bool = False) -> Path:
        """Let the process load a native module, which lies where it cannot write. Returns the path.

        Args:
            built: the module.
            name: what it is called there.
            shared: it is a link to that file, whose times and number of names tell when others got one; else a copy, if
                there is room for it.
        """
        self._num_modules += 1
        path = self.modules / str(self._num_modules) / f"{name}.so"
        path.parent.mkdir()
        try:
            if not shared:
                shutil.copyfile(built, path)
                return path
        except OSError:  # the disk is full
            path.unlink(missing_ok=True)
        os.link(built, path)
        return path

    def offer_modules(self, built: Iterable[tuple[Path, str]]) -> list[str]:
        """Let the process load copies of native modules. Returns their paths.

        Args:
            built: each module, and what it is called there.
        """
        return [str(self.offer_module(path, name)) for path, name in built]

    def last_line(self) -> int | None:
        """Line of the candidate's text in which it died, as Python's `faulthandler` says it; None: not known."""
        line = _LINE.search(self.log_tail())
        return int(line[1]) if line else None

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
        alone: bool = False,
    ) -> tuple[dict[str, Any], float]:
        """Put a question: the answer within `timeout` seconds, and the time between thawing and freezing (in seconds).

        Args:
            message: the question.
            timeout: for the answer (in seconds).
            fds: descriptors that go with it.
            meanwhile: work to do until the answer is there; the time may then be that of the work.
            alone: all else stands still for it.

        Raises:
            ProcessFailure
        """
        nonce = self.post(message, fds)
        started = time.perf_counter()
        self.thaw()
        try:
            meanwhile()
        finally:
            try:
                reply = self.next_message(nonce, timeout, alone=alone)
            except ProcessFailure:
                self.halt()  # before the cores are another's
                raise
            stood = self.freeze(alone)
        return reply, stood - started  # work after the answer is paid for until it stands

    def post(self, message: dict[str, Any], fds: tuple[int, ...] = ()) -> str:
        """Send a question and return the nonce that its answer must carry."""
        nonce = secrets.token_hex(8)
        self.reply(message | {"nonce": nonce}, fds)
        return nonce

    def reply(self, message: dict[str, Any], fds: tuple[int, ...] = ()) -> None:
        """Send a message that expects no answer, such as the outcome of a build.

        What stands takes no more than fits into its socket: more is sent when its next message is waited for.
        """
        data = wire.encode(message)
        if self._frozen and len(data) > wire.MOST_UNREAD_BYTES:
            self._unsent.append((data, fds))
        else:
            self._send(data, fds)

    def _send(self, data: bytes, fds: tuple[int, ...]) -> None:
        try:
            self.sock.settimeout(STANDING_S if self._frozen else SENDING_S)
            wire.send_encoded(self.sock, data, fds)
        except TimeoutError:
            raise ProcessTimeout(final=False) from None
        except OSError as error:
            raise self._death(str(error)) from None

    def next_message(
        self,
        nonce: str | None,
        timeout: float,
        pauses: Callable[[], tuple[bool, float]] = never_paused,
        alone: bool = False,
    ) -> dict[str, Any]:
        """Its next message: a `build` request, or the answer that carries the nonce.

        Args:
            nonce: None: of the first message.
            timeout: limit (in seconds, see `Patience`).
            pauses, alone: see `Patience`.

        Raises:
            ProcessFailure
        """
        while self._unsent:
            self._send(*self._unsent.popleft())
        try:
            patience = Patience(self.pid, self.sock, timeout, pauses, alone)
            message, _ = wire.receive(self.sock, wait=patience.wait, max_bytes=self.max_message_bytes)
        except OutOfPatience as end:
            raise ProcessDied(str(end)) if str(end) else ProcessTimeout(end.final) from None
        except (wire.WireError, OSError) as error:
            raise self._death(str(error)) from None
        if "build" in message:  # which nobody has asked for, and so is no answer to anything
            return {"build": message["build"]}
        if message.get("nonce") != nonce:
            raise ForgedMessage
        return message

    def freeze(self, alone: bool = False) -> float:
        """Stop every thread of the process and wait until it stands.

        Args:
            alone: all else stands still for it.

        Returns:
            When it had done all its work (as `time.perf_counter` counts). To look at its threads is no time of its own.

        Raises:
            ProcessDied: it has ended, or does something that cannot be stopped.
        """
        self._signal(signal.SIGSTOP)
        self._frozen = True
        try:
            wait_until_it_stands(self.pid, self._leader_stands, alone)
            stood = time.perf_counter()
            if self._num_threads > 1:
                computed = cpu_s(self.pid)
                wait_until_it_stands(self.pid, self._threads.stand, alone)
                if cpu_s(self.pid) - computed > STOPPING_A_THREAD_S * min(self._num_threads, num_cores()):
                    stood = time.perf_counter()
        except StillRuns as error:
            raise ProcessDied(str(error), final=error.final) from None
        if self._on_gpu:  # its driver writes beside this: so may a candidate (`files.restrict_files`)
            with contextlib.suppress(OSError):
                Path(f"/proc/{self.pid}/oom_score_adj").write_text(ENDED_FIRST)
        return stood

    def rest(self) -> None:
        """Freeze it, unless its text is trusted: such a process waits for the next question.

        Raises:
            ProcessDied: see `freeze`.
        """
        if self._trusted:
            self._frozen = True  # a measurement may have stopped it, just after it had answered
        else:
            self.freeze()

    def _leader_stands(self) -> bool:
        """Whether its first thread does; it must be alive."""
        try:
            fields = os.pread(self._stat, 512, 0).rpartition(b") ")[2].split(None, 18)
        except OSError:
            raise self._death() from None
        state, self._num_threads = fields[0], int(fields[17])
        if state in ENDED:
            raise self._death()
        return state in STOPPED

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

    @contextmanager
    def pinned(self, first: int) -> Iterator[None]:
        """Keep its first thread on one core and the others on the other ones.

        Left alone, the scheduler now and then runs two that work together on one core, for as long as a judgement
        takes: the same program is then several times slower, or faster, than itself. Cores that are left over are the
        first thread's as well, if it has helpers, and so are there for further ones that it starts.

        Args:
            first: the first thread's core.
        """
        cores = sorted(os.sched_getaffinity(0))
        others = [core for core in cores if core != first] or cores
        leader, *helpers = sorted(int(name) for name in os.listdir(f"/proc/{self.pid}/task"))
        places = dict(zip(helpers, itertools.cycle(others), strict=False))
        kept = {leader: {first} | (set(others) - {*places.values()} if helpers else set())}
        kept |= {helper: {core} for helper, core in places.items()}
        try:
            for thread, its_cores in kept.items():
                with contextlib.suppress(OSError):
                    os.sched_setaffinity(thread, its_cores)
            yield
        finally:
            for thread in kept:
                with contextlib.suppress(OSError):
                    os.sched_setaffinity(thread, cores)

    def read(self, pointer: int, num_bytes: int) -> torch.Tensor:
        """Copy of `num_bytes` of its memory, as uint8.

        Raises:
            ValueError: there is no such memory.
        """
        buffer = torch.empty(num_bytes, dtype=torch.uint8)
        self.read_into(buffer, pointer)
        return buffer

    def read_into(self, buffer: torch.Tensor, pointer: int) -> None:
        """Copy its memory at an address into one-dimensional bytes.

        Raises:
            ValueError: there is no such memory.
        """
        assert self._frozen, "what runs may change while it is read"
        read_memory(self.pid, pointer, buffer)

    def tensor(self, described: dict[str, Any]) -> torch.Tensor:
        """Copy of the tensor that it described (see `trees.describe`).

        Raises:
            ValueError: there is no such memory.
        """
        dtype = trees.DTYPES[described["dtype"]]
        num_bytes = trees.span_bytes(described["shape"], described["stride"], dtype.itemsize)
        flat = self.read(described["pointer"], num_bytes).view(dtype)
        return flat.as_strided(described["shape"], described["stride"])

    def _death(self, reason: str = "hung up") -> ProcessDied:
        """How it ended; the `reason` why it is given up where it still lives."""
        with contextlib.suppress(ProcessLookupError):
            self._signal(signal.SIGCONT)
        if self._ending is None and _ended(self._pidfd, ENDING_S):
            self._ending = self._forkserver.wait(self.pid, STATUS_S)
        status = self._ending
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
