"""Dialects: the languages that a kernel may be written in, one file each.

A dialect says what counts as a genuine kernel (static rules on Python's `ast`), and how a prompt shows it.
"""

from __future__ import annotations

import ast
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules

from kernelrl.errors import UserError
from kernelrl.syntax import parse
from kernelrl.verdict import Violation

EXAMPLE_TASK = """\
import torch
import torch.nn as nn

class Model(nn.Module):
    def forward(self, x):
        return torch.relu(x) * 2.0

def get_inputs():
    return [torch.randn(1024, 1024)]

def get_init_inputs():
    return []
"""
"""The task that every dialect's example solves (KernelBench format)."""
_EXAMPLES = Path(__file__).parent / "examples"
_CATEGORY = {
    "reduce": "reduction",
    "normalization": "normalisation",
    "softmax": "normalisation",
    "attention": "normalisation",
    "matrix_multiplication": "matmul",
    "convolution": "matmul",
    "resize": "pooling",
}
"""Categories that share an example with another, MultiKernelBench's names among them."""


@dataclass(frozen=True)
class Dialect:
    """A kernel language.

    Attributes:
        name: as it stands in configs, candidates and verdicts.
        title: how a prompt names it, e.g. "C++ with OpenMP".
        find_violations: source text -> the rules that it breaks; empty for a genuine kernel.
        example: a complete honest candidate for `EXAMPLE_TASK`, shown in prompts as the one-shot example.
        may_compute: whether the library's operators may do the work.
    """

    name: str
    title: str
    find_violations: Callable[[str], list[Violation]]
    example: str
    may_compute: bool = False


def names() -> list[str]:
    """Names of all dialects: the modules of this folder that define `DIALECT`."""
    return sorted(
        module.name for module in iter_modules(__path__) if not module.ispkg and not module.name.startswith("_")
    )


def get(name: str) -> Dialect:
    """The dialect of that name.

    Raises:
        UserError: there is none; lists those there are.
    """
    if name not in names():
        raise UserError(f"dialect {name!r} is not known; choose one of {', '.join(names())}")
    dialect: Dialect = import_module(f"{__name__}.{name}").DIALECT
    return dialect


def detect(source: str) -> str:
    """The dialect of a kernel: `triton` where it imports triton, `cuda` where it has CUDA sources, otherwise `cpp`."""
    try:
        tree = parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return "cpp"
    modules = {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
    modules |= {node.module or "" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    if any(module.partition(".")[0] == "triton" for module in modules):
        return "triton"
    keywords = {node.arg for node in ast.walk(tree) if isinstance(node, ast.keyword)}
    return "cuda" if "cuda_sources" in keywords else "cpp"


def looks_like_another(source: str, name: str) -> str:
    """What to add to a message where a text has no kernel of dialect `name`, and may have one of another."""
    other = detect(source)
    is_one = other != "cpp" or "load_inline" in source
    return f": the text looks like dialect={other}" if is_one and other != name else ""


def example(name: str, category: str) -> tuple[str, str]:
    """A task of the category and an honest candidate for it in dialect `name`, to be shown in a prompt.

    Where the dialect has no example of the category: `EXAMPLE_TASK` and the dialect's example for it.
    """
    file = f"{_CATEGORY.get(category, category)}.py"
    if not (_EXAMPLES / name / file).is_file():
        return EXAMPLE_TASK, get(name).example
    return (_EXAMPLES / "tasks" / file).read_text(), (_EXAMPLES / name / file).read_text()
