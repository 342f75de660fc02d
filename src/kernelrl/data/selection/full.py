"""ConCuR's three criteria (arXiv 2510.07356, section 3.5)."""

from __future__ import annotations

import ast
import random
from typing import Annotated, Literal

from pydantic import Field

from kernelrl.data.rewriting import find_class
from kernelrl.data.selection import Pool, Selection, Triple, selector
from kernelrl.task import Task


@selector("full", needs_speedup=True)
def select_full(
    pool: Pool,
    *,
    min_speedup: Annotated[float, Field(gt=0)] = 5.0,
    bound: Literal["median", "low"] = "median",
    min_kernels: Annotated[int, Field(ge=1)] = 1,
    max_single_operator: Annotated[int, Field(ge=0)] | None = 544,
    untimed: Literal["drop", "keep"] = "drop",
) -> Selection:
    """Choose by (a) conciseness and speed together, (b) speed alone, (c) task type. No question gives two rows.

    (a) The kernel with a question's shortest reasoning, when it is also the question's fastest; of equally short ones
    the faster. (b) Of the questions left, the fastest kernel, when its speedup is above `min_speedup`. (c) Of the
    single-operator tasks left, the kernel with the shortest reasoning, for `max_single_operator` of them drawn by the
    seed. The paper does not say which kernel of a task (b) and (c) take, nor that they take one: its counts (3,934 +
    414 + 544 = 4,892) only say that no row counts twice.

    Args:
        min_speedup: the paper's is 5.
        bound: of the speedup in (b): `median` is the paper's point estimate, `low` counts only what is proven.
        min_kernels: correct kernels that a question must have for (a); with 1, which the paper does not rule out, a
            kernel wins without a rival.
        max_single_operator: the paper has 544; None: all.
        untimed: what becomes of a question none of whose kernels has a speedup (Triton's interpreter): `keep` lets its
            shortest reasoning in, as criterion `shortest_untimed`; the paper has no such questions.
    """
    chosen: dict[str, list[Triple]] = {"shortest_and_fastest": [], "speedup": []}
    single_operator: list[Triple] = []
    for kernels in pool.questions:
        fastest = max(kernels, key=lambda triple: triple.speedup_or_zero("median"))
        shortest = min(kernels, key=lambda triple: (triple.tokens, -triple.speedup_or_zero("median")))
        is_fastest = fastest.speedup is not None and shortest.speedup_or_zero("median") == fastest.speedup.median
        if fastest.speedup is None and untimed == "keep":
            chosen.setdefault("shortest_untimed", []).append(shortest)
        elif is_fastest and len(kernels) >= min_kernels:
            chosen["shortest_and_fastest"].append(shortest)
        elif fastest.speedup_or_zero(bound) > min_speedup:
            chosen["speedup"].append(fastest)
        elif is_single_operator(pool.tasks[shortest.task_id]):
            single_operator.append(shortest)
    if max_single_operator is not None and max_single_operator < len(single_operator):
        single_operator = random.Random(pool.seed).sample(single_operator, max_single_operator)
    return Selection(chosen | {"single_operator": single_operator})


FREE = frozenset(
    "view reshape transpose permute flatten squeeze unsqueeze contiguous expand size dim numel float to len".split()
)
"""Calls that compute nothing."""


def is_single_operator(task: Task) -> bool:
    """Whether a task applies one operator: by its list of operators, else by its level, else by its program.

    The program's operators are the calls and the arithmetic in the methods of `Model`, its constructor left out.
    """
    if task.ops:
        return len(task.ops) == 1
    if task.level is not None:
        return task.level == 1
    model = find_class(ast.parse(task.source), "Model")
    members = model.body if model else []
    methods = [item for item in members if isinstance(item, ast.FunctionDef) and item.name != "__init__"]
    return sum(_is_operator(node) for method in methods for node in ast.walk(method)) == 1


def _is_operator(node: ast.AST) -> bool:
    if isinstance(node, ast.Call):
        return (node.func.attr if isinstance(node.func, ast.Attribute) else ast.unparse(node.func)) not in FREE
    return isinstance(node, ast.BinOp)
