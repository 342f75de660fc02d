"""KernelBench (github.com/ScalingIntelligence/KernelBench): `level*/NUMBER_NAME.py`, or its data set on the hub.

The data set has the columns `code`, `level`, `name` and `problem_id`, and the splits `level_1` to `level_4`.
"""

from __future__ import annotations

import re
from pathlib import Path

from omegaconf import DictConfig

from kernelrl.data.hub import read_rows
from kernelrl.data.sources import Gathering, TaskSplit
from kernelrl.errors import UserError
from kernelrl.task import Task

_LEVEL = re.compile(r"level_?(\d+)")


def load(cfg: DictConfig) -> TaskSplit:
    """The benchmark's tasks.

    Args:
        cfg: `path` (the folder of `level1/`, …, a checkout that has it in `KernelBench/`, or what
            `datasets.load_dataset` takes), `levels` (null: all), `licence`, and the settings of a `Gathering`.

    Raises:
        UserError: nothing there, or no such level.
    """
    found = Gathering(cfg)
    levels = set()
    for level, name, source in _from_folders(cfg) or _from_rows(cfg, found):
        levels.add(level)
        if cfg.levels is None or level in cfg.levels:
            fields = {"level": level, "origin": "kernelbench", "licence": cfg.licence}
            id = f"kernelbench/level{level}/{name}"
            if isinstance(source, Path):
                found.add_file(source, id=id, **fields)
            else:
                found.add(Task.model_validate({"id": id, "source": source, **fields}))
    if missing := sorted(set(cfg.levels or []) - levels):
        raise UserError(f"tasks.levels={cfg.levels}: {cfg.path} has no level {missing[0]}; it has {sorted(levels)}")
    return found.split()


def _from_folders(cfg: DictConfig) -> list[tuple[int, str, Path]]:
    root = Path(str(cfg.path)).expanduser()
    return [
        (int(match[1]), file.stem, file)
        for parent in (root, root / "KernelBench")
        for folder in sorted(parent.glob("level*"))
        if folder.is_dir() and (match := _LEVEL.fullmatch(folder.name))
        for file in sorted(folder.glob("*.py"))
    ]


def _from_rows(cfg: DictConfig, found: Gathering) -> list[tuple[int, str, str]]:
    what = "the folder that holds level1/, level2/, …, or a copy of the data set"
    columns = ("code", "level", "name")
    rows = read_rows(str(cfg.path), columns, what, lambda where: found.skip("not_text", where), found.revision)
    return [(int(row["level"]), str(row["name"]), str(row["code"])) for row in rows]
