"""Verification: teachers propose kernels, the executor judges them, the ledger keeps every verdict."""

from __future__ import annotations

import hashlib
import heapq
import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

from kernelrl import __version__
from kernelrl.candidate import Candidate
from kernelrl.console import track
from kernelrl.data.teachers import Proposal, Teacher
from kernelrl.executor.api import Executor, Request
from kernelrl.policies.prompts import build_prompt, to_text
from kernelrl.records import Ledger, Record
from kernelrl.task import Task
from kernelrl.verdict import Verdict

log = logging.getLogger(__name__)

BATCH = 32
"""Proposals that the executor gets at once."""


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
    """

    def __init__(self, executor: Executor, ledger: Ledger, prompt_style: str):
        self._executor, self._ledger, self._style = executor, ledger, prompt_style
        self._known = {record.id: record.verdict for record in ledger if record.verdict.status != "infrastructure"}
        if ledger.skipped:
            log.warning(
                f"{ledger.folder}: {ledger.skipped} torn or corrupt line(s) skipped; those proposals are judged again"
            )

    def verify(
        self, tasks: Sequence[Task], teachers: Sequence[tuple[Teacher, str]], limit: int | None, description: str
    ) -> Iterator[tuple[Proposed, Verdict]]:
        """Proposals and their verdicts, in order of the tasks; of equal proposals the first.

        Args:
            teachers: who is asked, and for which dialect.
            limit: stop after the batch that completes so many correct kernels; None: verify every proposal.
        """
        if limit == 0:
            return
        proposals = self._without_repeats(propose(tasks, teachers))
        asked, correct, dropped = "", 0, 0
        with track(len(tasks) if limit is None else limit, description) as progress:
            while (limit is None or correct < limit) and (batch := list(islice(proposals, BATCH))):
                self._judge(batch)
                verdicts = [self._known[proposed.id] for proposed in batch]
                found = sum(verdict.correct for verdict in verdicts)
                correct, dropped = correct + found, dropped + len(batch) - found
                new_tasks = {proposed.task.id for proposed in batch} - {asked}
                asked = batch[-1].task.id
                progress.advance(len(new_tasks) if limit is None else found, f"{correct} correct, {dropped} dropped")
                yield from zip(batch, verdicts, strict=True)

    def _without_repeats(self, proposals: Iterator[Proposed]) -> Iterator[Proposed]:
        seen: set[str] = set()
        for proposed in proposals:
            if proposed.id not in seen:
                seen.add(proposed.id)
                yield proposed

    def _judge(self, batch: list[Proposed]) -> None:
        """Add the verdicts on a batch to the ledger and to what is known, as they come."""
        pending = [proposed for proposed in batch if proposed.id not in self._known]
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
            record = Record(
                id=proposed.id,
                stage="curate",
                step=0,
                policy=proposed.teacher,
                task_id=proposed.task.id,
                prompt=to_text(build_prompt(proposed.task, proposed.dialect, self._style)),
                completion=proposed.proposal.completion(),
                verdict=verdict,
                machine=verdict.machine,
                version=__version__,
            )
            self._ledger.append([record])
            self._known[record.id] = verdict


def propose(tasks: Sequence[Task], teachers: Sequence[tuple[Teacher, str]]) -> Iterator[Proposed]:
    """What the teachers propose, in order of the tasks, then of the teachers."""
    position = {task.id: index for index, task in enumerate(tasks)}
    streams = [_ask(teacher, dialect, tasks) for teacher, dialect in teachers]
    return heapq.merge(*streams, key=lambda proposed: position[proposed.task.id])


def _ask(teacher: Teacher, dialect: str, tasks: Sequence[Task]) -> Iterator[Proposed]:
    for task, proposal in teacher.proposals(tasks, dialect):
        yield Proposed(task, dialect, teacher.name, proposal)
