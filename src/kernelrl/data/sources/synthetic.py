"""Synthetic tasks: chains of operators (`data/graph/chain.py`). The same settings give the same tasks everywhere."""

from __future__ import annotations

import random

from omegaconf import DictConfig

from kernelrl.data.graph.chain import OPERATORS, SHAPES, draw_chains, make_task
from kernelrl.data.sources import TaskSplit

SPARE, SPARE_TASKS = 1.5, 4
"""Tasks drawn per task wanted, and beside these: every fifth has an idle operator, and some fail another filter."""


def load(cfg: DictConfig) -> TaskSplit:
    """Draw distinct chains and deal them out to the two splits.

    Args:
        cfg: `seed`, `num_train`, `num_heldout`, `min_ops` and `max_ops` (operators in a chain), `operators` (names;
            null: all).

    Raises:
        UserError: an unknown operator, or fewer chains than tasks asked for.
    """
    rng = random.Random(cfg.seed)
    num_train, num_heldout = (int(wanted * SPARE) + SPARE_TASKS for wanted in (cfg.num_train, cfg.num_heldout))
    chains = draw_chains(rng, cfg.operators or OPERATORS, num_train + num_heldout, cfg.min_ops, cfg.max_ops)
    tasks = [make_task(ops, *rng.choice(SHAPES)) for ops in chains]
    return TaskSplit(tasks[num_heldout:], tasks[:num_heldout], cfg.num_train, cfg.num_heldout)
