"""Several sources together, each with its share of the training tasks."""

from __future__ import annotations

from collections import Counter

from omegaconf import DictConfig

from kernelrl.configs import to_dict
from kernelrl.data import sources
from kernelrl.data.program import hash_layers
from kernelrl.errors import UserError
from kernelrl.task import Task


def load(cfg: DictConfig) -> sources.TaskSplit:
    """The parts' tasks, interleaved by share; the held-out tasks of all parts together.

    As many training tasks as the shares allow: the part that is scarcest for its share sets the number. A program that
    one part holds out is taken from the training tasks of the others.

    Args:
        cfg: `parts` (name -> the settings of a source), `shares` (name -> weight), `num_train`, `num_heldout`.

    Raises:
        UserError: names of parts and shares differ, a weight is not positive, or a part cannot be read.
    """
    shares: dict[str, float] = to_dict(cfg.shares)
    if set(shares) != set(cfg.parts) or not shares:
        raise UserError(f"tasks.shares names {', '.join(shares)}; tasks.parts names {', '.join(cfg.parts)}")
    for name, share in shares.items():
        if not isinstance(share, int | float) or share <= 0:
            raise UserError(f"tasks.shares.{name}={share}: give a positive weight, or leave the part out")
    splits = {name: sources.load_part(part) for name, part in cfg.parts.items()}
    heldout = [task for split in splits.values() for task in split.heldout[: split.num_heldout]]
    seen = {hash_layers(task.source) for task in heldout}
    train = {
        name: [task for task in split.train if hash_layers(task.source) not in seen] for name, split in splits.items()
    }
    total = min(len(tasks) / shares[name] for name, tasks in train.items())
    ranked: list[tuple[float, str, Task]] = []
    for name, tasks in train.items():
        taken = tasks[: round(total * shares[name])]
        ranked += [((number + 0.5) / shares[name], name, task) for number, task in enumerate(taken)]
    ranked.sort(key=lambda item: item[:2])
    skipped = Counter[str]()
    for split in splits.values():
        skipped.update(split.skipped)
    return sources.TaskSplit(
        [task for _, _, task in ranked], heldout, cfg.num_train, cfg.num_heldout, dict(sorted(skipped.items()))
    )
