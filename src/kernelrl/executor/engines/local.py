"""The local engine: a handle on the executor's service, started at the first candidate and restarted when it dies."""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import platform
import queue
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from kernelrl.errors import InfrastructureError, UserError
from kernelrl.executor import machine, wire
from kernelrl.executor.api import (
    MAX_STARTS,
    Executor,
    ExecutorSettings,
    NodeHealth,
    Request,
    answers,
    group_equal,
    in_group,
    not_known,
    without_kernel,
)
from kernelrl.executor.processes.warming import forkserver_environment
from kernelrl.executor.quota import num_workers
from kernelrl.verdict import Verdict


@dataclass
class _Job:
    request: Request
    results: queue.SimpleQueue[Any]
    indices: list[int]
    """Positions in the caller's list that this one judgement answers."""
    starts: int = 0
    ahead: dict[str, str | None] | None = None
    """What to build for, where that is all; None: judge."""


class LocalExecutor(Executor):
    """Judges candidates on this machine.

    Args:
        settings: see `ExecutorSettings`.
        secret: from which the seeds of hidden inputs are derived; None: this machine's.

    Raises:
        UserError: the device asked for is not there.
    """

    def __init__(self, settings: ExecutorSettings, secret: str | None = None):
        if settings.device == "cuda" and not machine.has_gpu():
            raise UserError("executor.device=cuda: torch sees no CUDA device here; use executor.device=cpu")
        self.settings = settings
        self._secret = secret
        self._lock = threading.Lock()
        self._jobs: dict[int, _Job] = {}
        self._numbers = itertools.count()
        self._connection: socket.socket | None = None
        self._service: subprocess.Popen[bytes] | None = None
        self._reader: threading.Thread | None = None
        self._closed = False
        self._judged = self._retried = 0
        self._last_error = ""

    def stream(self, requests: Sequence[Request]) -> Iterator[tuple[int, Verdict]]:
        """(index, verdict) as they come, each index once. Who stops reading cancels what is not being judged yet.

        Raises:
            InfrastructureError: the service cannot be started at all.
        """
        results: queue.SimpleQueue[Any] = queue.SimpleQueue()
        requests = in_group(requests)
        groups = group_equal(requests)
        numbers = [self._submit(_Job(requests[indices[0]], results, indices)) for indices in groups]
        try:
            for _ in groups:
                indices, verdict = results.get()
                if isinstance(verdict, Exception):
                    raise verdict
                yield from answers(requests, indices, verdict)
        finally:
            self._cancel(numbers)

    def build_ahead(self, request: Request, gpu_arch: str | None) -> Verdict:
        """Make the candidate's native builds and do not judge it: whoever does finds them in the build cache.

        Args:
            request: the candidate.
            gpu_arch: for which CUDA sources are built, e.g. `sm_90`; None: they are not.

        Raises:
            InfrastructureError: the service cannot be started at all.
        """
        results: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._submit(_Job(request, results, [0], ahead={"gpu_arch": gpu_arch}))
        _, verdict = results.get()
        if isinstance(verdict, Exception):
            raise verdict
        built: Verdict = verdict
        return built

    def health(self) -> list[NodeHealth]:
        """This machine. As many requests as there are workers count as running."""
        service, waiting = self._service, len(self._jobs)  # without the lock, which a start holds for a minute
        running = min(waiting, self.settings.workers or num_workers())
        return [
            NodeHealth(
                node=platform.node(),
                alive=not self._closed and (service is None or service.poll() is None),
                queued=waiting - running,
                running=running,
                judged=self._judged,
                retried=self._retried,
                last_error=self._last_error,
            )
        ]

    def close(self) -> None:
        """End the service and everything that it started."""
        with self._lock:
            self._closed = True
            service, self._service = self._service, None
            connection, self._connection = self._connection, None
            jobs, self._jobs = list(self._jobs.values()), {}
        for job in jobs:
            self._lose(job, InfrastructureError("the executor is closed"))
        if connection is not None:
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
        if service is not None:
            try:
                service.wait(10)
            except subprocess.TimeoutExpired:
                service.kill()
                service.wait()
        if self._reader is not None:
            self._reader.join()

    def _submit(self, job: _Job) -> int:
        with self._lock:
            if self._closed:
                raise InfrastructureError("the executor is closed")
            number = next(self._numbers)
            if job.request.candidate is None and job.ahead is None:
                self._judged += 1
                job.results.put((job.indices, without_kernel(job.request, self.settings)))
                return number
            if self._connection is None:
                self._start()
            self._jobs[number] = job
            self._send(number, job)
            return number

    def _cancel(self, numbers: Sequence[int]) -> None:
        with self._lock:
            waiting = [number for number in numbers if self._jobs.pop(number, None) is not None]
            if waiting and self._connection is not None:
                with contextlib.suppress(OSError):
                    wire.send(self._connection, {"cancel": waiting})

    def _send(self, number: int, job: _Job) -> None:
        assert self._connection is not None
        job.starts += 1
        self._retried += job.starts > 1
        with contextlib.suppress(OSError):  # the listener sees the service's end and hands the job on
            request = job.request.model_dump(mode="json")
            wire.send(self._connection, {"number": number, "request": request, "ahead": job.ahead})

    def _start(self) -> None:
        environment = forkserver_environment(self.settings)
        own_end, other_end = socket.socketpair()
        with other_end:
            command = [sys.executable, "-P", "-m", "kernelrl.executor.engines.service", str(other_end.fileno())]
            self._service = subprocess.Popen(
                command, pass_fds=(other_end.fileno(),), stdin=subprocess.PIPE, env=environment, start_new_session=True
            )
        told = {
            "environment": dict(os.environ),
            "settings": self.settings.model_dump(mode="json"),
            "secret": self._secret,
        }
        assert self._service.stdin is not None
        try:
            with self._service.stdin as pipe:
                pipe.write(json.dumps(told).encode())
            reply, _ = wire.receive(own_end)
        except (wire.WireError, OSError):
            own_end.close()
            self._service.kill()
            raise InfrastructureError(
                f"the executor's service did not start (exit status {self._service.wait()}); see `kernelrl doctor`"
            ) from None
        if "failed" in reply:
            own_end.close()
            self._service.wait()
            raise InfrastructureError(reply["failed"])
        self._connection = own_end
        self._reader = threading.Thread(target=self._listen, args=(own_end,), daemon=True, name="executor-results")
        self._reader.start()

    def _listen(self, connection: socket.socket) -> None:
        while True:
            try:
                message, _ = wire.receive(connection)
            except (wire.WireError, OSError):
                break
            number = message["number"]
            try:
                verdict = Verdict.model_validate(message["verdict"])
            except ValueError as error:  # a service of another version, whose files were changed under this process
                with self._lock:
                    unread = self._jobs.pop(number, None)
                if unread is not None:
                    self._lose(unread, InfrastructureError(f"the service's verdict cannot be read: {error!s:.500}"))
                continue
            with self._lock:
                job = self._jobs.get(number)
                if job is None:
                    continue  # cancelled
                if verdict.status == "infrastructure":
                    self._last_error = verdict.feedback
                if verdict.fault == "executor" and job.starts < MAX_STARTS:
                    self._send(number, job)
                    continue
                del self._jobs[number]
                self._judged += 1
            job.results.put((job.indices, verdict))
        self._recover(connection)

    def _recover(self, connection: socket.socket) -> None:
        """The service is gone: start another for the jobs that it took along, or say that they are lost."""
        connection.close()
        with self._lock:
            if self._closed or self._connection is not connection:
                return
            self._connection = None
            if self._service is not None:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(self._service.pid, signal.SIGKILL)
                self._service.wait()
            jobs = list(self._jobs.items())
            if not jobs:
                return
            try:
                self._start()
            except InfrastructureError as error:
                for _, job in jobs:
                    self._lose(job, error)
                self._jobs.clear()
                return
            for number, job in jobs:
                if job.starts < MAX_STARTS:
                    self._send(number, job)
                else:
                    del self._jobs[number]
                    self._lose(job, None)

    def _lose(self, job: _Job, error: Exception | None) -> None:
        died = f"the executor's service died {job.starts} times under this request"
        job.results.put((job.indices, error or not_known(job.request, self.settings.device, "executor", died)))
