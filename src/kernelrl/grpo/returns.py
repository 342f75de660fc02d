"""From the scores of turns to returns, and from returns to advantages.

Shapes: N rows of a batch in groups of G, which are m trajectories of T rows each, one after the other: G = m T. A row
whose return is NaN was left out (an attempt that could not be judged, a trajectory that had ended) and has advantage 0.
"""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean
from typing import Literal

import torch
from torch import Tensor

Baseline = Literal["group", "leave_one_out", "turn_leave_one_out", "batch"]
"""What a return is compared with:

- `group`: the mean of its group, itself included (GRPO, arXiv 2402.03300; Kevin's over all m T turns): TRL's own;
- `leave_one_out`: the mean of the other rows of its group (RLOO, arXiv 2402.14740);
- `turn_leave_one_out`: the mean of the other rows of its group at the same turn (TRLOO, Dr. Kernel, arXiv 2602.05885);
- `batch`: the mean of the whole batch (REINFORCE with a batch baseline).
"""


def discounted(scores: Sequence[float | None], parents: Sequence[int | None], gamma: float) -> list[float | None]:
    """Returns of the turns of one trajectory, `R_t = s_t + gamma mean R_c` over the turns c that go on from t.

    Where each turn goes on from the one before it, this is `sum_{i>=t} gamma^(i-t) s_i` (Kevin-32B, arXiv 2507.11948,
    section 3). Turns that do not go on from t, such as answers written beside it, add nothing to its return.

    Args:
        scores: s_t; None: not known. Such a turn has no return. Neither has one that only turns without a return go on
            from: what it led to is not known, and to count that as 0 would punish it for an outage.
        parents: the number of the turn that each goes on from, which is smaller than its own; None: it starts afresh.
    """
    returns: list[float | None] = [None] * len(scores)
    later: list[list[float | None]] = [[] for _ in scores]
    for turn in reversed(range(len(scores))):
        score, parent = scores[turn], parents[turn]
        known = [each for each in later[turn] if each is not None]
        if score is not None and (known or not later[turn] or gamma == 0):
            returns[turn] = score + gamma * fmean(known or [0.0])
        if parent is not None:
            later[parent].append(returns[turn])
    return returns


def advantages(returns_N: Tensor, turns_N: Tensor, group_size: int, baseline: Baseline, scale: str) -> Tensor:
    """(N,) advantages.

    A row that has nothing to be compared with (a group of one, the last trajectory at its turn) has advantage 0, not
    its raw return.

    Args:
        returns_N: (N,) NaN: left out.
        turns_N: (N,) which turn of its trajectory a row is, from 0.
        group_size: G.
        baseline: see `Baseline`.
        scale: `group`, `batch` or `none`: the standard deviation by which they are divided, as in `GRPOTrainer`.
    """
    known_N = ~returns_N.isnan()
    values_N = returns_N.nan_to_num(0.0)
    rows = torch.arange(len(returns_N), device=returns_N.device)
    if baseline == "batch":
        cell_N = torch.zeros_like(rows)
    elif baseline == "turn_leave_one_out":
        cell_N = rows // group_size * (int(turns_N.max()) + 1) + turns_N
    else:
        cell_N = rows // group_size
    num_cells = int(cell_N.max()) + 1
    sums = torch.zeros(num_cells, dtype=values_N.dtype, device=values_N.device).index_add(0, cell_N, values_N)
    counts = torch.zeros_like(sums).index_add(0, cell_N, known_N.to(values_N.dtype))
    if baseline in ("leave_one_out", "turn_leave_one_out"):
        others = counts[cell_N] - 1
        means_N = torch.where(others > 0, (sums[cell_N] - values_N) / others.clamp(min=1), values_N)
    else:
        means_N = sums[cell_N] / counts[cell_N].clamp(min=1)
    centred_N = torch.where(known_N, values_N - means_N, 0.0)
    if scale == "none":
        return centred_N
    spread = returns_N.view(-1, group_size) if scale == "group" else returns_N[None]
    seen = (~spread.isnan()).sum(1, keepdim=True)
    squares = (spread - spread.nanmean(1, keepdim=True)).square().nansum(1, keepdim=True)
    deviation = (squares / (seen - 1).clamp(min=1)).sqrt()
    return centred_N / (deviation.expand_as(spread).flatten() + 1e-4)
