"""The nodes of a Ray cluster as one executor: an actor on each, and one thread that hands out work and takes answers.

All bookkeeping happens in that thread: what Ray answers and what callers want reaches it as events. Actors are pinned
to their nodes and never restarted by Ray, so that the pool always knows which work is where.
"""

from __future__ import annotations

import contextlib
import queue
import sys
import threading
import time
from collections.abc import Callable, Iterable
from concurrent.futures import Future
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import ray
from ray.exceptions import RayActorError, RayError
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from kernelrl.errors import InfrastructureError, KernelRLError, UserError
from kernelrl.executor.api import ClusterSettings, ExecutorSettings, NodeHealth, Request, not_known
from kernelrl.executor.engines.ahead import NATIVE
from kernelrl.executor.engines.dispatch import Dispatcher, Job
from kernelrl.executor.engines.ray_meters import Meters
from kernelrl.executor.engines.ray_node import Node, Shipment, identity
from kernelrl.executor.judging.referee import MAX_BUILDS
from kernelrl.verdict import Verdict

IDENTIFY_S = 10.0
"""For nodes to say which version they have, when enough others are ready (in seconds)."""
LOOK_S = 1.0
"""Time between two looks at the cluster (in seconds)."""
BEAT_S = 5.0
"""Time between two questions whether an actor lives (in seconds)."""
LONGEST_DELAY_S = 60.0
"""Before an actor that keeps failing is started once more (in seconds)."""
CONTROL_CALLS = 4
"""Calls that an actor answers beside its requests."""
MAX_SHIPMENTS = 512
"""Candidates whose builds are kept in Ray's object store."""
MAX_REASON_CHARS = 200
"""Of what Ray says about a failure; much of it is advice."""
MAX_GONE = 32
"""Nodes that have left and are still in `health`."""


@dataclass(eq=False)
class _Place:
    """A node of the cluster, or one that was."""

    name: str
    alive: bool = True
    judged: int = 0
    retried: int = 0
    last_error: str = ""
    failures: int = 0
    """Actors lost since the last answer."""
    start_at: float = 0.0
    """When an actor may be started there (on `time.monotonic`'s clock)."""
    refused: bool = False
    """Another version is installed there."""


@dataclass(eq=False)
class _Actor:
    name: str
    place: _Place
    node: str
    """Ray's id of its node."""
    judges: bool
    handle: Any
    workers: int
    known: bool = False
    """It has said which version it has."""
    ready: bool = False
    cache: str = ""
    gpu_arch: str | None = None
    beat_due: float = 0.0
    asked: float | None = None
    """When it was asked for a sign of life that has not come yet."""
    progress: float = 0.0
    """When it last answered a request, or got one while it had none."""
    service_retries: int = 0
    """Requests that its own executor had to repeat."""


