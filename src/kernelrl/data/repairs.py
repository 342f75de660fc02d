"""Repair data: second turns for SFT, made without a model (`curate.repairs`).

A right kernel is mutated and judged; where it is wrong now, its verdict is rendered as the strategy `refine` renders it
for a policy, and the right kernel is the answer, after a reasoning that names the line. So a policy that was trained on
one answer per task knows what a second turn looks like.
"""

from __future__ import annotations

import hashlib
import logging
import random
from collections import defaultdict
from collections.abc import Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import Any

from omegaconf import DictConfig

from kernelrl.candidate import Candidate, Completion
from kernelrl.console import track
from kernelrl.data.mutation import UNBUILT, Change, changes
from kernelrl.data.preferences import FAILED
from kernelrl.data.stored import TasksById
from kernelrl.data.tables import PROPOSALS, TASKS, Row, iterate_table
from kernelrl.data.teachers import Proposal
from kernelrl.errors import UserError
from kernelrl.executor import Executor, make_executor
from kernelrl.executor.api import Request
from kernelrl.policies.prompts import build_prompt, to_text
from kernelrl.policies.protocol import Answer
from kernelrl.records import Ledger, Record
from kernelrl.strategies.feedback import Feedback
from kernelrl.strategies.protocol import Attempt, Draft, Problem, Question
from kernelrl.strategies.refine import Refine
from kernelrl.task import Task
from kernelrl.verdict import Verdict

AT_ONCE = 64
"""Mutants that are judged in one go."""
UNBUILT_SHARE = 0.25
"""Of the mutants that do not compile, where that can be had."""
REFINE = Refine(name="refine", trajectories=1, max_turns=2, stop_at=None, feedback=Feedback())

log = logging.getLogger(__name__)


def make(cfg: DictConfig, verified: Path, settings: Mapping[str, Any]) -> dict[str, list[Row]]:
    """Second turns for a share of the right training kernels, by the record of the kernel; {} where none are wanted.

    Of all examples of a data set that keeps every kernel, `curate.repairs` are second turns. Verdicts are in
    `repairs/records` below the folder of the verified proposals, and nothing is judged twice.

    Args:
        verified: folder of the verified proposals.
        settings: of the executor.

    Raises:
        UserError: the share is not in [0, 1), or not one mutant is wrong.
    """
    share = cfg.curate.repairs
    if not 0 <= share < 1:
        raise UserError(f"curate.repairs={share}: give the share of second turns among the examples, 0 to below 1")
    if share == 0:
        return {}
    tasks = TasksById(verified / TASKS)
    right = [
        row
        for row in iterate_table(verified / PROPOSALS)
        if row["split"] == "train" and row["verdict"]["status"] == "correct"
    ]
    wanted = round(len(right) * share / (1 - share))
    ledger = Ledger(verified / "repairs" / "records")
    found: defaultdict[str, list[Row]] = defaultdict(list)
    with make_executor({**settings, "timing": False, "sanitize": False}) as executor:
        for row in islice(_repairs(cfg, executor, ledger, tasks, right, wanted), wanted):
            found[row["record"].partition("#")[0]].append(row)
    num = sum(map(len, found.values()))
    if wanted and not num:
        raise UserError(f"curate.repairs={share}: no mutant of {len(right)} kernels is wrong; see {ledger.folder}")
    if num < wanted:
        log.warning("curate.repairs=%s: %d second turns of %d: there are no more mutants", share, num, wanted)
    return dict(found)


def _repairs(
    cfg: DictConfig, executor: Executor, ledger: Ledger, tasks: Mapping[str, Task], right: list[Row], wanted: int
) -> Iterator[Row]:
    """Rows, mutant by mutant: one of each kernel in turn, until all changes were tried."""
    known = {record.id: record.verdict for record in ledger}
    mutants, left = _mutants(right, cfg.seed), wanted
    with track(wanted, "breaking kernels") as progress:
        while batch := list(islice(mutants, min(AT_ONCE, 2 * left))):
            problems = [(row, change, f"{row['record']}#{_digest(change)}") for row, change in batch]
            new = [each for each in problems if each[2] not in known]
            requests = [
                Request(
                    task=tasks[row["task_id"]],
                    candidate=Candidate(source=change.source, dialect=row["dialect"]),
                    dialect=row["dialect"],
                )
                for row, change, _ in new
            ]
            for index, verdict in executor.stream(requests):
                row, change, id = new[index]
                known[id] = verdict
                ledger.append([_record(cfg, tasks[row["task_id"]], row, change, id, verdict)])
            for row, change, id in problems:
                if known[id].status in FAILED:
                    left -= 1
                    progress.advance(1)
                    yield _second_turn(cfg, tasks[row["task_id"]], row, change, id, known[id])


def _mutants(right: list[Row], seed: int) -> Iterator[tuple[Row, Change]]:
    """Every kernel's changes in random order: the first of every kernel, then the second of every kernel, …"""
    order = sorted(right, key=lambda row: hashlib.sha256(f"{seed}/{row['record']}".encode()).digest())
    streams = [(row, _shuffled(row, seed)) for row in order]
    while streams:
        going = []
        for row, stream in streams:
            if (change := next(stream, None)) is not None:
                yield row, change
                going.append((row, stream))
        streams = going


def _shuffled(row: Row, seed: int) -> Iterator[Change]:
    rng = random.Random(f"{seed}/{row['record']}")
    wrong = list(changes(row["kernel"], row["dialect"]))
    unbuilt = list(changes(row["kernel"], row["dialect"], UNBUILT))
    rng.shuffle(wrong)
    rng.shuffle(unbuilt)
    while wrong or unbuilt:
        some = unbuilt if unbuilt and (not wrong or rng.random() < UNBUILT_SHARE) else wrong
        yield some.pop()


def _second_turn(cfg: DictConfig, task: Task, row: Row, change: Change, id: str, verdict: Verdict) -> Row:
    """A row of `sft_train.parquet` but for what all rows of a data set have (`rows.sft_row`)."""
    prompt = build_prompt(task, row["dialect"], cfg.prompt.style)
    text = row["completion"].replace(row["kernel"], change.source)
    attempt = Attempt(Draft(id, Question(prompt), Answer(text=text)), Completion.parse(text), verdict)
    problem = Problem(id, task, row["dialect"], prompt, random.Random(0))
    reasoning = f"The line `{change.after}` is wrong: it must be `{change.before}`.\n{row['reasoning']}"
    return row | {
        "prompt": REFINE.conversation(problem, attempt),
        "completion": Proposal(reasoning, row["kernel"]).completion(),
        "reasoning": reasoning,
        "record": id,
    }


def _record(cfg: DictConfig, task: Task, row: Row, change: Change, id: str, verdict: Verdict) -> Record:
    return Record.of(
        id=id,
        policy=f"mutation: {change.rule}",
        prompt=to_text(build_prompt(task, row["dialect"], cfg.prompt.style)),
        completion=row["completion"].replace(row["kernel"], change.source),
        verdict=verdict,
    )


def _digest(change: Change) -> str:
    return hashlib.sha256(change.source.encode()).hexdigest()[:12]
