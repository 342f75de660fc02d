"""Who judges what: queues, bounds, affinity, retries. Plain bookkeeping that knows no cluster; not thread-safe.

Every job that was added ends exactly once: `finish` gives it back, or it is among the lost. What is said about a job
that has ended, or by a worker that has left, is dropped.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import islice

from kernelrl.executor.api import MAX_STARTS, Request

WINDOW = 256
"""Jobs at the head of a queue among which one that suits a worker is looked for."""
MAX_HOMES = 4096
"""Tasks of which it is remembered who has the reference."""


@dataclass(eq=False)
class Job:
    """One request of one client."""

    number: int
    client: str
    request: Request
    starts: int = 0
    """Number of times that it was handed to a worker."""
    refused: set[str] = field(default_factory=set)
    """Workers that had it and could say nothing about it."""
    cancelled: bool = False
    task: str = field(init=False)
    """Digest of its task."""

    def __post_init__(self) -> None:
        self.task = self.request.task.digest


@dataclass(eq=False)
class Worker:
    """Takes up to `capacity` jobs at a time."""

    name: str
    capacity: int
    jobs: dict[int, Job] = field(default_factory=dict)


class Dispatcher:
    """Hands jobs to workers.

    Clients take turns. Of a client's jobs a worker gets the first whose task's reference it already has, otherwise the
    first whose task nobody has, otherwise the first: an idle worker takes from a busy one.

    Args:
        quota: jobs of one client that may be with workers at a time; None: any number.
    """

    def __init__(self, quota: int | None = None):
        self._quota = quota
        self._queues: OrderedDict[str, OrderedDict[int, Job]] = OrderedDict()
        self._in_flight: dict[str, int] = {}
        self._homes: OrderedDict[str, str] = OrderedDict()
        self.workers: dict[str, Worker] = {}

    @property
    def num_queued(self) -> int:
        return sum(len(queue) for queue in self._queues.values())

    @property
    def num_in_flight(self) -> int:
        return sum(len(worker.jobs) for worker in self.workers.values())

    def add(self, jobs: Iterable[Job]) -> None:
        """Queue jobs."""
        for job in jobs:
            self._queues.setdefault(job.client, OrderedDict())[job.number] = job

    def cancel(self, client: str, numbers: Iterable[int] | None = None) -> None:
        """Forget a client's jobs, all of them where `numbers` is None. What a worker has is judged and dropped."""
        queue = self._queues.get(client, OrderedDict())
        chosen = None if numbers is None else set(numbers)
        for job in [*queue.values(), *(job for worker in self.workers.values() for job in worker.jobs.values())]:
            if job.client == client and (chosen is None or job.number in chosen):
                job.cancelled = True
                queue.pop(job.number, None)
        if not queue:
            self._queues.pop(client, None)

    def take_queued(self) -> list[Job]:
        """Every job that no worker has; they are queued no longer."""
        jobs = [job for queue in self._queues.values() for job in queue.values()]
        self._queues.clear()
        return jobs

    def join(self, name: str, capacity: int) -> None:
        """A worker is there."""
        self.workers[name] = Worker(name, capacity)

    def leave(self, name: str) -> tuple[list[Job], list[Job]]:
        """A worker is gone.

        Returns:
            The jobs that it took along: those that are queued again, and those that have been lost too often.
        """
        worker = self.workers.pop(name, None)
        if worker is None:
            return [], []
        for job in worker.jobs.values():
            self._came_back(job)
        jobs = [job for job in worker.jobs.values() if not job.cancelled]
        again = [job for job in jobs if job.starts < MAX_STARTS]
        for job in reversed(again):
            self._put_back(job)
        return again, [job for job in jobs if job.starts >= MAX_STARTS]

    def next(self) -> tuple[Worker, Job] | None:
        """A job and the worker that gets it; None: nothing can be handed out now."""
        free = [worker for worker in self.workers.values() if len(worker.jobs) < worker.capacity]
        for worker in sorted(free, key=lambda worker: len(worker.jobs) / worker.capacity):
            for client in list(self._queues):
                job = self._suitable(worker, client)
                if job is not None:
                    self._hand(job, worker)
                    return worker, job
        return None

    def finish(self, name: str, number: int) -> Job | None:
        """A worker has answered; None: the job was taken from it before, or nobody waits for it any more."""
        worker = self.workers.get(name)
        job = worker.jobs.pop(number, None) if worker else None
        if job is None:
            return None
        self._came_back(job)
        return None if job.cancelled else job

    def retry(self, job: Job, name: str) -> bool:
        """Queue a job again that a worker could say nothing about; False: it has been tried often enough."""
        job.refused.add(name)
        if job.starts >= MAX_STARTS:
            return False
        self._put_back(job)
        return True

    def _came_back(self, job: Job) -> None:
        self._in_flight[job.client] -= 1
        if not self._in_flight[job.client]:
            del self._in_flight[job.client]

    def _put_back(self, job: Job) -> None:
        queue = self._queues.setdefault(job.client, OrderedDict())
        queue[job.number] = job
        queue.move_to_end(job.number, last=False)

    def _suitable(self, worker: Worker, client: str) -> Job | None:
        if self._quota is not None and self._in_flight.get(client, 0) >= self._quota:
            return None
        homeless = first = None
        for job in islice(self._queues[client].values(), WINDOW):
            if worker.name in job.refused and self.workers.keys() - job.refused:
                continue
            home = self._homes.get(job.task)
            if home == worker.name:
                return job
            if homeless is None and home not in self.workers:
                homeless = job
            first = first or job
        return homeless or first

    def _hand(self, job: Job, worker: Worker) -> None:
        queue = self._queues[job.client]
        del queue[job.number]
        if queue:
            self._queues.move_to_end(job.client)
        else:
            del self._queues[job.client]
        job.starts += 1
        worker.jobs[job.number] = job
        self._in_flight[job.client] = self._in_flight.get(job.client, 0) + 1
        if self._homes.get(job.task) not in self.workers:
            self._homes[job.task] = worker.name
        self._homes.move_to_end(job.task)
        if len(self._homes) > MAX_HOMES:
            self._homes.popitem(last=False)
