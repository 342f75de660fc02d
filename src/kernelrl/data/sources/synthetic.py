"""Synthetic tasks: KernelBench-format programs that compose operators (`data/operators.py`).

Seeded and deterministic: the same settings give the same tasks in the same order on every machine.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence

from omegaconf import DictConfig

from kernelrl.data.operators import CATEGORIES, OPERATORS, Category, Operator, category_of
from kernelrl.data.sources import TaskSplit
from kernelrl.errors import UserError
from kernelrl.task import Task

SPARE = 1.25
"""Tasks drawn per task wanted: some of them fail a filter."""
SHAPES = ((512, 2048), (768, 1536), (1024, 1024), (1280, 768), (1536, 768), (2048, 512))
"""Rows and columns: about a million elements, so that one eager call takes milliseconds."""


def load(cfg: DictConfig) -> TaskSplit:
    """Draw distinct compositions and deal them out to the two splits.

    Args:
        cfg: `seed`, `num_train`, `num_heldout`, `min_ops` and `max_ops` (operators in a composition), `operators`
            (names; null: all).

    Raises:
        UserError: an unknown operator, or fewer compositions than tasks asked for.
    """
    rng = random.Random(cfg.seed)
    num_train, num_heldout = int(cfg.num_train * SPARE) + 1, int(cfg.num_heldout * SPARE) + 1
    operators = [OPERATORS[name] for name in _known(cfg.operators or list(OPERATORS))]
    compositions = _draw_compositions(rng, operators, num_train + num_heldout, cfg.min_ops, cfg.max_ops)
    tasks = [make_task(ops, *rng.choice(SHAPES)) for ops in compositions]
    return TaskSplit(tasks[num_heldout:], tasks[:num_heldout], cfg.num_train, cfg.num_heldout)


def make_task(ops: tuple[str, ...], rows: int, columns: int) -> Task:
    """The task that applies `ops` in order to a matrix of `rows` times `columns`."""
    operators = [OPERATORS[name] for name in ops]
    tensors = [operator.tensor for operator in operators if operator.tensor]
    arguments = ", ".join(["x", *(name for name, _ in tensors)])
    draws = ["torch.randn(M, K)" if ops[0] == "matmul" else "torch.randn(M, N)", *(draw for _, draw in tensors)]
    forward = "".join(f"        x = {operator.torch}\n" for operator in operators)
    source = f"""\
import torch
import torch.nn.functional as F
from torch import nn

M, N, K = {rows}, {columns}, 64


class Model(nn.Module):
    def forward(self, {arguments}):
{forward}        return x


def get_inputs():
    return [{", ".join(draws)}]


def get_init_inputs():
    return []
"""
    return Task(
        id=f"synthetic/{'-'.join(ops)}/{rows}x{columns}",
        source=source,
        category=category_of(ops),
        level=2 if len(ops) > 1 else 1,
        origin="synthetic",
        ops=ops,
    )


def _known(names: Sequence[str]) -> Sequence[str]:
    for name in names:
        if name not in OPERATORS:
            raise UserError(f"tasks.operators: {name!r} is not known; choose from {', '.join(OPERATORS)}")
    return names


def _draw_compositions(
    rng: random.Random, operators: Sequence[Operator], count: int, min_ops: int, max_ops: int
) -> list[tuple[str, ...]]:
    """`count` distinct compositions, in the order drawn."""
    by_category: dict[Category, list[str]] = {category: [] for category in CATEGORIES}
    for operator in operators:
        by_category[operator.category].append(operator.name)
    drawn: dict[tuple[str, ...], None] = {}
    for _ in range(100 * count):
        drawn[_draw_composition(rng, by_category, rng.randint(min_ops, max_ops))] = None
        if len(drawn) == count:
            return list(drawn)
    raise UserError(
        f"tasks: only {len(drawn)} compositions of {min_ops} to {max_ops} operators found where {count} are needed; "
        "raise tasks.max_ops or lower tasks.num_train"
    )


def _draw_composition(
    rng: random.Random, by_category: Mapping[Category, Sequence[str]], length: int
) -> tuple[str, ...]:
    """No operator twice; half of the compositions end in a reduction or a loss, an eighth begin with a matmul."""
    head = [*by_category["matmul"]] if rng.random() < 1 / 8 else []
    tail = [rng.choice([*by_category["reduction"], *by_category["loss"]])] if rng.random() < 1 / 2 else []
    in_between: tuple[Category, ...] = ("elementwise", "broadcast", "normalisation")
    available = sum(len(by_category[category]) for category in in_between)
    middle: list[str] = []
    while len(middle) < min(length - len(head) - len(tail), available):
        (category,) = rng.choices(in_between, (6, 2, 2))
        name = rng.choice(by_category[category])
        if name not in middle:
            middle.append(name)
    return (*head, *middle, *tail)
