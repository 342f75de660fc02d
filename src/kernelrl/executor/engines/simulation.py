"""How long judging takes on machines that are not here: a model of the engine, in simulated time.

What it keeps of the engine (docs/plan.md): one driver hands out the requests, one after the other; a node takes as many
as its pool has threads; so many workers build and check side by side; who is timed has the node alone and stops the
others; a task's reference is made once on a node. Not modelled: the network, and how much slower a stage gets when more
of them run side by side than where it was measured.
"""

from __future__ import annotations

import heapq
import random
from collections import deque
from collections.abc import Generator, Hashable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import simpy

from kernelrl.verdict import Verdict

Steps = Generator[simpy.Event, Any, None]
"""A process of the simulation."""
THREADS_PER_WORKER = 2
"""Requests that a node has begun, by worker (`service.Service.pool`)."""


@dataclass(frozen=True)
class Job:
    """What one completion costs on a node that has nothing else to do (in seconds)."""

    task: Hashable
    """Jobs of one task share its reference."""
    static: float = 0.0
    """Reading the source; all that a refused one costs."""
    build: float = 0.0
    check: float = 0.0
    timed: float = 0.0
    """Having the node alone."""
    reference: float = 0.0
    """Making the task's reference, which the first job of the task on a node does for the others there."""

    @classmethod
    def of(cls, verdict: Verdict) -> Job | None:
        """What a verdict cost when it was made; None: it does not say."""
        if (spent := verdict.spent) is None:
            return None
        own = max(verdict.seconds - spent.waiting - spent.reference - spent.timed, 0.0)
        if not verdict.reached("legal"):
            return cls(verdict.task_id, static=own)
        build = 0.0 if verdict.build is None else min(verdict.build.seconds, own)
        return cls(
            verdict.task_id,
            build=build,
            check=own - build,
            timed=spent.timed,
            reference=spent.reference,
        )

    @property
    def runs(self) -> bool:
        """Whether it needs more than the static rules."""
        return self.build + self.check + self.timed > 0

    @property
    def known(self) -> bool:
        """Whether nothing had to be done for its verdict: it is recalled, or there is no kernel."""
        return self.static == 0 and not self.runs


@dataclass(frozen=True)
class Cluster:
    """The executor's nodes. A node is a machine or, on GPUs, one device with its share of the machine's cores."""

    nodes: int
    workers: int
    """Of one node (`executor.workers`)."""
    gpu: bool = False
    """Checks need the device, and builds do not."""
    dispatch_s: float = 0.0
    """The driver's time for one request, its verdict included."""
    mtbf_s: float | None = None
    """Mean time until a node is lost, with what it was judging; None: never."""
    repair_s: float = 60.0
    """Until it is back, empty."""


@dataclass(frozen=True)
class Load:
    """What the trainer asks of the executor in every step."""

    steps: Sequence[Sequence[Job]]
    """The completions of each step, in the order in which they are generated."""
    generation_s: float = 0.0
    """Time to generate those of one step."""
    train_s: float = 0.0
    """Time of a step beside generation and judging."""
    overlap: bool = False
    """Completions are handed over as soon as they are there, not when all are."""


@dataclass(frozen=True)
class Outcome:
    """What the trainer sees."""

    verdicts: int
    total_s: float
    judging_s: float
    """Time in which verdicts were open."""
    waiting_s: float
    """Time in which the trainer had nothing else to do than wait for them."""
    busy: float
    """Share of the workers' time that was work, while verdicts were open; who is timed keeps all of its node busy."""
    latencies: tuple[float, ...]
    """From a completion to its verdict (in seconds), recalled ones left out."""
    retried: int
    """Requests handed out again because their node was lost."""

    @property
    def throughput(self) -> float:
        """Verdicts per second while verdicts were open."""
        return self.verdicts / self.judging_s if self.judging_s else float("inf")

    @property
    def share_waiting(self) -> float:
        """Share of the trainer's time that it waits for rewards."""
        return self.waiting_s / self.total_s if self.total_s else 0.0

    def latency(self, percent: float) -> float:
        """A percentile (in seconds); 0 where every verdict was recalled."""
        return float(np.percentile(self.latencies, percent)) if self.latencies else 0.0


