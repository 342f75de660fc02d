"""The rows of a data set: a task, and a triple of task, reasoning and kernel, each with the prompt that asks for it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kernelrl.data.tables import Row
from kernelrl.policies.prompts import build_prompt
from kernelrl.task import Task


def sft_row(task: Task, proposal: Mapping[str, Any], style: str) -> Row:
    """A row of `sft_*.parquet`.

    Args:
        proposal: the columns that are not the task's (`SFT_COLUMNS`), and `completion` as text.
    """
    return _about(task) | {
        **proposal,
        "prompt": build_prompt(task, proposal["dialect"], style),
        "completion": [{"role": "assistant", "content": proposal["completion"]}],
    }


def task_row(task: Task, dialect: str, style: str, difficulty: str | None, solved: float | None = None) -> Row:
    """A row of `tasks_*.parquet`; `difficulty` is None where no kernel was proposed, `solved` where none was judged."""
    return _about(task) | {
        "difficulty": difficulty,
        "solved": solved,
        "prompt": build_prompt(task, dialect, style),
        "task": task.model_dump_json(),
    }


def _about(task: Task) -> Row:
    return {
        "task_id": task.id,
        "category": task.category,
        "level": task.level,
        "ops": list(task.ops),
        "origin": task.origin,
        "licence": task.licence,
        "revision": task.revision,
    }
