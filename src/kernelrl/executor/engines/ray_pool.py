"""The nodes of a Ray cluster as one executor: an actor on each, and one thread that hands out work and takes answers.

All bookkeeping happens in that thread: what Ray answers and what callers want reaches it as events.
"""

from __future__ import annotations

import contextlib
import queue
import sys
import threading
import time
from collections.abc import Callable, Iterable
from concurrent.futures import Future
from dataclasses import replace
from functools import partial
from typing import Any

from ray.exceptions import RayActorError

from kernelrl.errors import InfrastructureError, KernelRLError, UserError
from kernelrl.executor.api import (
    BOUNDARY_RUNS,
    MAX_BUILDS,
    ClusterSettings,
    ExecutorSettings,
    NodeHealth,
    Request,
    not_known,
)
from kernelrl.executor.engines.dispatch import Dispatcher, Job
from kernelrl.executor.engines.ray_actors import Actor, Place, reason
from kernelrl.executor.engines.ray_meters import Meters
from kernelrl.executor.engines.ray_node import Shipment
from kernelrl.executor.engines.ray_staff import Staff, capacity
from kernelrl.executor.machine import COMPILERS
from kernelrl.verdict import Verdict

IDENTIFY_S = 10.0
"""For nodes to say which version they have, when enough others are ready (in seconds)."""
LOOK_S = 1.0
"""Time between two looks at the cluster (in seconds)."""
MAX_SHIPMENTS = 512
"""Candidates whose builds are kept in Ray's object store."""