def simulate(cluster: Cluster, load: Load, seed: int = 0) -> Outcome:
    """Run a load on a cluster, in simulated time."""
    env = simpy.Environment()
    engine = Engine(env, cluster, seed)
    trainer = _Trainer(env, engine, load)
    env.run(env.process(trainer.run()))
    verdicts = sum(map(len, load.steps))
    capacity = cluster.nodes * cluster.workers * trainer.judging_s
    return Outcome(
        verdicts=verdicts,
        total_s=env.now,
        judging_s=trainer.judging_s,
        waiting_s=trainer.waiting_s,
        busy=engine.worked_s / capacity if capacity else 0.0,
        latencies=tuple(engine.latencies),
        retried=engine.retried,
    )


class _Trainer:
    """Generates, has judged, trains: synchronous GRPO."""

    def __init__(self, env: simpy.Environment, engine: Engine, load: Load):
        self._env, self._engine, self._load = env, engine, load
        self.judging_s = self.waiting_s = 0.0

    def run(self) -> Steps:
        env, load = self._env, self._load
        for jobs in load.steps:
            began = env.now
            if load.overlap:
                pending = []
                for job in jobs:
                    yield env.timeout(load.generation_s / len(jobs))
                    pending.append(self._engine.submit(job))
                began += load.generation_s / len(jobs)
            else:
                yield env.timeout(load.generation_s)
                pending = self._engine.submit_all(jobs)
                began = env.now
            generated = env.now
            yield env.all_of(pending)
            self.judging_s += env.now - began
            self.waiting_s += env.now - generated
            yield env.timeout(load.train_s)


class Engine:
    """The driver and its nodes. `submit` hands a job over and gives the process that ends with its verdict."""

    def __init__(self, env: simpy.Environment, cluster: Cluster, seed: int = 0):
        self._env, self._cluster = env, cluster
        self._random = random.Random(seed)
        self._driver_free = 0.0
        self._waiting: deque[simpy.Event] = deque()
        self._nodes = [_Node(env, cluster) for _ in range(cluster.nodes)]
        self._free = [(0, number) for number in range(cluster.nodes)]
        """(load, number) of nodes that may take a request; out of date where the node's load is another by now."""
        self._worked_by_lost_s = 0.0
        self.latencies: list[float] = []
        self.retried = 0
        if cluster.mtbf_s is not None:
            for number in range(cluster.nodes):
                env.process(self._fail(number, cluster.mtbf_s))

    @property
    def worked_s(self) -> float:
        """Time that workers have worked, over all of them."""
        return self._worked_by_lost_s + sum(node.worked_s for node in self._nodes)

    def submit_all(self, jobs: Sequence[Job]) -> list[simpy.Process]:
        return [self.submit(job) for job in jobs]

    def submit(self, job: Job) -> simpy.Process:
        return self._env.process(self._judge(job))

    def _judge(self, job: Job) -> Steps:
        env = self._env
        asked = env.now
        self._driver_free = max(self._driver_free, env.now) + self._cluster.dispatch_s
        yield env.timeout(self._driver_free - env.now)
        if job.known:
            return
        judged = False
        while not judged:
            number = yield self._take()
            node = self._nodes[number]
            me = env.active_process
            assert me is not None
            node.judging[me] = None
            try:
                yield from node.judge(job)
                judged = True
            except simpy.Interrupt:
                self.retried += 1
            del node.judging[me]
            node.load -= 1
            if self._nodes[number] is node:
                self._free_again(number)
        self.latencies.append(env.now - asked)

    def _take(self) -> simpy.Event:
        """An event that gives the number of the least busy node, when one takes another request."""
        event = self._env.event()
        self._waiting.append(event)
        self._assign()
        return event

    def _free_again(self, number: int) -> None:
        heapq.heappush(self._free, (self._nodes[number].load, number))
        self._assign()

    def _assign(self) -> None:
        while self._waiting and self._free:
            load, number = heapq.heappop(self._free)
            node = self._nodes[number]
            if load != node.load or load >= node.threads:
                continue
            node.load += 1
            heapq.heappush(self._free, (node.load, number))
            self._waiting.popleft().succeed(number)

    def _fail(self, number: int, mtbf_s: float) -> Steps:
        """Lose a node and what it judges now and then; what comes back in its place is empty."""
        while True:
            yield self._env.timeout(self._random.expovariate(1 / mtbf_s))
            lost = self._nodes[number]
            self._worked_by_lost_s += lost.worked_s
            self._nodes[number] = _Node(self._env, self._cluster, threads=0)
            for process in lost.judging:
                process.interrupt()
            yield self._env.timeout(self._cluster.repair_s)
            self._nodes[number] = _Node(self._env, self._cluster)
            self._free_again(number)


