"""Verification: teachers propose kernels, the executor judges them, the ledger keeps every verdict."""

from __future__ import annotations

import hashlib
import logging
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from itertools import groupby
from threading import Lock

from kernelrl.candidate import Candidate
from kernelrl.console import track
from kernelrl.data.disk_map import DiskMap
from kernelrl.data.teachers import Proposal, Teacher
from kernelrl.executor.api import Executor, Request
from kernelrl.policies.prompts import build_prompt, to_text
from kernelrl.records import Ledger, Record
from kernelrl.task import Task
from kernelrl.verdict import Verdict

log = logging.getLogger(__name__)

AHEAD = 8
"""Tasks handed to the executor for each of its workers: while one waits for the slowest, the others have work."""


@dataclass(frozen=True)
class Proposed:
    """A proposal, and to whose question it is the answer."""

    task: Task
    dialect: str
    teacher: str
    proposal: Proposal

    @property
    def id(self) -> str:
        """Of its record: the same when the work is repeated."""
        text = f"{self.dialect}\0{self.proposal.completion()}"
        return f"curate/{self.task.id}/{hashlib.sha256(text.encode()).hexdigest()[:12]}"


class Verifier:
    """Has proposals judged; those on which the ledger has a judgement already are not judged again.

    Args:
        prompt_style: of the prompts that the ledger names.
        workers: that judge, on each of the executor's machines.
    """

    def __init__(self, executor: Executor, ledger: Ledger, prompt_style: str, workers: int):
        self._executor, self._ledger, self._style, self._workers = executor, ledger, prompt_style, workers
        self._written, self._handed = Lock(), Lock()
        self._unwritten: list[Record] = []
        self._known: DiskMap[str] = DiskMap()
        for record in ledger:
            if record.verdict.status != "infrastructure":
                self._known[record.id] = record.verdict.model_dump_json()
        if ledger.skipped:
            log.warning(
                f"{ledger.folder}: {ledger.skipped} torn or corrupt line(s) skipped; those proposals are judged again"
            )

    def verify(
        self, tasks: Sequence[Task], teachers: Sequence[tuple[Teacher, str]], limit: int | None, description: str
    ) -> Iterator[tuple[Proposed, Verdict]]:
        """Proposals and their verdicts, in order of the tasks; of equal proposals the first.

        The executor always has a window of tasks to work on, which slides on with the first of them that is not
        finished; how wide it is, and what finishes first, does not change what comes out. With a limit, no task is
        begun that would not be needed if all kernels in the window were right.

        Args:
            teachers: who is asked, and for which dialect.
            limit: stop after the task that completes so many correct kernels; None: verify every proposal.
        """
        if limit == 0:
            return
        groups = groupby(propose(tasks, teachers), key=lambda proposed: proposed.task.id)
        batches = (_without_repeats(batch) for _, batch in groups)
        waiting: deque[tuple[list[Proposed], Future[list[Verdict]]]] = deque()
        correct = dropped = 0
        pool = ThreadPoolExecutor(self._capacity())
        try:
            with track(len(tasks) if limit is None else limit, description) as progress:
                while limit is None or correct < limit:
                    ahead, capacity = sum(len(batch) for batch, _ in waiting), self._capacity()
                    while len(waiting) < capacity and (limit is None or correct + ahead < limit):
                        if (following := next(batches, None)) is None:
                            break
                        waiting.append((following, pool.submit(self._judge, following)))
                        ahead += len(following)
                    if not waiting:
                        return
                    batch, judged = waiting.popleft()
                    verdicts = judged.result()
                    found = sum(verdict.correct for verdict in verdicts)
                    correct, dropped = correct + found, dropped + len(batch) - found
                    progress.advance(1 if limit is None else found, f"{correct} correct, {dropped} dropped")
                    yield from zip(batch, verdicts, strict=True)
        finally:
            pool.shutdown(cancel_futures=True)

    def _capacity(self) -> int:
        """Tasks that keep every machine busy; machines may come and go."""
        machines = sum(node.alive for node in self._executor.health())
        return AHEAD * self._workers * max(machines, 1)

    def _judge(self, batch: list[Proposed]) -> list[Verdict]:
        """Verdicts on one task's proposals; those that are new go to the ledger as they come."""
        known = {each.id: self._known.get(each.id) for each in batch}
        verdicts = {id: Verdict.model_validate_json(text) for id, text in known.items() if text is not None}
        pending = [proposed for proposed in batch if proposed.id not in verdicts]
        requests = [
            Request(
                task=proposed.task,
                candidate=Candidate(source=proposed.proposal.source, dialect=proposed.dialect),
                dialect=proposed.dialect,
            )
            for proposed in pending
        ]
        for index, verdict in self._executor.stream(requests):
            proposed = pending[index]
            record = Record.of(
                id=proposed.id,
                policy=proposed.teacher,
                prompt=to_text(build_prompt(proposed.task, proposed.dialect, self._style)),
                completion=proposed.proposal.completion(),
                verdict=verdict,
            )
            self._write(record)
            verdicts[record.id] = verdict
        return [verdicts[proposed.id] for proposed in batch]

    def _write(self, record: Record) -> None:
        """Have a record on disk when this returns.

        One thread writes what all have handed in while another wrote: a disk takes as long for one record as for many.
        """
        with self._handed:
            self._unwritten.append(record)
        with self._written:
            with self._handed:
                records, self._unwritten = self._unwritten, []
            if records:
                self._ledger.append(records)


def propose(tasks: Iterable[Task], teachers: Sequence[tuple[Teacher, str]]) -> Iterator[Proposed]:
    """What the teachers propose, in order of the tasks, then of the teachers; no more of it is kept than their next."""
    streams = [_ask(teacher, dialect, tasks) for teacher, dialect in teachers]
    following = [next(stream, None) for stream in streams]
    for task in tasks:
        for number, stream in enumerate(streams):
            while (proposed := following[number]) is not None and proposed.task.id == task.id:
                yield proposed
                following[number] = next(stream, None)


def _ask(teacher: Teacher, dialect: str, tasks: Iterable[Task]) -> Iterator[Proposed]:
    for task, proposal in teacher.proposals(tasks, dialect):
        yield Proposed(task, dialect, teacher.name, proposal)


def _without_repeats(batch: Iterable[Proposed]) -> list[Proposed]:
    """The proposals for one task; of equal ones the first."""
    distinct: dict[str, Proposed] = {}
    for proposed in batch:
        distinct.setdefault(proposed.id, proposed)
    return list(distinct.values())
