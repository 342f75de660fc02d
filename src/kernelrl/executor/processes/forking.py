"""The service's end of the forkserver: fork children, and hear of their ends."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable
from typing import Any

from kernelrl.errors import InfrastructureError
from kernelrl.executor import wire
from kernelrl.executor.processes.warming import Warming

STARTING_S = 600.0
"""Time for the forkserver to start, and for it to fork (in seconds)."""


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
            reason = f"exit status {warming.end()}"  # -9: it took too long, or somebody killed it
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
