"""Task sources: where tasks come from, one file each with a function `load(cfg) -> TaskSplit`.

A source that draws its tasks may deal them out itself. One that finds them (files, rows) adds each to a `Gathering`,
which leaves out what is no task, counts it, and splits the rest.
"""

from __future__ import annotations

import hashlib
import logging
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules
from types import ModuleType
from typing import Any

from omegaconf import DictConfig, OmegaConf

from kernelrl.data.program import hash_layers
from kernelrl.data.revisions import find_revision
from kernelrl.data.scaling import scale
from kernelrl.errors import TaskError, UserError
from kernelrl.task import Task

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class TaskSplit:
    """Candidate tasks of both splits, in the order in which curation takes them. No composition is in both.

    Attributes:
        num_train: number of training tasks that are wanted after filtering; None: all that pass.
        num_heldout: the same for held-out tasks.
        skipped: how many items of the source are no task, by reason.
    """

    train: Sequence[Task]
    heldout: Sequence[Task]
    num_train: int | None = None
    num_heldout: int | None = None
    skipped: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class Kernel:
    """A solution that a source publishes beside a task, in KernelBench's form: it defines `ModelNew`."""

    dialect: str
    source: str


def load(cfg: DictConfig) -> TaskSplit:
    """The tasks of the source that `cfg.source` names, for training.

    Raises:
        UserError: there is no such source (lists those there are), or it gave no task for one of the splits.
    """
    split = load_part(cfg)
    wanted = (("train", split.train, split.num_train), ("heldout", split.heldout, split.num_heldout))
    for name, tasks, number in wanted:
        if not tasks or (number is not None and number < 1):
            raise UserError(
                f"tasks.source={cfg.source} gives no task for {name}; see tasks.num_{name}"
                + (" and tasks.heldout" if "heldout" in cfg else "")
            )
    return split


def load_part(cfg: DictConfig) -> TaskSplit:
    """The same, where one of the splits may be empty.

    Raises:
        UserError: there is no such source (lists those there are), or it cannot be read.
    """
    split: TaskSplit = _module(cfg).load(cfg)
    return split


def load_all(cfg: DictConfig) -> list[Task]:
    """Every task of a source in the order of its ids, numbers in them by value: a benchmark to evaluate on.

    Raises:
        UserError: there is no such source (lists those there are), or it cannot be read.
    """
    return in_order(load_part(cfg))


def in_order(split: TaskSplit) -> list[Task]:
    """The tasks of both splits in the order of their ids, numbers in them by value."""
    return sorted([*split.train, *split.heldout], key=lambda task: _natural(task.id))


def load_kernels(cfg: DictConfig) -> dict[str, list[Kernel]]:
    """The kernels that a source publishes beside its tasks, by task id; unverified.

    Raises:
        UserError: the source has none (names those that do), or it cannot be read.
    """
    read: Callable[[DictConfig], dict[str, list[Kernel]]] | None = getattr(_module(cfg), "load_kernels", None)
    if read is None:
        having = [name for name in _names() if hasattr(import_module(f"{__name__}.{name}"), "load_kernels")]
        raise UserError(f"tasks.source={cfg.source} has no kernels beside its tasks; {' and '.join(having)} have")
    return read(cfg)


