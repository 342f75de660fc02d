"""The staff of a pool: an actor on each node of a Ray cluster, from its first sign of life to the last.

Actors are pinned to their nodes and never restarted by Ray, so that the pool always knows which work is where.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import Future
from functools import partial
from typing import Any

import ray
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from kernelrl.errors import UserError
from kernelrl.executor.api import ClusterSettings, ExecutorSettings, NodeHealth
from kernelrl.executor.engines.ray_actors import Actor, Place, kill, reason
from kernelrl.executor.engines.ray_node import Node, identity
from kernelrl.executor.engines.ray_vacancies import Vacancies

BEAT_S = 5.0
"""Time between two questions whether an actor lives (in seconds)."""
LONGEST_DELAY_S = 60.0
"""Before an actor that keeps failing is started once more (in seconds)."""
CONTROL_CALLS = 4
"""Calls that an actor answers beside its requests."""
MAX_GONE = 32
"""Nodes that have left and are still in `health`."""


class Staff:
    """Starts actors where they are missing, and gives up those that are of no use. Used in the pool's thread alone.

    Args:
        settings: of the engine.
        cluster: which nodes judge or build, and with how many actors.
        secret: from which the seeds of hidden inputs are derived, for all nodes.
        limit_s: within which an actor that has work must have a verdict (in seconds).
        call: calls an actor's method; gives the outcome to a function, as an event.
        has_work: says whether an actor has work.
        joined: told of an actor that is ready for work.
        left: told of an actor that is of no use any more, and why: its work goes elsewhere.
        refused: told of a node with another version.
        news: told when more is known of an actor.
    """

    def __init__(
        self,
        settings: ExecutorSettings,
        cluster: ClusterSettings,
        secret: str,
        limit_s: float,
        call: Callable[..., None],
        has_work: Callable[[Actor], bool],
        joined: Callable[[Actor], None],
        left: Callable[[Actor, str], None],
        refused: Callable[[UserError], None],
        news: Callable[[], None],
    ):
        self._settings = settings
        self._cluster = cluster
        self._secret = secret
        self._limit_s = limit_s
        self._call = call
        self._has_work = has_work
        self._joined = joined
        self._left = left
        self._refused = refused
        self._news = news
        self._vacancies = Vacancies(settings, cluster, call)
        self.actors: dict[str, Actor] = {}
        self.places: dict[str, Place] = {}
        self.nodes: dict[str, dict[str, float]] = {}
        """Resources of each node that is there, by Ray's id."""

    def num_ready(self) -> int:
        """Nodes that are ready to judge."""
        return len({actor.node for actor in list(self.actors.values()) if actor.ready and actor.judges})

    def num_judges(self) -> int:
        """Actors that judge, or will."""
        return sum(actor.judges for actor in self.actors.values())

    def look(self) -> None:
        """See who came and who left, and whether those who are there still live."""
        nodes = [node for node in ray.nodes() if node["Alive"]]
        self.nodes = {node["NodeID"]: node["Resources"] for node in nodes}
        names = {node["NodeID"]: f"{node['NodeManagerHostname']}:{node['NodeID'][:8]}" for node in nodes}
        for actor in list(self.actors.values()):
            if actor.node not in self.nodes:
                self._lose(actor, "the node has left the cluster")
        for id in list(self.places):
            self.places[id].alive = id in self.nodes
        for id in [id for id, place in self.places.items() if not place.alive][:-MAX_GONE]:
            del self.places[id]
        for id in self.nodes:
            if self._may_judge(id) or self._may_build(id):
                self._start_missing_actors(id, self.places.setdefault(id, Place(names[id])))
        self._vacancies.show(self.nodes, self.num_judges())
        for actor in list(self.actors.values()):
            if actor.ready:
                self._check(actor)

    def _may_build(self, node: str) -> bool:
        resources = self.nodes[node]
        if not resources.get("CPU"):
            return False
        if self._cluster.builders is not None:
            return bool(resources.get(self._cluster.builders))
        return self._settings.device == "cuda" and not resources.get("GPU")

    def _may_judge(self, node: str) -> bool:
        resources = self.nodes[node]
        needed = "CPU" if self._settings.device == "cpu" else "GPU"
        return bool(
            resources.get("CPU")
            and resources.get(needed)
            and (self._cluster.judges is None or resources.get(self._cluster.judges))
            and not self._may_build(node)
        )

    def _start_missing_actors(self, node: str, place: Place) -> None:
        """Start the actors that a node should have and has not."""
        here = {actor.name for actor in self.actors.values() if actor.node == node}
        resources, judges = self.nodes[node], self._may_judge(node)
        on_gpu = judges and self._settings.device == "cuda"
        number = int(resources["GPU"] // self._cluster.gpus_per_actor) if on_gpu else 1
        names = [place.name if number == 1 else f"{place.name}#{index}" for index in range(number)]
        for name in names:
            if name in here or place.refused or time.monotonic() < place.start_at:
                continue
            if judges and self._cluster.max_actors is not None and self.num_judges() >= self._cluster.max_actors:
                continue
            workers = self._settings.workers or max(1, int(resources["CPU"] / number))
            handle = (
                ray.remote(Node)
                .options(
                    num_cpus=self._cluster.cpus_per_actor or resources["CPU"] / number,
                    num_gpus=self._cluster.gpus_per_actor if on_gpu else 0,
                    max_restarts=0,
                    max_concurrency=capacity(self._cluster, workers) + CONTROL_CALLS,
                    scheduling_strategy=NodeAffinitySchedulingStrategy(node, soft=False),
                )
                .remote()
            )
            actor = self.actors[name] = Actor(name, place, node, judges, handle, workers)
            self._call(handle.hello, partial(self._on_hello, actor))

    def is_lost(self, actor: Actor, outcome: Future[Any], fatal: type[Exception] = Exception) -> bool:
        """Whether nothing is to be done about an answer: the actor was given up before, or is now for this error."""
        if self.actors.get(actor.name) is not actor:
            return True
        error = outcome.exception()
        if isinstance(error, fatal):
            self._lose(actor, reason(error))
            return True
        return False

    def _on_hello(self, actor: Actor, outcome: Future[Any]) -> None:
        if self.is_lost(actor, outcome):
            return
        expected, found = identity(), outcome.result()
        if differing := [name for name in expected if found.get(name) != expected[name]]:
            what = ", ".join(f"{name} {found.get(name)} there, {expected[name]} here" for name in differing)
            actor.place.refused = True
            self._lose(
                actor,
                f"node {actor.place.name} has another version of kernelrl ({what}); install the same one on all nodes, "
                "or set executor.cluster.judges to a resource that only the right nodes offer",
            )
            self._refused(UserError(actor.place.last_error))
            return
        actor.known = True
        self._news()
        own = {"engine": "local", "cluster": None, "workers": actor.workers}
        settings = self._settings.model_copy(update=own).model_dump(mode="json")
        self._call(actor.handle.set_up, partial(self._on_set_up, actor), settings, self._secret, actor.judges)

    def _on_set_up(self, actor: Actor, outcome: Future[Any]) -> None:
        if self.is_lost(actor, outcome):
            return
        actor.cache, actor.gpu_arch = outcome.result()["cache"], outcome.result()["gpu_arch"]
        actor.ready, actor.beat_due = True, time.monotonic() + BEAT_S
        self._joined(actor)

    def _check(self, actor: Actor) -> None:
        """Give an actor up that has gone silent or makes no progress."""
        now = time.monotonic()
        if actor.asked is not None and now - actor.asked > self._cluster.silent_s:
            self._lose(actor, f"no sign of life for {self._cluster.silent_s:g} s")
        elif self._has_work(actor) and now - actor.progress > self._limit_s:
            self._lose(actor, f"no verdict for {self._limit_s:.0f} s")
        elif actor.asked is None and now >= actor.beat_due:
            actor.asked, actor.beat_due = now, now + BEAT_S
            self._call(actor.handle.beat, partial(self._on_beat, actor))

    def _on_beat(self, actor: Actor, outcome: Future[Any]) -> None:
        actor.asked = None
        if self.is_lost(actor, outcome):
            return
        health: NodeHealth = outcome.result()
        actor.service_retries = health.retried
        actor.place.last_error = health.last_error or actor.place.last_error

    def _lose(self, actor: Actor, why: str) -> None:
        """An actor is of no use any more: its work goes elsewhere."""
        del self.actors[actor.name]
        kill(actor.handle)
        place = actor.place
        place.last_error = why
        place.retried += actor.service_retries
        place.start_at = time.monotonic() + (min(2.0**place.failures, LONGEST_DELAY_S) if place.failures else 0.0)
        place.failures += 1
        self._left(actor, why)

    def close(self) -> None:
        """End the actors."""
        for actor in self.actors.values():
            kill(actor.handle)
        self._vacancies.close()


def capacity(cluster: ClusterSettings, workers: int) -> int:
    """Requests that an actor with so many workers has at a time."""
    return cluster.in_flight or 2 * workers