class Pool:
    """Judges on all nodes of the cluster that this process is connected to. Thread-safe.

    Args:
        settings: of the engine.
        secret: from which the seeds of hidden inputs are derived, for all nodes.
        answer: called with each job and its verdict, once, from the pool's thread; it must not wait.
        quota: requests of one client that may be with the nodes at a time; None: any number.
    """

    def __init__(
        self,
        settings: ExecutorSettings,
        secret: str,
        answer: Callable[[Job, Verdict], None],
        quota: int | None = None,
    ):
        self._settings = settings
        self._cluster = settings.cluster or ClusterSettings()
        self._answer = answer
        self._events: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()
        self._judging = Dispatcher(quota)
        self._building = Dispatcher()
        self._shipments: dict[str, tuple[str, Shipment]] = {}
        self._meters = Meters()
        self._deserted_since: float | None = None
        self._started = self._closed = False
        self._failure: InfrastructureError | None = None
        """Ray itself is gone."""
        self._refusal: UserError | None = None
        """There is a node with another version."""
        self._changed = threading.Condition()
        self._staff = Staff(
            settings,
            self._cluster,
            secret,
            limit_s=longest_judgement_s(settings),
            call=self._call,
            has_work=self._has_work,
            joined=self._on_joined,
            left=self._on_left,
            refused=self._on_refused,
            news=self._notify,
        )
        self._thread = threading.Thread(target=self._run, daemon=True, name="ray-pool")
        self._thread.start()

    def wait_ready(self) -> None:
        """Wait until `min_nodes` nodes are ready to judge.

        Raises:
            UserError: a node has another version; there are too few nodes, or none with a GPU, after `wait_s`.
        """
        wanted, wait_s = self._cluster.min_nodes, self._cluster.wait_s
        with self._changed:
            ready = self._changed.wait_for(lambda: self._error or self._staff.num_ready() >= wanted, timeout=wait_s)
            if ready:
                self._changed.wait_for(lambda: self._error or self._all_known(), timeout=IDENTIFY_S)
            self._started = True
        if self._error is not None:
            raise self._error
        if not ready:
            raise UserError(self._too_few())

    def submit(self, jobs: Iterable[Job]) -> None:
        """Have jobs judged."""
        self._events.put(partial(self._on_submit, list(jobs)))

    def cancel(self, client: str, numbers: Iterable[int] | None = None) -> None:
        """Forget a client's jobs, all of them where `numbers` is None; no answer comes for them."""
        self._events.put(partial(self._on_cancel, client, None if numbers is None else list(numbers)))

    def health(self) -> list[NodeHealth]:
        """One entry for each node of the cluster that judges or did."""
        staff: dict[str, list[Actor]] = {}
        for actor in list(self._staff.actors.values()):
            staff.setdefault(actor.place.name, []).append(actor)
        return [self._health_of(place, staff.get(place.name, [])) for place in list(self._staff.places.values())]

    @property
    def num_queued(self) -> int:
        """Jobs that no node has yet."""
        return self._judging.num_queued + self._building.num_queued + self._building.num_in_flight

    def close(self) -> None:
        """End the actors."""
        self._closed = True
        self._events.put(lambda: None)
        self._thread.join()
        self._staff.close()

    # what follows runs in the pool's thread

    def _run(self) -> None:
        look_at = 0.0
        try:
            while not self._closed:
                with contextlib.suppress(queue.Empty):
                    self._events.get(timeout=max(look_at - time.monotonic(), 0.001))()
                    while not self._events.empty():
                        self._events.get()()
                if time.monotonic() >= look_at:
                    self._look()
                    look_at = time.monotonic() + LOOK_S
                self._hand_out()
        except Exception as error:  # Ray itself has failed: nobody shall wait for ever
            self._failure = InfrastructureError(f"Ray failed: {reason(error)}")
            self._notify()
            while not self._closed:
                self._fail_all(str(self._failure))
                with contextlib.suppress(queue.Empty):
                    self._events.get(timeout=LOOK_S)()

    def _on_submit(self, jobs: list[Job]) -> None:
        for job in jobs:
            is_built = self._building.workers and job.request.candidate and job.request.dialect in COMPILERS
            (self._building if is_built else self._judging).add([job])

    def _on_cancel(self, client: str, numbers: list[int] | None) -> None:
        for dispatcher in (self._building, self._judging):
            dispatcher.cancel(client, numbers)

    def _call(self, method: Any, then: Callable[[Future[Any]], None], *arguments: object) -> None:
        """Call an actor's method; `then` gets the outcome, as an event."""
        future = method.remote(*arguments).future()
        future.add_done_callback(lambda done: self._events.put(partial(then, done)))

    # who works

    def _look(self) -> None:
        """See who came and who left, and whether those who are there still live."""
        self._staff.look()
        self._check_deserted()
        self._meters.show(self.num_queued, self._judging.num_in_flight, self._staff.num_ready())

    def _on_joined(self, actor: Actor) -> None:
        self._queue_of(actor).join(actor.name, capacity(self._cluster, actor.workers))
        self._notify()

    def _has_work(self, actor: Actor) -> bool:
        return bool(self._queue_of(actor).workers[actor.name].jobs)

    def _on_refused(self, error: UserError) -> None:
        if self._started:
            print(f"kernelrl: {error}", file=sys.stderr)
        else:
            self._refusal = error
        self._notify()

    def _queue_of(self, actor: Actor) -> Dispatcher:
        """Where the actor gets its work."""
        return self._judging if actor.judges else self._building

    def _notify(self) -> None:
        with self._changed:
            self._changed.notify_all()

    def _on_left(self, actor: Actor, why: str) -> None:
        if not actor.judges:
            _, lost = self._building.leave(actor.name)
            self._judging.add(_afresh(job) for job in lost)
            return
        again, lost = self._judging.leave(actor.name)
        actor.place.retried += len(again)
        self._meters.retried(len(again))
        for job in lost:
            self._end(job, self._not_known(job.request, f"{job.starts} nodes were lost under this request: {why}"))

    def _check_deserted(self) -> None:
        """Nobody waits for ever for a cluster without nodes; without builders, judges build."""
        if not self._building.workers:
            self._judging.add(_afresh(job) for job in self._building.take_queued())
        if self._staff.num_ready() or not self._judging.num_queued:
            self._deserted_since = None
            return
        self._deserted_since = self._deserted_since or time.monotonic()
        if time.monotonic() - self._deserted_since > self._cluster.wait_s:
            self._fail_all(f"no node of the Ray cluster could judge for {self._cluster.wait_s:g} s")

    def _fail_all(self, why: str) -> None:
        for job in [*self._building.take_queued(), *self._judging.take_queued()]:
            self._end(job, self._not_known(job.request, why))
        if self._failure is not None:
            for dispatcher in (self._judging, self._building):
                for name in list(dispatcher.workers):
                    again, lost = dispatcher.leave(name)
                    for job in [*dispatcher.take_queued(), *lost]:
                        self._end(job, self._not_known(job.request, why))

    # the work

    def _hand_out(self) -> None:
        while (pair := self._building.next()) is not None:
            actor, job = self._staff.actors[pair[0].name], pair[1]
            arch = next((judge.gpu_arch for judge in self._staff.actors.values() if judge.gpu_arch), None)
            self._send(actor, job, actor.handle.build_ahead, self._on_built, arch, self._ships())
        while (pair := self._judging.next()) is not None:
            actor, job = self._staff.actors[pair[0].name], pair[1]
            shipment = self._shipment(job.request, actor)
            self._send(actor, job, actor.handle.judge, self._on_verdict, shipment, self._ships())

    def _send(self, actor: Actor, job: Job, method: Any, then: Any, *arguments: object) -> None:
        if len(self._queue_of(actor).workers[actor.name].jobs) == 1:
            actor.progress = time.monotonic()
        self._call(method, partial(then, actor, job.number, time.monotonic()), job.request, *arguments)

    def _on_verdict(self, actor: Actor, number: int, sent: float, outcome: Future[Any]) -> None:
        if self._staff.is_lost(actor, outcome, fatal=RayActorError):
            return
        verdict, why = self._outcome(actor, outcome)
        job = self._judging.finish(actor.name, number)
        if job is None:
            return
        if verdict is None or verdict.fault == "executor":
            actor.place.last_error = why
            if self._judging.retry(job, actor.name):
                actor.place.retried += 1
                self._meters.retried(1)
                return
        actor.place.judged += 1
        actor.place.failures = 0
        self._meters.judged(time.monotonic() - sent)
        self._end(job, verdict or self._not_known(job.request, why))

    def _on_built(self, actor: Actor, number: int, _: float, outcome: Future[Any]) -> None:
        if self._staff.is_lost(actor, outcome, fatal=RayActorError):
            return
        self._outcome(actor, outcome)
        job = self._building.finish(actor.name, number)
        if job is not None:
            self._judging.add([_afresh(job)])

    def _outcome(self, actor: Actor, outcome: Future[Any]) -> tuple[Verdict | None, str]:
        """What an actor says about a request; None and the reason: nothing."""
        actor.progress = time.monotonic()
        if error := outcome.exception():
            return None, f"{actor.place.name}: {reason(error)}"
        verdict, shipment = outcome.result()
        if shipment is not None:
            self._shipments.pop(verdict.candidate, None)
            self._shipments[verdict.candidate] = actor.cache, shipment
            while len(self._shipments) > MAX_SHIPMENTS:
                del self._shipments[next(iter(self._shipments))]
        return verdict, verdict.feedback

    def _end(self, job: Job, verdict: Verdict) -> None:
        self._meters.ended(verdict.status)
        self._answer(job, verdict)

    def _ships(self) -> bool:
        """Whether some nodes do not share their caches."""
        return len({actor.cache for actor in self._staff.actors.values() if actor.ready}) > 1

    def _shipment(self, request: Request, actor: Actor) -> Shipment | None:
        """Builds of this candidate that the actor's node may lack."""
        cache, shipment = self._shipments.get(request.candidate.digest if request.candidate else "", ("", None))
        return None if cache == actor.cache else shipment

    def _not_known(self, request: Request, why: str) -> Verdict:
        return not_known(request, self._settings.device, "executor", why)

    # what is said about it

    @property
    def _error(self) -> KernelRLError | None:
        """Why no work should start."""
        return self._failure or self._refusal

    def _all_known(self) -> bool:
        return all(actor.known for actor in list(self._staff.actors.values()))

    def _health_of(self, place: Place, actors: list[Actor]) -> NodeHealth:
        with_them = running = 0
        for actor in actors:
            worker = self._queue_of(actor).workers.get(actor.name)
            jobs = len(worker.jobs) if worker else 0
            with_them += jobs
            running += min(jobs, actor.workers)
        return NodeHealth(
            node=place.name,
            alive=place.alive and any(actor.ready for actor in actors),
            queued=with_them - running,
            running=running,
            judged=place.judged,
            retried=place.retried + sum(actor.service_retries for actor in actors),
            last_error=place.last_error,
        )

    def _too_few(self) -> str:
        cluster, nodes = self._cluster, self._staff.nodes
        if self._settings.device == "cuda" and not any(resources.get("GPU") for resources in nodes.values()):
            return (
                f"executor.device=cuda: none of the {len(nodes)} nodes of the Ray cluster has a GPU; "
                "start a node with one, or use executor.device=cpu"
            )
        waiting = [actor for actor in self._staff.actors.values() if actor.judges and not actor.ready]
        why = [f"{place.name}: {place.last_error}" for place in self._staff.places.values() if place.last_error]
        why += [f"{actor.name}: not started yet, or its CPUs are in use by others" for actor in waiting]
        if cluster.judges is not None and not any(resources.get(cluster.judges) for resources in nodes.values()):
            why.append(f"no node offers the resource {cluster.judges!r}")
        because = f" ({'; '.join(why)})" if why else ""
        return (
            f"executor.cluster.min_nodes={cluster.min_nodes}: {self._staff.num_ready()} of {len(nodes)} nodes of the "
            f"Ray cluster are ready to judge after wait_s={cluster.wait_s:g}{because}; start more, or lower min_nodes"
        )


def longest_judgement_s(settings: ExecutorSettings) -> float:
    """Time within which the slowest candidate that obeys all limits is judged (in seconds)."""
    checked = settings.trials + len(settings.distributions) + BOUNDARY_RUNS + settings.shapes
    timed = 4 * settings.max_pairs if settings.timing else 0
    builds = MAX_BUILDS * (2 * settings.build_timeout_s + settings.load_timeout_s)
    compiled = settings.build_timeout_s * checked if settings.device == "cuda" else 0.0  # by Triton, in a call
    return builds + 2 * (settings.run_timeout_s * (checked + timed) + compiled) + settings.timing_budget_s


def _afresh(job: Job) -> Job:
    """The job as if it had not been handed out."""
    return replace(job, starts=0, refused=set())