class Gathering:
    """Tasks as a source finds them. The result does not depend on the order in which they are added.

    Args:
        cfg: the source's node `tasks`: `source`; and for `split`: `seed`, `heldout` (share of the programs if it is a
            fraction, their number if it is whole), `num_train` and `num_heldout` (null: all); `scale`, if it is there
            and not null: how far to shrink the inputs.

    Raises:
        UserError: `scale` is not between 0 and 1.
    """

    def __init__(self, cfg: DictConfig):
        if (factor := cfg.get("scale")) is not None and not 0 < factor <= 1:
            raise UserError(f"tasks.scale={factor}: give a share of the original size between 0 and 1, e.g. 0.01")
        self._cfg = cfg
        self.revision = find_revision(cfg.get("path"), cfg.get("revision"))
        """Of what is read: the commit of a checkout, or of a data set on the hub; None: not known."""
        self._tasks: list[tuple[Task, str | None]] = []
        self._skipped: dict[str, list[str]] = {}

    def add(self, task: Task, program: str | None = None) -> None:
        """Add a task, or leave it out where it is not in KernelBench's format.

        Args:
            program: tasks with the same one stay in the same split; None: those whose code is the same up to names and
                numbers.
        """
        try:
            task.check_source()
        except TaskError as error:
            self.skip("does_not_parse" if "syntax error" in str(error) else "wrong_format", str(error))
        else:
            task = task.model_copy(update={"revision": self.revision})
            factor = self._cfg.get("scale")
            self._tasks.append((task if factor is None else scale(task, factor), program))

    def add_file(self, path: Path, **fields: object) -> None:
        """Add a file in KernelBench's format; `fields` are those of `Task`."""
        try:
            source = path.read_text(encoding="utf-8-sig")
        except (OSError, UnicodeDecodeError):
            self.skip("not_text", str(path))
        else:
            self.add(Task.model_validate({"source": source, **fields}))

    def skip(self, reason: str, what: str) -> None:
        """Leave an item out. `what` names it in the warning, if it is the first of its reason."""
        self._skipped.setdefault(reason, []).append(what)

    def split(self) -> TaskSplit:
        """Deal the tasks out by program, so that none is in both splits; both in a seeded order.

        Raises:
            UserError: there is no task (says why items were left out), or `heldout` is no share and no number.
        """
        cfg = self._cfg
        tasks = self._distinct()
        for reason, items in sorted(self._skipped.items()):
            log.warning("tasks.source=%s: %d left out: %s (%s)", cfg.source, len(items), reason, min(items))
        if not tasks:
            why = ", ".join(f"{len(items)} {reason}: {min(items)}" for reason, items in sorted(self._skipped.items()))
            raise UserError(f"tasks.source={cfg.source}: no task in {cfg.path} ({why or 'no item at all'})")
        programs = sorted(set(tasks.values()), key=self._rank)
        heldout = set(programs[: _count(cfg.heldout, len(programs))])
        ordered = sorted(tasks, key=lambda task: self._rank(task.id))
        return TaskSplit(
            [task for task in ordered if tasks[task] not in heldout],
            [task for task in ordered if tasks[task] in heldout],
            cfg.num_train,
            cfg.num_heldout,
            {reason: len(items) for reason, items in sorted(self._skipped.items())},
        )

    def _distinct(self) -> dict[Task, str]:
        """Every task with its program; of those with the same id or the same source the first by id."""
        kept: dict[Task, str] = {}
        seen: set[str] = set()
        for task, program in sorted(self._tasks, key=lambda item: (item[0].id, item[0].digest)):
            if seen & {task.id, task.digest}:
                self.skip("duplicate", task.id)
            else:
                kept[task] = program or hash_layers(task.source)
            seen |= {task.id, task.digest}
        return kept

    def _rank(self, name: str) -> str:
        return hashlib.sha256(f"{self._cfg.seed}/{name}".encode()).hexdigest()


def find_folder(path: Any, what: str) -> Path:
    """A source's folder.

    Raises:
        UserError: it is not there; says `what` it should hold.
    """
    folder = Path(str(path)).expanduser()
    if not folder.is_dir():
        raise UserError(f"tasks.path={path}: no such folder; give {what}")
    return folder


def _count(heldout: float, num_programs: int) -> int:
    """How many programs to hold out; of several at least one, unless none is wanted."""
    whole = isinstance(heldout, int)
    if isinstance(heldout, bool) or not heldout >= 0 or (not whole and heldout > 1):
        raise UserError(f"tasks.heldout={heldout}: give a share of the programs, e.g. 0.1, or their number, e.g. 20")
    count = heldout if whole else round(heldout * num_programs)
    return max(int(count), 1) if heldout and num_programs > 1 else 0


def _names() -> list[str]:
    return sorted(module.name for module in iter_modules(__path__))


def _module(cfg: DictConfig) -> ModuleType:
    if cfg.source not in _names():
        raise UserError(f"tasks.source={cfg.source!r} is not known; choose one of {', '.join(_names())}")
    if OmegaConf.is_missing(cfg, "path"):
        raise UserError(f"tasks.path is not set; tasks.source={cfg.source} reads a folder or a file: tasks.path=FOLDER")
    return import_module(f"{__name__}.{cfg.source}")


def _natural(text: str) -> list[tuple[int, str]]:
    return [(int(part or 0), rest) for part, rest in re.findall(r"(\d*)(\D*)", text)]
