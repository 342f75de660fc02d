"""MultiKernelBench (arXiv 2507.17773; github.com/wzzll123/MultiKernelBench): `reference/CATEGORY/NAME.py`.

Most files are in KernelBench's format. Those of the categories `npukernelbench_*` have `get_input_groups()` instead of
`get_inputs()`: it reads `NAME.json` beside them, a line of shapes, dtypes and values for each case, and draws tensors
of that form. Each case that is taken becomes a task that carries its line. Not covered: references that call an
operator of an NPU.
"""

from __future__ import annotations

import ast
import json
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from omegaconf import DictConfig

from kernelrl.data.licences import find_licence
from kernelrl.data.rewriting import find_function, replace_expressions, replace_statement
from kernelrl.data.sources import Gathering, TaskSplit, find_folder
from kernelrl.errors import UserError
from kernelrl.task import Task

_LISTED = "get_input_groups"


def load(cfg: DictConfig) -> TaskSplit:
    """The benchmark's tasks; the cases of one file stay in the same split.

    Args:
        cfg: `path` (a checkout, or its folder `reference`), `categories` (null: all), `cases` (of a file that lists
            them: so many, the largest first; null: all), `max_elements` (of the inputs of such a case), `licence`
            (null: read from the licence file), and the settings of a `Gathering`.

    Raises:
        UserError: nothing there, or no such category.
    """
    root = find_folder(cfg.path, "a checkout of MultiKernelBench, or its folder reference/")
    reference = root / "reference" if (root / "reference").is_dir() else root
    files = sorted(reference.glob("*/*.py"))
    there = sorted({file.parent.name for file in files})
    if missing := sorted(set(cfg.categories or []) - set(there)):
        raise UserError(f"tasks.categories: {cfg.path} has no {missing[0]!r}; it has {', '.join(there) or 'none'}")
    found = Gathering(cfg)
    licence = cfg.licence or find_licence(root, root)
    for file in files:
        category = file.parent.name
        if cfg.categories is None or category in cfg.categories:
            id = f"multikernelbench/{category}/{file.stem}"
            fields = {"category": category, "origin": "multikernelbench", "licence": licence}
            if f"def {_LISTED}" in file.read_bytes().decode(errors="replace"):
                _add_cases(found, file, id, fields, cfg)
            else:
                found.add_file(file, id=id, **fields)
    return found.split()


def _add_cases(found: Gathering, file: Path, id: str, fields: dict[str, Any], cfg: DictConfig) -> None:
    """Add a task for each case that a file lists and that is wanted."""
    try:
        text = file.read_text(encoding="utf-8-sig")
        lines = file.with_suffix(".json").read_text(encoding="utf-8-sig").splitlines()
        sizes = {line: _count_elements(json.loads(line)["inputs"]) for line in lines if line.strip()}
    except (OSError, UnicodeDecodeError, ValueError, KeyError, TypeError) as error:
        return found.skip("no_cases", f"{file}: {type(error).__name__}: {error}")
    if "torch_npu" in text:
        return found.skip("reference_in_torch_npu", str(file))
    fitting = sorted((line for line in sizes if sizes[line] <= cfg.max_elements), key=lambda line: -sizes[line])
    if not fitting:
        return found.skip("too_large" if sizes else "no_cases", str(file))
    numbers = {line: number for number, line in enumerate(sizes, 1)}
    for line in fitting[: cfg.cases]:
        try:
            source = _embed(text, line)
        except (SyntaxError, ValueError) as error:
            return found.skip("does_not_parse", f"{file}: {error}")
        found.add(Task(id=f"{id}/{numbers[line]}", source=source, **fields), program=id)


def _embed(text: str, line: str) -> str:
    """The file in KernelBench's format, with one case in place of the file that it would read."""
    tree = ast.parse(text)
    opened = [node for node in ast.walk(tree) if isinstance(node, ast.Call) and ast.unparse(node.func) == "open"]
    text = replace_expressions(text, dict.fromkeys(opened, "io.StringIO(CASE)"))
    function = find_function(ast.parse(text).body, _LISTED)
    assert function is not None
    function.body = [each for each in function.body if "__file__" not in ast.unparse(each)]
    text = replace_statement(text, function, ast.unparse(function))
    return f"import io\n{text.rstrip()}\n\n\nCASE = {line!r}\n\n\ndef get_inputs():\n    return {_LISTED}()[0]\n"


def _count_elements(inputs: Any) -> int:
    """Of all tensors whose shape a case gives, also of those in lists."""
    return sum(math.prod(shape) for each in inputs for shape in _shapes(each.get("shape")))


def _shapes(shape: Any) -> Iterator[list[int]]:
    if isinstance(shape, list):
        if all(isinstance(length, int) for length in shape):
            yield shape
        else:
            for part in shape:
                yield from _shapes(part)
