"""The embedded suite: 150 tasks in 15 categories and three levels, written by hand for kernelrl (`data/suite`).

A file holds the tasks of one category, each below a line `# %% NAME, level L`. What stands above the first of them (the
imports) belongs to every program, and so does a `get_init_inputs()` that returns nothing where a task has none. Sizes
are for a CPU: a reference takes some milliseconds at most.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from omegaconf import DictConfig

from kernelrl.data.sources import Gathering, TaskSplit
from kernelrl.errors import UserError
from kernelrl.task import Task

SUITE = Path(__file__).parents[1] / "suite"
_TITLE = re.compile(r"^# %% (\w+), level (\d)\n", re.MULTILINE)
_NO_ARGUMENTS = "\n\ndef get_init_inputs():\n    return []\n"


def load(cfg: DictConfig) -> TaskSplit:
    """The suite's tasks, with ids `suite/CATEGORY/NAME`.

    Args:
        cfg: `categories` and `levels` (null: all), and the settings of a `Gathering`.

    Raises:
        UserError: there is no such category or level; names those that there are.
    """
    found = Gathering(cfg)
    tasks = list(read_suite())
    for name, field in (("categories", "category"), ("levels", "level")):
        known = sorted({getattr(task, field) for task in tasks})
        if unknown := [value for value in cfg[name] or [] if value not in known]:
            raise UserError(f"tasks.{name}={unknown[0]}: the suite has {', '.join(map(str, known))}")
    for task in tasks:
        if task.category in (cfg.categories or [task.category]) and task.level in (cfg.levels or [task.level]):
            found.add(task)
    return found.split()


def read_suite() -> Iterator[Task]:
    """All tasks, category by category."""
    for path in sorted(SUITE.glob("*.py")):
        for name, level, source in read_programs(path):
            yield Task(
                id=f"suite/{path.stem}/{name}",
                source=source,
                category=path.stem,
                level=level,
                origin="suite",
                licence="Apache-2.0",
            )


def read_programs(path: Path) -> Iterator[tuple[str, int, str]]:
    """Name, level and source of every program of a file."""
    head, *parts = _TITLE.split(path.read_text(encoding="utf-8"))
    imports = "".join(line for line in head.splitlines(keepends=True) if line.startswith(("import", "from")))
    for name, level, body in zip(parts[::3], parts[1::3], parts[2::3], strict=True):
        source = _needed(imports, body) + "\n" + body.rstrip() + "\n"
        yield name, int(level), source if "def get_init_inputs" in body else source + _NO_ARGUMENTS


def _needed(imports: str, body: str) -> str:
    """The imports whose name the program uses."""
    lines = imports.splitlines(keepends=True)
    return "".join(line for line in lines if re.search(rf"\b{line.split()[-1]}\b", body))
