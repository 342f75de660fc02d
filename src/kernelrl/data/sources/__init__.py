"""Task sources: where tasks come from, one file each with a function `load(cfg) -> TaskSplit`."""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from pkgutil import iter_modules

from omegaconf import DictConfig

from kernelrl.errors import UserError
from kernelrl.task import Task


@dataclass(frozen=True)
class TaskSplit:
    """Candidate tasks of both splits, in the order in which curation takes them. No composition is in both.

    Attributes:
        num_train: number of training tasks that are wanted after filtering; None: all that pass.
        num_heldout: the same for held-out tasks.
    """

    train: list[Task]
    heldout: list[Task]
    num_train: int | None = None
    num_heldout: int | None = None


def load(cfg: DictConfig) -> TaskSplit:
    """The tasks of the source that `cfg.source` names.

    Raises:
        UserError: there is no such source (lists those there are), or it gave no task for one of the splits.
    """
    names = sorted(module.name for module in iter_modules(__path__))
    if cfg.source not in names:
        raise UserError(f"tasks.source={cfg.source!r} is not known; choose one of {', '.join(names)}")
    split: TaskSplit = import_module(f"{__name__}.{cfg.source}").load(cfg)
    wanted = (("train", split.train, split.num_train), ("heldout", split.heldout, split.num_heldout))
    for name, tasks, number in wanted:
        if not tasks or (number is not None and number < 1):
            raise UserError(f"tasks.source={cfg.source} gives no task for {name}; see tasks.num_{name}")
    return split
