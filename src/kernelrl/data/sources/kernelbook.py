"""KernelBook (huggingface.co/datasets/GPUMODE/KernelBook): PyTorch modules from public code, with Inductor's Triton.

A row holds `python_code` (the module under its own name, which `entry_point` gives, `get_inputs()`, and
`get_init_inputs()` as `[[arguments], {keywords}]`), `triton_code` (the same module as `NAMENew`), and from where it
comes: `repo_name`, `module_name`, `licenses`, `sha`, `repo_link`, `uuid`.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator
from typing import Any

from omegaconf import DictConfig

from kernelrl.data.hub import read_rows
from kernelrl.data.rewriting import find_class, find_function, rename, replace_statement, to_positional
from kernelrl.data.sources import Gathering, Kernel, TaskSplit
from kernelrl.task import Task

_WHAT = "a copy of the data set, e.g. dataset_permissive.parquet"


def load(cfg: DictConfig) -> TaskSplit:
    """The modules as tasks: each is renamed `Model`, and its constructor's keywords become positional.

    Args:
        cfg: `path` (what `datasets.load_dataset` takes: a name, a folder or a file), and the settings of a `Gathering`.

    Raises:
        UserError: nothing there, or columns are missing.
    """
    found = Gathering(cfg)
    for id, row in _rows(cfg, lambda where: found.skip("not_text", where), found.revision):
        converted = convert(str(row["python_code"]), str(row["entry_point"]))
        if converted in _REASONS:
            found.skip(converted, id)
        else:
            found.add(Task(id=id, source=converted, origin=_origin(row), licence=_licence(row)))
    return found.split()


def load_kernels(cfg: DictConfig) -> dict[str, list[Kernel]]:
    """The rows' Triton code by task id, its module renamed `ModelNew`; where a row has none, nothing."""
    kernels: dict[str, list[Kernel]] = {}
    for id, row in _rows(cfg, lambda where: None, Gathering(cfg).revision):
        name = f"{row['entry_point']}New"
        if f"class {name}" in (row["triton_code"] or ""):
            kernels[id] = [Kernel("triton", re.sub(rf"\b{name}\b", "ModelNew", row["triton_code"]))]
    return kernels


_REASONS = ("does_not_parse", "no_entry_point", "name_taken", "constructor_arguments")


def convert(code: str, entry_point: str) -> str:
    """A row's program in KernelBench's format, or which of `_REASONS` is against it."""
    try:
        tree = ast.parse(code)
    except (SyntaxError, ValueError):
        return "does_not_parse"
    module, get_init = find_class(tree, entry_point), find_function(tree.body, "get_init_inputs")
    if module is None or get_init is None:
        return "no_entry_point"
    if entry_point != "Model" and find_class(tree, "Model"):
        return "name_taken"
    match get_init.body[-1]:
        case ast.Return(value=ast.List(elts=[ast.List(elts=args), ast.Dict(keys=keys, values=values)])):
            keywords = {str(ast.literal_eval(key)): value for key, value in zip(keys, values, strict=True) if key}
            positional = to_positional(find_function(module.body, "__init__"), args, keywords)
            if positional is None:
                return "constructor_arguments"
            returned = ", ".join(map(ast.unparse, positional))
            code = replace_statement(code, get_init, f"def get_init_inputs():\n    return [{returned}]")
    return rename(code, {entry_point: "Model"})


def _rows(cfg: DictConfig, skip: Callable[[str], None], revision: str | None) -> Iterator[tuple[str, dict[str, Any]]]:
    """Rows with the ids of their tasks; the id is the row's own, so that a part of the data set gives the same ids."""
    columns = ("python_code", "triton_code", "entry_point")
    for number, row in enumerate(read_rows(str(cfg.path), columns, _WHAT, skip, revision)):
        uuid = row.get("uuid")
        yield f"kernelbook/{number if uuid is None else uuid}-{row['entry_point']}", row


def _origin(row: dict[str, Any]) -> str:
    """`kernelbook:OWNER/NAME@COMMIT`, as far as the row says."""
    repository, commit = row.get("repo_name"), row.get("sha")
    return "kernelbook" + (f":{repository}" if repository else "") + (f"@{commit}" if repository and commit else "")


def _licence(row: dict[str, Any]) -> str | None:
    """An SPDX expression; a repository that names several licences is taken to be under all of them."""
    names = row.get("licenses") or []
    return " AND ".join(sorted([names] if isinstance(names, str) else map(str, names))) or None
