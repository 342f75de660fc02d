"""Plain folders of PyTorch code: every `nn.Module` whose inputs can be inferred becomes a task by itself.

`data/mining.py` cuts a class out with what it uses, `data/guessing.py` proposes arguments from its signatures, and
`data/trial.py` finds the first that work. Mined code is run, in a process of its own with limits to time and memory:
give folders whose code you would import.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Literal

from omegaconf import DictConfig

from kernelrl.console import track
from kernelrl.data.guessing import guess_init, guess_inputs
from kernelrl.data.licences import find_licence
from kernelrl.data.mining import MinedModule, Unusable, mine
from kernelrl.data.sources import Gathering, TaskSplit, find_folder
from kernelrl.data.trial import Trial, first_that_fit
from kernelrl.data.workers import Limits
from kernelrl.task import Task


def load(cfg: DictConfig) -> TaskSplit:
    """The folder's modules as tasks; `origin` says file and line, `licence` is that of the nearest licence file.

    Args:
        cfg: `path`, `packages` (that a task may import), `timeout_s` and `memory_mb` (of the tries of one class),
            `workers` (null: one per core), `licence` (null: read from the licence files), and the settings of a
            `Gathering`.

    Raises:
        UserError: nothing there.
    """
    root = find_folder(cfg.path, "a folder of Python files")
    found = Gathering(cfg)
    places, trials = [], []
    for file, module in _mine(root, cfg.packages, found):
        place, trial = f"{file.relative_to(root)}:{module.line}", to_trial(module)
        if isinstance(trial, str):
            found.skip(trial, f"{place}: {module.name}")
        else:
            places.append((file, module.name, place))
            trials.append(trial)
    answers = first_that_fit(trials, Limits(cfg.timeout_s, cfg.memory_mb, cfg.workers, fresh=True))
    with track(len(trials), "finding inputs") as progress:
        for (file, name, place), (source, candidates), answer in zip(places, trials, answers, strict=True):
            progress.advance()
            if isinstance(answer, str):
                found.skip(answer, f"{place}: {name}")
                continue
            source += f"\n\ndef get_inputs():\n    return [{', '.join(candidates[answer])}]\n"
            id = f"modules/{file.relative_to(root).with_suffix('')}/{name}"
            licence = cfg.licence or find_licence(file.parent, root)
            found.add(Task(id=id, source=source, origin=f"{root.resolve().name}/{place}", licence=licence))
    return found.split()


def _mine(root: Path, packages: Collection[str], found: Gathering) -> Iterator[tuple[Path, MinedModule]]:
    """Classes that may become tasks; the others are counted."""
    for file in sorted(root.rglob("*.py")):
        if any(part.startswith(".") for part in file.relative_to(root).parts):
            continue
        try:
            mined = list(mine(file.read_text(encoding="utf-8-sig"), packages))
        except (OSError, UnicodeDecodeError):
            found.skip("not_text", str(file))
            continue
        except (SyntaxError, ValueError, RecursionError) as error:
            found.skip("does_not_parse", f"{file}: {error}")
            continue
        for item in mined:
            if isinstance(item, Unusable):
                found.skip(
                    item.reason, f"{file}:{item.line}: {item.name}" + (f": {item.detail}" if item.detail else "")
                )
            else:
                yield file, item


def to_trial(module: MinedModule) -> Trial | Literal["constructor_arguments", "forward_arguments"]:
    """A mined class as a program without inputs, with inputs to try on it; or which arguments cannot be guessed."""
    arguments = guess_init(module.init)
    if arguments is None:
        return "constructor_arguments"
    candidates = guess_inputs(module.forward, module.definition, module.init)
    if not candidates:
        return "forward_arguments"
    return f"{module.source}\n\ndef get_init_inputs():\n    return [{', '.join(arguments)}]\n", candidates
