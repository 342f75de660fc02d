"""Several copies of one model on one machine, each in a process of its own: data parallel sampling.

The conversations of a call are dealt out to the copies in turn. Dense models need no more than that: the copies know
nothing of each other.
"""

from __future__ import annotations

import multiprocessing
import os
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from multiprocessing.connection import Connection, wait
from typing import Any

from kernelrl.errors import InfrastructureError, UserError
from kernelrl.policies.backends.base import Backend
from kernelrl.policies.prompts import Message
from kernelrl.policies.protocol import Answer

JOIN_S = 30.0
"""Time that a copy gets to end by itself (in seconds)."""
Open = Callable[[], Backend]


class Copies(Backend):
    """Opens the same policy in several processes.

    Args:
        open_one: opens the policy; it can be pickled.
        environments: of each copy, the variables in which it differs from this process, e.g. `CUDA_VISIBLE_DEVICES`.

    Raises:
        UserError: what opening a copy raised.
    """

    def __init__(self, open_one: Open, environments: Sequence[Mapping[str, str]]):
        spawn = multiprocessing.get_context("spawn")
        self._lock = threading.Lock()
        self._call = 0
        self._connections: list[Connection] = []
        self._processes: list[Any] = []
        try:
            for environment in environments:
                here, there = spawn.Pipe()
                process = spawn.Process(target=_serve, args=(there, open_one))
                with _environment(environment):  # what it imports may read it
                    process.start()
                there.close()
                self._connections.append(here)
                self._processes.append(process)
            for connection in self._connections:
                failure = self._receive(connection)
                if failure is not None:
                    raise UserError(failure)
        except BaseException:
            self.close()
            raise

    def stream(self, conversations: Sequence[list[Message]], seeds: Sequence[int]) -> Iterator[tuple[int, Answer]]:
        with self._lock:
            self._call += 1
            num_copies = len(self._connections)
            for number, connection in enumerate(self._connections):
                mine = slice(number, None, num_copies)
                connection.send((self._call, list(conversations[mine]), list(seeds[mine])))
            missing = len(conversations)
            while missing:
                for ready in wait(self._connections):
                    number = self._connections.index(ready)  # type: ignore[arg-type]
                    call, index, answer = self._receive(self._connections[number])
                    if call == self._call:  # an earlier call may have been given up
                        missing -= 1
                        yield index * num_copies + number, answer

    def close(self) -> None:
        for connection in self._connections:
            connection.close()  # each copy ends when nobody can ask it any more
        for process in self._processes:
            process.join(JOIN_S)
            if process.is_alive():
                process.kill()
        self._connections, self._processes = [], []

    def _receive(self, connection: Connection) -> Any:
        try:
            return connection.recv()
        except (EOFError, ConnectionError):
            process = self._processes[self._connections.index(connection)]
            process.join(JOIN_S)
            raise InfrastructureError(
                f"a copy of the policy has ended (exit code {process.exitcode}); what it printed says why"
            ) from None


def _serve(connection: Connection, open_one: Open) -> None:
    """One copy, until the other end of the pipe is closed."""
    try:
        policy = open_one()
    except UserError as error:
        connection.send(str(error))
        return
    connection.send(None)
    with suppress(EOFError, ConnectionError):
        while True:
            call, conversations, seeds = connection.recv()
            for index, answer in policy.stream(conversations, seeds):
                connection.send((call, index, answer))
    policy.close()


@contextmanager
def _environment(changes: Mapping[str, str]) -> Iterator[None]:
    before = {name: os.environ.get(name) for name in changes}
    os.environ.update(changes)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value
