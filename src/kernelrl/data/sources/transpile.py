"""Translation tasks: tasks whose kernel in one dialect is known, to be written in another (HPCTransCompile).

Reads the verified proposals of an earlier curation (`kernelrl curate dialect=cuda …`) and gives its tasks with one of
its kernels each (`Task.given`). With `prompt=transpile` that kernel is what a policy is shown; the verdict is still the
task's.
"""

from __future__ import annotations

from pathlib import Path

from omegaconf import DictConfig

from kernelrl.data.sources import TaskSplit
from kernelrl.data.tables import read_verified
from kernelrl.errors import UserError
from kernelrl.task import Given, Task


def load(cfg: DictConfig) -> TaskSplit:
    """Tasks with a kernel to translate, in the order of the earlier curation and in its split.

    So no task that was held out there is trained on here.

    Args:
        cfg: `given` (`curate.verified` of a curation), `accept` (statuses of verdicts), `num_train` and `num_heldout`
            (null: all).

    Raises:
        UserError: the folder is not given or no curation's, or none of its tasks of a split has such a kernel.
    """
    if cfg.given is None:
        raise UserError(
            "tasks.given is not set; give the folder `verified` of a curation in the dialect to translate from"
        )
    folder = Path(cfg.given).expanduser()
    splits: dict[str, dict[str, Task]] = {"train": {}, "heldout": {}}
    for task, row in read_verified(folder, frozenset(cfg.accept)):
        given = Given(dialect=row["dialect"], source=row["kernel"], status=row["verdict"]["status"])
        translated = task.model_copy(update={"given": given, "id": f"{task.id}/from-{given.dialect}"})
        splits[row["split"]].setdefault(task.id, translated)
    for name, tasks in splits.items():
        if not tasks:
            raise UserError(
                f"tasks.given={folder}: no {name} task has a kernel with a verdict of {', '.join(cfg.accept)}; verify "
                f"more there: curate.num_triples=, curate.num_heldout_triples="
            )
    train, heldout = (list(tasks.values()) for tasks in splits.values())
    return TaskSplit(train, heldout, cfg.num_train, cfg.num_heldout)
