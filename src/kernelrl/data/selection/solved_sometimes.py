"""Rejection sampling by difficulty: tasks from which a policy still learns."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from pydantic import Field

from kernelrl.data.selection import Pool, Selection, selector
from kernelrl.errors import UserError
from kernelrl.query import Query

SOLVED = """
    SELECT task_id AS id, count(*) AS samples, avg(CAST(status = 'correct' AS DOUBLE)) AS solved FROM records
    WHERE stage <> 'curate' AND status <> 'infrastructure' AND (? IS NULL OR policy = ?) GROUP BY task_id
"""
Share = Annotated[float, Field(ge=0, le=1)]


@selector("solved_sometimes")
def select_solved_sometimes(
    pool: Pool,
    *,
    records: str,
    policy: str | None = None,
    above: Share = 0.0,
    below: Share = 1.0,
    min_samples: Annotated[int, Field(ge=1)] = 2,
) -> Selection:
    """The triples of tasks that a policy solves sometimes; `tasks_train.parquet` keeps those tasks only.

    A task that a policy always or never solves gives a group of equal rewards, so no gradient.

    Args:
        records: folder of a run, a stage or a ledger of grpo or eval.
        policy: count this policy's samples; None: all.
        above, below: the share of correct samples lies between them, neither included.
        min_samples: tasks with fewer judged samples are left out: their share is not known.

    Raises:
        UserError: there are no records, or no task qualifies.
    """
    tried = Query(Path(records)).rows(SOLVED, [policy, policy])
    wanted = frozenset(
        task["id"] for task in tried if task["samples"] >= min_samples and above < task["solved"] < below
    )
    if not wanted:
        raise UserError(
            f"selection solved_sometimes: of the {len(tried)} tasks in {records} none has "
            f"at least {min_samples} samples and a share of correct ones between {above} and {below}"
        )
    chosen = [triple for triple in pool.triples if triple.task_id in wanted]
    return Selection({"solved_sometimes": chosen}, tasks=wanted)
