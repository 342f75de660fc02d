"""Processes that begin with kernelrl and the libraries of training imported: forked from a server that imported them.

Importing TRL takes five seconds of a core, and the tests start dozens of processes that are killed, or run a command.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import os
import select
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from kernelrl.executor import wire

IMPORTED = ("kernelrl.cli", "kernelrl.data.curate", "kernelrl.sft", "kernelrl.grpo", "kernelrl.eval", "curated")


class Server:
    """Starts processes. Close it when the last of them has ended.

    Args:
        python: the interpreter, whose kernelrl is imported.
    """

    def __init__(self, python: Path | str = sys.executable) -> None:
        self._socket, theirs = socket.socketpair()
        with theirs:
            command = [str(python), __file__, str(theirs.fileno())]
            self._server = subprocess.Popen(command, pass_fds=(theirs.fileno(),), start_new_session=True)
        self.codes: dict[int, int] = {}
        self._started: list[int] = []

    def start(
        self,
        function: str,
        *arguments: Any,
        folder: Path,
        output: Path,
        error: Path | None = None,
        environment: Mapping[str, str] | None = None,
    ) -> Process:
        """Call a function in a new process.

        Args:
            function: as `module:name`.
            arguments: what JSON can say.
            folder: the working directory.
            output: file to which standard output is appended.
            error: the same of standard error; None: the same file.
            environment: variables; None: those of this process.
        """
        files = [os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND) for path in (output, error or output)]
        request = {
            "function": function,
            "arguments": arguments,
            "folder": str(folder),
            "environment": dict(environment or os.environ),
        }
        wire.send(self._socket, request, tuple(files))
        for file in files:
            os.close(file)
        while not self._started:
            self.listen(None)
        return Process(self, self._started.pop())

    def run(
        self, *words: object, folder: Path, timeout: float = 3600, environment: Mapping[str, str] | None = None
    ) -> subprocess.CompletedProcess[str]:
        """Run a command of `kernelrl`.

        Raises:
            TimeoutExpired: it takes longer than `timeout` (in seconds); it is killed.
        """
        command = list(map(str, words))
        with tempfile.TemporaryDirectory() as name:
            output, error = Path(name, "output"), Path(name, "error")
            process = self.start(
                "kernelrl.cli:main", command, folder=folder, output=output, error=error, environment=environment
            )
            try:
                code = process.wait(timeout)
            except subprocess.TimeoutExpired:
                process.kill()
                raise
            return subprocess.CompletedProcess(command, code, output.read_text(), error.read_text())

    def kill_at(self, moment: Callable[[], bool], function: str, *arguments: Any, folder: Path, output: Path) -> None:
        """Start a process, and kill it with all that it started as soon as the moment has come."""
        process = self.start(function, *arguments, folder=folder, output=output)
        while not moment() and process.poll() is None:
            time.sleep(0.005)
        assert process.kill() == -signal.SIGKILL, f"it had ended before: {output.read_text()[-5000:]}"

    def close(self) -> None:
        self._socket.close()
        self._server.wait()

    def listen(self, until: float | None) -> bool:
        """Take one message, before `until` on the clock `time.monotonic`. Returns whether there was one."""
        left = None if until is None else max(0.0, until - time.monotonic())
        if not select.select([self._socket], [], [], left)[0]:
            return False
        message, _ = wire.receive(self._socket)
        if "exited" in message:
            self.codes[message["exited"]] = os.waitstatus_to_exitcode(message["status"])
        else:
            self._started.append(message["started"])
        return True


class Process:
    """A process that was started, with methods as `subprocess.Popen` has them. It leads a group of its own."""

    def __init__(self, server: Server, pid: int):
        self._server = server
        self.pid = pid

    def poll(self) -> int | None:
        """The exit code, as far as it has ended."""
        while self._server.listen(time.monotonic()):
            pass
        return self._server.codes.get(self.pid)

    def wait(self, timeout: float | None = None) -> int:
        until = None if timeout is None else time.monotonic() + timeout
        while self.pid not in self._server.codes:
            if not self._server.listen(until):
                raise subprocess.TimeoutExpired(str(self.pid), timeout or 0.0)
        return self._server.codes[self.pid]

    def kill(self) -> int:
        """Kill it with all that it started. Returns how it ended."""
        for kill in (os.kill, os.killpg):  # it may not lead its group yet
            with contextlib.suppress(ProcessLookupError):
                kill(self.pid, signal.SIGKILL)
        return self.wait()


def serve(control: socket.socket) -> None:
    """Fork what is asked for, until the other end hangs up."""
    gc.disable()  # as the command line does while it imports
    for module in IMPORTED:
        importlib.import_module(module)
    gc.collect()
    gc.freeze()
    gc.enable()
    children: dict[int, int] = {}  # pid by pidfd
    while True:
        readable, _, _ = select.select([control, *children], [], [])
        for ended in children.keys() & set(readable):
            pid = children.pop(ended)
            os.close(ended)
            wire.send(control, {"exited": pid, "status": os.waitpid(pid, 0)[1]})
        if control in readable:
            try:
                request, files = wire.receive(control, max_fds=2)
            except wire.WireError:
                return
            pid = os.fork()
            if pid == 0:
                control.close()
                _become(files, **request)
            for file in files:
                os.close(file)
            children[os.pidfd_open(pid)] = pid
            wire.send(control, {"started": pid})


def _become(
    files: Sequence[int], function: str, arguments: Sequence[Any], folder: str, environment: dict[str, str]
) -> None:
    code = 1
    try:
        os.setsid()
        os.chdir(folder)
        os.environ.clear()
        os.environ.update(environment)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        for standard, file in zip((1, 2), files, strict=True):
            os.dup2(file, standard)
            os.close(file)
        module, _, name = function.partition(":")
        getattr(importlib.import_module(module), name)(*arguments)
        code = 0
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else 1 if end.code else 0
    except BaseException:
        sys.excepthook(*sys.exc_info())
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


if __name__ == "__main__":
    serve(socket.socket(fileno=int(sys.argv[1])))
