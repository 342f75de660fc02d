"""Showing an autoscaler that nodes are missing: actors that ask for a whole node and do nothing with it."""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import Future
from functools import partial
from typing import Any

import ray

from kernelrl.executor.api import ClusterSettings, ExecutorSettings
from kernelrl.executor.engines.ray_actors import kill

MAKE_ROOM_S = 10.0
"""Time for an actor that judges to take the place of one that waited for it (in seconds)."""


class Wanted:
    """Asks for a whole node and does nothing with it: an autoscaler sees what is missing."""

    def ready(self) -> None: ...


class Vacancies:
    """The actors that wait for a node. Used in the pool's thread alone.

    Args:
        settings: of the engine.
        cluster: how many actors are wanted, and what each needs.
        call: calls an actor's method; gives the outcome to a function, as an event.
    """

    def __init__(self, settings: ExecutorSettings, cluster: ClusterSettings, call: Callable[..., None]):
        self._settings = settings
        self._cluster = cluster
        self._call = call
        self._wanted: list[Any] = []
        self._want_at = 0.0

    def show(self, nodes: dict[str, dict[str, float]], num_judges: int) -> None:
        """Keep as many actors waiting for a whole node as are missing from `max_actors`.

        Args:
            nodes: resources of each node that is there.
            num_judges: actors that there are.
        """
        most = self._cluster.max_actors
        missing = 0 if most is None else most - num_judges
        while len(self._wanted) > max(missing, 0):
            kill(self._wanted.pop())
        if time.monotonic() < self._want_at:
            return
        cpus = max((resources.get("CPU", 0.0) for resources in nodes.values()), default=0.0)
        gpus = self._cluster.gpus_per_actor if self._settings.device == "cuda" else 0
        while len(self._wanted) < missing:
            actor = (
                ray.remote(Wanted).options(num_cpus=cpus or self._cluster.cpus_per_actor or 1, num_gpus=gpus).remote()
            )
            self._wanted.append(actor)
            self._call(actor.ready, partial(self._on_room, actor))

    def _on_room(self, actor: Any, _: Future[Any]) -> None:
        """There is a node for one that was missing: make room for an actor that judges."""
        if actor in self._wanted:
            self._wanted.remove(actor)
            self._want_at = time.monotonic() + MAKE_ROOM_S
            kill(actor)

    def close(self) -> None:
        """End them."""
        for actor in self._wanted:
            kill(actor)