class _Wanted:
    """Asks for a whole node and does nothing with it: an autoscaler sees what is missing."""

    def ready(self) -> None: ...


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
        self._secret = secret
        self._answer = answer
        self._limit_s = longest_judgement_s(settings)
        self._events: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()
        self._judging = Dispatcher(quota)
        self._building = Dispatcher()
        self._actors: dict[str, _Actor] = {}
        self._places: dict[str, _Place] = {}
        self._nodes: dict[str, dict[str, float]] = {}
        self._shipments: dict[str, tuple[str, Shipment]] = {}
        self._wanted: list[Any] = []
        self._want_at = 0.0
        self._meters = Meters()
        self._deserted_since: float | None = None
        self._started = self._closed = False
        self._failure: InfrastructureError | None = None
        """Ray itself is gone."""
        self._refusal: UserError | None = None
        """There is a node with another version."""
        self._changed = threading.Condition()
        self._thread = threading.Thread(target=self._run, daemon=True, name="ray-pool")
        self._thread.start()

    def wait_ready(self) -> None:
        """Wait until `min_nodes` nodes are ready to judge.

        Raises:
            UserError: a node has another version; there are too few nodes, or none with a GPU, after `wait_s`.
        """
        wanted, wait_s = self._cluster.min_nodes, self._cluster.wait_s
        with self._changed:
            ready = self._changed.wait_for(lambda: self._error or self._num_ready() >= wanted, timeout=wait_s)
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
        staff: dict[str, list[_Actor]] = {}
        for actor in list(self._actors.values()):
            staff.setdefault(actor.place.name, []).append(actor)
        return [self._health_of(place, staff.get(place.name, [])) for place in list(self._places.values())]

    @property
    def num_queued(self) -> int:
        """Jobs that no node has yet."""
        return self._judging.num_queued + self._building.num_queued + self._building.num_in_flight

    def close(self) -> None:
        """End the actors."""
        self._closed = True
        self._events.put(lambda: None)
        self._thread.join()
        for actor in [*(actor.handle for actor in self._actors.values()), *self._wanted]:
            _kill(actor)

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
            self._failure = InfrastructureError(f"Ray failed: {_reason(error)}")
            self._notify()
            while not self._closed:
                self._fail_all(str(self._failure))
                with contextlib.suppress(queue.Empty):
                    self._events.get(timeout=LOOK_S)()

    def _on_submit(self, jobs: list[Job]) -> None:
        for job in jobs:
            is_built = self._building.workers and job.request.candidate and job.request.dialect in NATIVE
            (self._building if is_built else self._judging).add([job])

    def _on_cancel(self, client: str, numbers: list[int] | None) -> None:
        for dispatcher in (self._building, self._judging):
            dispatcher.cancel(client, numbers)

    def _call(self, method: Any, then: Callable[[Future[Any]], None], *arguments: object) -> None:
        """Call an actor's method; `then` gets the outcome, as an event."""
        future = method.remote(*arguments).future()
        future.add_done_callback(lambda done: self._events.put(partial(then, done)))

    # the cluster

    def _look(self) -> None:
        """See who came and who left, and whether those who are there still live."""
        nodes = [node for node in ray.nodes() if node["Alive"]]
        self._nodes = {node["NodeID"]: node["Resources"] for node in nodes}
        names = {node["NodeID"]: f"{node['NodeManagerHostname']}:{node['NodeID'][:8]}" for node in nodes}
        for actor in list(self._actors.values()):
            if actor.node not in self._nodes:
                self._lose(actor, "the node has left the cluster")
        for id in list(self._places):
            self._places[id].alive = id in self._nodes
        for id in [id for id, place in self._places.items() if not place.alive][:-MAX_GONE]:
            del self._places[id]
        for id in self._nodes:
            if self._may_judge(id) or self._may_build(id):
                self._start_missing_actors(id, self._places.setdefault(id, _Place(names[id])))
        self._show_demand()
        for actor in list(self._actors.values()):
            if actor.ready:
                self._check(actor)
        self._check_deserted()
        self._meters.show(self.num_queued, self._judging.num_in_flight, self._num_ready())

    def _may_build(self, node: str) -> bool:
        resources = self._nodes[node]
        if not resources.get("CPU"):
            return False
        if self._cluster.builders is not None:
            return bool(resources.get(self._cluster.builders))
        return self._settings.device == "cuda" and not resources.get("GPU")

    def _may_judge(self, node: str) -> bool:
        resources = self._nodes[node]
        needed = "CPU" if self._settings.device == "cpu" else "GPU"
        return bool(
            resources.get("CPU")
            and resources.get(needed)
            and (self._cluster.judges is None or resources.get(self._cluster.judges))
            and not self._may_build(node)
        )

    def _start_missing_actors(self, node: str, place: _Place) -> None:
        """Start the actors that a node should have and has not."""
        here = {actor.name for actor in self._actors.values() if actor.node == node}
        resources, judges = self._nodes[node], self._may_judge(node)
        on_gpu = judges and self._settings.device == "cuda"
        number = int(resources["GPU"] // self._cluster.gpus_per_actor) if on_gpu else 1
        names = [place.name if number == 1 else f"{place.name}#{index}" for index in range(number)]
        for name in names:
            if name in here or place.refused or time.monotonic() < place.start_at:
                continue
            if judges and self._cluster.max_actors is not None and self._num_judges() >= self._cluster.max_actors:
                continue
            workers = self._settings.workers or max(1, int(resources["CPU"] / number))
            handle = (
                ray.remote(Node)
                .options(
                    num_cpus=self._cluster.cpus_per_actor or resources["CPU"] / number,
                    num_gpus=self._cluster.gpus_per_actor if on_gpu else 0,
                    max_restarts=0,
                    max_concurrency=self._capacity(workers) + CONTROL_CALLS,
                    scheduling_strategy=NodeAffinitySchedulingStrategy(node, soft=False),
                )
                .remote()
            )
            actor = self._actors[name] = _Actor(name, place, node, judges, handle, workers)
            self._call(handle.hello, partial(self._on_hello, actor))

    def _capacity(self, workers: int) -> int:
        return self._cluster.in_flight or 2 * workers

    def _is_lost(self, actor: _Actor, outcome: Future[Any], fatal: type[Exception] = Exception) -> bool:
        """Whether nothing is to be done about an answer: the actor was given up before, or is now for this error."""
        if self._actors.get(actor.name) is not actor:
            return True
        error = outcome.exception()
        if isinstance(error, fatal):
            self._lose(actor, _reason(error))
            return True
        return False

    def _on_hello(self, actor: _Actor, outcome: Future[Any]) -> None:
        if self._is_lost(actor, outcome):
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
            if self._started:
                print(f"kernelrl: {actor.place.last_error}", file=sys.stderr)
            else:
                self._refusal = UserError(actor.place.last_error)
            self._notify()
            return
        actor.known = True
        self._notify()
        own = {"engine": "local", "cluster": None, "workers": actor.workers}
        settings = self._settings.model_copy(update=own).model_dump(mode="json")
        self._call(actor.handle.set_up, partial(self._on_set_up, actor), settings, self._secret, actor.judges)

    def _on_set_up(self, actor: _Actor, outcome: Future[Any]) -> None:
        if self._is_lost(actor, outcome):
            return
        actor.cache, actor.gpu_arch = outcome.result()["cache"], outcome.result()["gpu_arch"]
        actor.ready, actor.beat_due = True, time.monotonic() + BEAT_S
        self._queue_of(actor).join(actor.name, self._capacity(actor.workers))
        self._notify()

    def _queue_of(self, actor: _Actor) -> Dispatcher:
        """Where the actor gets its work."""
        return self._judging if actor.judges else self._building

    def _notify(self) -> None:
        with self._changed:
            self._changed.notify_all()

    def _check(self, actor: _Actor) -> None:
        """Give an actor up that has gone silent or makes no progress."""
        now = time.monotonic()
        jobs = self._queue_of(actor).workers[actor.name].jobs
        if actor.asked is not None and now - actor.asked > self._cluster.silent_s:
            self._lose(actor, f"no sign of life for {self._cluster.silent_s:g} s")
        elif jobs and now - actor.progress > self._limit_s:
            self._lose(actor, f"no verdict for {self._limit_s:.0f} s")
        elif actor.asked is None and now >= actor.beat_due:
            actor.asked, actor.beat_due = now, now + BEAT_S
            self._call(actor.handle.beat, partial(self._on_beat, actor))

    def _on_beat(self, actor: _Actor, outcome: Future[Any]) -> None:
        actor.asked = None
        if self._is_lost(actor, outcome):
            return
        health: NodeHealth = outcome.result()
        actor.service_retries = health.retried
        actor.place.last_error = health.last_error or actor.place.last_error

    def _lose(self, actor: _Actor, why: str) -> None:
        """An actor is of no use any more: its work goes elsewhere."""
        del self._actors[actor.name]
        _kill(actor.handle)
        place = actor.place
        place.last_error = why
        place.retried += actor.service_retries
        place.start_at = time.monotonic() + (min(2.0**place.failures, LONGEST_DELAY_S) if place.failures else 0.0)
        place.failures += 1
        if not actor.judges:
            _, lost = self._building.leave(actor.name)
            self._judging.add(_afresh(job) for job in lost)
            return
        again, lost = self._judging.leave(actor.name)
        place.retried += len(again)
        self._meters.retried(len(again))
        for job in lost:
            self._end(job, self._not_known(job.request, f"{job.starts} nodes were lost under this request: {why}"))

    def _show_demand(self) -> None:
        """Keep as many actors waiting for a whole node as are missing from `max_actors`."""
        most = self._cluster.max_actors
        missing = 0 if most is None else most - self._num_judges()
        while len(self._wanted) > max(missing, 0):
            _kill(self._wanted.pop())
        if time.monotonic() < self._want_at:
            return
        cpus = max((resources.get("CPU", 0.0) for resources in self._nodes.values()), default=0.0)
        gpus = self._cluster.gpus_per_actor if self._settings.device == "cuda" else 0
        while len(self._wanted) < missing:
            actor = (
                ray.remote(_Wanted).options(num_cpus=cpus or self._cluster.cpus_per_actor or 1, num_gpus=gpus).remote()
            )
            self._wanted.append(actor)
            self._call(actor.ready, partial(self._on_room, actor))

    def _on_room(self, actor: Any, _: Future[Any]) -> None:
        """There is a node for one that was missing: make room for an actor that judges."""
        if actor in self._wanted:
            self._wanted.remove(actor)
            self._want_at = time.monotonic() + 10 * LOOK_S
            _kill(actor)

    def _check_deserted(self) -> None:
        """Nobody waits for ever for a cluster without nodes; without builders, judges build."""
        if not self._building.workers:
            self._judging.add(_afresh(job) for job in self._building.take_queued())
        if self._num_ready() or not self._judging.num_queued:
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
            actor, job = self._actors[pair[0].name], pair[1]
            arch = next((judge.gpu_arch for judge in self._actors.values() if judge.gpu_arch), None)
            self._send(actor, job, actor.handle.build_ahead, self._on_built, arch, self._ships())
        while (pair := self._judging.next()) is not None:
            actor, job = self._actors[pair[0].name], pair[1]
            shipment = self._shipment(job.request, actor)
            self._send(actor, job, actor.handle.judge, self._on_verdict, shipment, self._ships())

    def _send(self, actor: _Actor, job: Job, method: Any, then: Any, *arguments: object) -> None:
        if len(self._queue_of(actor).workers[actor.name].jobs) == 1:
            actor.progress = time.monotonic()
        self._call(method, partial(then, actor, job.number, time.monotonic()), job.request, *arguments)

    def _on_verdict(self, actor: _Actor, number: int, sent: float, outcome: Future[Any]) -> None:
        if self._is_lost(actor, outcome, fatal=RayActorError):
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

    def _on_built(self, actor: _Actor, number: int, _: float, outcome: Future[Any]) -> None:
        if self._is_lost(actor, outcome, fatal=RayActorError):
            return
        self._outcome(actor, outcome)
        job = self._building.finish(actor.name, number)
        if job is not None:
            self._judging.add([_afresh(job)])

    def _outcome(self, actor: _Actor, outcome: Future[Any]) -> tuple[Verdict | None, str]:
        """What an actor says about a request; None and the reason: nothing."""
        actor.progress = time.monotonic()
        if error := outcome.exception():
            return None, f"{actor.place.name}: {_reason(error)}"
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
        return len({actor.cache for actor in self._actors.values() if actor.ready}) > 1

    def _shipment(self, request: Request, actor: _Actor) -> Shipment | None:
        """Builds of this candidate that the actor's node may lack."""
        cache, shipment = self._shipments.get(request.candidate.digest if request.candidate else "", ("", None))
        return None if cache == actor.cache else shipment

    def _not_known(self, request: Request, why: str) -> Verdict:
        return not_known(request, self._settings.device, "executor", why)

    # what is said about it

    def _num_ready(self) -> int:
        """Nodes that are ready to judge."""
        return len({actor.node for actor in list(self._actors.values()) if actor.ready and actor.judges})

    @property
    def _error(self) -> KernelRLError | None:
        """Why no work should start."""
        return self._failure or self._refusal

    def _all_known(self) -> bool:
        return all(actor.known for actor in list(self._actors.values()))

    def _num_judges(self) -> int:
        return sum(actor.judges for actor in self._actors.values())

    def _health_of(self, place: _Place, actors: list[_Actor]) -> NodeHealth:
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
        cluster, nodes = self._cluster, self._nodes
        if self._settings.device == "cuda" and not any(resources.get("GPU") for resources in nodes.values()):
            return (
                f"executor.device=cuda: none of the {len(nodes)} nodes of the Ray cluster has a GPU; "
                "start a node with one, or use executor.device=cpu"
            )
        waiting = [actor for actor in self._actors.values() if actor.judges and not actor.ready]
        why = [f"{place.name}: {place.last_error}" for place in self._places.values() if place.last_error]
        why += [f"{actor.name}: not started yet, or its CPUs are in use by others" for actor in waiting]
        if cluster.judges is not None and not any(resources.get(cluster.judges) for resources in nodes.values()):
            why.append(f"no node offers the resource {cluster.judges!r}")
        reason = f" ({'; '.join(why)})" if why else ""
        return (
            f"executor.cluster.min_nodes={cluster.min_nodes}: {self._num_ready()} of {len(nodes)} nodes of the Ray "
            f"cluster are ready to judge after wait_s={cluster.wait_s:g}{reason}; start more, or lower min_nodes"
        )


def longest_judgement_s(settings: ExecutorSettings) -> float:
    """Time within which the slowest candidate that obeys all limits is judged (in seconds)."""
    checked = settings.trials + len(settings.distributions) + settings.shapes
    timed = 4 * settings.max_pairs if settings.timing else 0
    builds = MAX_BUILDS * (2 * settings.build_timeout_s + settings.load_timeout_s)
    return builds + 2 * settings.run_timeout_s * (checked + timed) + settings.timing_budget_s


def _afresh(job: Job) -> Job:
    """The job as if it had not been handed out."""
    return replace(job, starts=0, refused=set())


def _kill(actor: Any) -> None:
    with contextlib.suppress(RayError, ValueError):
        ray.kill(actor)


def _reason(error: BaseException) -> str:
    """One line that says what Ray says in many."""
    cause = getattr(error, "cause", None)
    if isinstance(cause, KernelRLError):
        return str(cause)
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    text = lines[-1] if lines else type(error).__name__
    return text if len(text) <= MAX_REASON_CHARS else f"{text[:MAX_REASON_CHARS]} …"