class _Node:
    """One node: its threads, its places for preparations, and the cores (or the device) that one may have alone."""

    def __init__(self, env: simpy.Environment, cluster: Cluster, threads: int | None = None):
        self._env = env
        self._workers = cluster.workers
        self.threads = THREADS_PER_WORKER * cluster.workers if threads is None else threads
        self.load = 0
        self.judging: dict[simpy.Process, None] = {}
        self.worked_s = 0.0
        self._places = simpy.Resource(env, cluster.workers)
        self._alone = simpy.Resource(env)
        self._device = simpy.Resource(env) if cluster.gpu else None
        self._references: dict[Hashable, _Reference] = {}
        self._paused_s = 0.0
        self._timed_since: float | None = None
        self._timed = env.event()

    def judge(self, job: Job) -> Steps:
        """What `referee.judge` does, in its order."""
        env = self._env
        yield env.timeout(job.static)
        if not job.runs:
            return
        reference = self._references.get(job.task)
        if reference is None:
            reference = self._references[job.task] = _Reference(env)
            with self._places.request() as place:
                yield place
                yield from self._on_device(self._work(job.reference))
            reference.made.succeed()
        yield reference.made
        with self._places.request() as place:
            yield place
            yield from self._work(job.build)
            yield from self._on_device(self._check(job, reference))
        if job.timed:
            yield from self._on_device(self._time(job, reference))

    def _on_device(self, steps: Steps) -> Steps:
        if self._device is None:
            yield from steps
            return
        with self._device.request() as turn:
            yield turn
            yield from steps

    def _check(self, job: Job, reference: _Reference) -> Steps:
        with reference.lock.request() as turn:
            yield turn
        yield from self._work(job.check)

    def _work(self, seconds: float) -> Steps:
        """Work beside others: it stands still while one is timed."""
        env = self._env
        self.worked_s += seconds
        while seconds > 0:
            if self._timed_since is not None:
                yield self._timed
                continue
            paused = self._paused_s
            yield env.timeout(seconds)
            seconds = self._paused_s - paused
            if self._timed_since is not None:
                seconds += env.now - self._timed_since

    def _time(self, job: Job, reference: _Reference) -> Steps:
        env = self._env
        with reference.lock.request() as turn:
            yield turn
            with self._alone.request() as alone:
                yield alone
                self.worked_s += job.timed * self._workers
                self._timed_since, self._timed = env.now, env.event()
                yield env.timeout(job.timed)
                self._paused_s += job.timed
                self._timed_since = None
                self._timed.succeed()


class _Reference:
    """A task's reference on a node. Who is timed, or fetches what is expected, has its lock."""

    def __init__(self, env: simpy.Environment):
        self.made = env.event()
        self.lock = simpy.Resource(env)
