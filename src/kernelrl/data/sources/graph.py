"""Tasks of the synthesiser (`data/graph`): typed operator graphs over every category of operators."""

from __future__ import annotations

import random
from collections.abc import Iterator

from omegaconf import DictConfig

from kernelrl.configs import read_node
from kernelrl.data.disk_map import DiskMap
from kernelrl.data.graph.generate import tasks
from kernelrl.data.graph.graph import Dials
from kernelrl.data.sources import TaskSplit
from kernelrl.data.stored import store
from kernelrl.errors import UserError
from kernelrl.task import Task


def load(cfg: DictConfig) -> TaskSplit:
    """Draw distinct tasks; each composition (the operators in order) belongs to one of the two splits.

    Args:
        cfg: `seed`, `num_train`, `num_heldout`, `spare` (tasks drawn per task wanted, as some fail a filter), `dials`.

    Raises:
        UserError: a dial that there is not or that does not fit, or dials that leave too few graphs.
    """
    dials = read_node(Dials, cfg.dials, "tasks.dials")
    if dials.min_ops > dials.max_ops:
        raise UserError(f"tasks.dials.min_ops={dials.min_ops} is above tasks.dials.max_ops={dials.max_ops}")
    num_train, num_heldout = int(cfg.num_train * cfg.spare) + 1, int(cfg.num_heldout * cfg.spare) + 1
    return TaskSplit(*store(deal(cfg.seed, dials, num_train, num_heldout)), cfg.num_train, cfg.num_heldout)


def deal(seed: int, dials: Dials, num_train: int, num_heldout: int) -> Iterator[tuple[str, Task]]:
    """`train` or `heldout`, and the task; a composition is dealt to one of them when it first comes up."""
    missing = {"train": num_train, "heldout": num_heldout}
    rng = random.Random(seed)
    side: DiskMap[str] = DiskMap()
    for task in tasks(seed, dials):
        is_heldout = rng.random() * (num_train + num_heldout) < num_heldout
        split = side.setdefault(" ".join(task.ops), "heldout" if is_heldout else "train")
        if missing[split]:
            missing[split] -= 1
            yield split, task
        if not any(missing.values()):
            return
