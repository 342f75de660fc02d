"""The engine on a Ray cluster: `LocalExecutor`'s verdicts, from all nodes (docs/executor-ray.md)."""

from __future__ import annotations

import itertools
import logging
import os
import queue
import secrets
import socket
import threading
from collections.abc import Iterator, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Protocol

from kernelrl.errors import InfrastructureError, UserError
from kernelrl.executor.api import (
    ClusterSettings,
    Executor,
    ExecutorSettings,
    NodeHealth,
    Request,
    answers,
    group_equal,
    in_group,
)
from kernelrl.executor.engines.cache_folder import read_secret
from kernelrl.executor.engines.dispatch import Job
from kernelrl.verdict import Verdict

CONNECT_S = 10.0
"""Time for a cluster to accept a connection (in seconds)."""
CLIENT_TRIES = 3
"""By `ray://`, whose proxy forks a process for each client beside running threads: one in some dies as it starts."""


class RayExecutor(Executor):
    """Judges candidates on the nodes of a Ray cluster.

    Args:
        settings: see `ExecutorSettings` and its `cluster`.

    Raises:
        UserError: no Ray, no cluster at the address, too few nodes in time, a node with another version.
    """

    def __init__(self, settings: ExecutorSettings):
        self.settings = settings
        self._waiting: dict[int, tuple[queue.SimpleQueue[Any], list[int]]] = {}
        self._numbers = itertools.count()
        self._lock = threading.Lock()
        self._closed = False
        self._started_ray = attach(settings.cluster or ClusterSettings())
        try:
            self._backend = _make_backend(self)
        except BaseException:
            detach(self._started_ray)
            raise

    def stream(self, requests: Sequence[Request]) -> Iterator[tuple[int, Verdict]]:
        """(index, verdict) as they come, each index once. Who stops reading cancels what no node has yet."""
        results: queue.SimpleQueue[Any] = queue.SimpleQueue()
        requests = in_group(requests)
        groups = group_equal(requests)
        with self._lock:
            if self._closed:
                raise InfrastructureError("the executor is closed")
            numbers = [next(self._numbers) for _ in groups]
            self._waiting |= {number: (results, indices) for number, indices in zip(numbers, groups, strict=True)}
        self._backend.submit({n: requests[indices[0]] for n, indices in zip(numbers, groups, strict=True)})
        try:
            for _ in groups:
                found = results.get()
                if isinstance(found, Exception):
                    raise found
                yield from answers(requests, *found)
        finally:
            with self._lock:
                left = [number for number in numbers if self._waiting.pop(number, None) is not None]
            if left and not self._closed:
                self._backend.cancel(left)

    def health(self) -> list[NodeHealth]:
        """One entry for each node."""
        return self._backend.health()

    def close(self) -> None:
        """End the actors of this engine; a shared executor goes on. Whoever still reads gets an error."""
        with self._lock:
            if self._closed:
                return
            self._closed = True
            waiting, self._waiting = self._waiting, {}
        for results, _ in waiting.values():
            results.put(InfrastructureError("the executor is closed"))
        self._backend.close()
        detach(self._started_ray)

    def answer(self, number: int, verdict: Verdict) -> None:
        """Called by the backend with each verdict; a second one on a request is dropped."""
        with self._lock:
            entry = self._waiting.pop(number, None)
        if entry is not None:
            results, indices = entry
            results.put((indices, verdict))


class Backend(Protocol):
    """Where requests go: a pool of this process, or a shared executor."""

    def submit(self, requests: dict[int, Request]) -> None: ...

    def cancel(self, numbers: Sequence[int]) -> None: ...

    def health(self) -> list[NodeHealth]: ...

    def close(self) -> None: ...


class _OwnPool:
    """Actors that judge for this engine alone."""

    def __init__(self, engine: RayExecutor):
        from kernelrl.executor.engines.ray_pool import Pool

        self._pool = Pool(engine.settings, _secret(engine.settings), self._answer)
        try:
            self._pool.wait_ready()
        except BaseException:
            self._pool.close()
            raise
        self._engine = engine
        self.health = self._pool.health
        self.close = self._pool.close

    def _answer(self, job: Job, verdict: Verdict) -> None:
        self._engine.answer(job.number, verdict)

    def submit(self, requests: dict[int, Request]) -> None:
        self._pool.submit([Job(number, "", request) for number, request in requests.items()])

    def cancel(self, numbers: Sequence[int]) -> None:
        self._pool.cancel("", numbers)


def _make_backend(engine: RayExecutor) -> Backend:
    """A pool in this process, a shared executor, or where Ray is reached by `ray://`, a pool on the cluster.

    Raises:
        UserError
    """
    import ray

    from kernelrl.executor.engines import ray_service

    cluster = engine.settings.cluster or ClusterSettings()
    if cluster.service is not None:
        service = ray_service.find_service(cluster.service)
        token = ray_service.read_token(cluster)
        return ray_service.Client(service, cluster.service, token, engine.settings, engine.answer)
    if not ray.util.client.ray.is_connected():
        return _OwnPool(engine)
    token = secrets.token_hex(16)
    service = ray_service.start_service(None, engine.settings, _secret(engine.settings), token)
    ray_service.ask(service, "wait_ready", token, timeout=cluster.wait_s + CONNECT_S)
    return ray_service.Client(service, None, token, engine.settings, engine.answer)


def _secret(settings: ExecutorSettings) -> str:
    return read_secret(Path(settings.cache_dir).expanduser())


def attach(cluster: ClusterSettings) -> bool:
    """Connect this process to the cluster, or start Ray here.

    Returns:
        Whether it was not connected before, so that `detach` disconnects it.

    Raises:
        UserError: Ray is not installed, or nothing answers at the address.
    """
    if find_spec("ray") is None:
        raise UserError("executor.engine=ray: Ray is not installed; pip install 'kernelrl[ray]'")
    import ray

    if ray.is_initialized():
        return False
    address = cluster.address or os.environ.get("RAY_ADDRESS") or "local"
    options: dict[str, Any] = {"include_dashboard": False} if address == "local" else {}
    try:
        _knock(address)
        for tries_left in reversed(range(CLIENT_TRIES if address.startswith("ray://") else 1)):
            try:
                ray.init(address, namespace="kernelrl", logging_level=logging.ERROR, **options)
                break
            except ConnectionError:
                if not tries_left:
                    raise
    except (OSError, RuntimeError, ValueError) as error:  # ConnectionError is an OSError
        reason = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        name = "executor.cluster.address" if cluster.address else "RAY_ADDRESS"
        raise UserError(
            f"{name}={address}: no Ray cluster answers there ({reason}); start one with `ray start --head`, or give "
            "the address of one that runs"
        ) from None
    return True


def detach(started_here: bool) -> None:
    """Undo `attach`."""
    if started_here:
        import ray

        ray.shutdown()


def _knock(address: str) -> None:
    """Fail soon where nobody listens; Ray itself would try for a minute."""
    host, _, port = address.removeprefix("ray://").rpartition(":")
    if host and port.isdigit():
        socket.create_connection((host.strip("[]"), int(port)), timeout=CONNECT_S).close()
