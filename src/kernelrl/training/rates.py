"""Learning rates by name of parameter: what an adapter adds and what a norm scales learn at rates of their own."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping

import torch
from omegaconf import DictConfig

from kernelrl.configs import to_dict
from kernelrl.errors import UserError


def read_rates(node: DictConfig | None) -> dict[str, float]:
    """`grpo.rates`: learning rates by regular expression; none where it is null.

    Raises:
        UserError: it is something else.
    """
    if node is None:
        return {}
    if not isinstance(node, DictConfig):
        raise UserError(f"grpo.rates={node}: give rates by a pattern of names, e.g. grpo.rates={{norm: 1e-2}}")
    rates = {str(pattern): rate for pattern, rate in to_dict(node).items()}
    for pattern, rate in rates.items():
        try:
            re.compile(pattern)
        except re.error as error:
            raise UserError(f"grpo.rates: {pattern!r} is no regular expression: {error}") from None
        if not isinstance(rate, (int, float)) or isinstance(rate, bool) or not 0 <= rate < math.inf:
            raise UserError(f"grpo.rates: {pattern}={rate}: give a learning rate, e.g. 1e-2")
    return rates


def set_rates(
    optimizer: torch.optim.Optimizer, parameters: Iterable[tuple[str, torch.nn.Parameter]], rates: Mapping[str, float]
) -> None:
    """Give parameters whose name contains a match of a pattern the rate of the first such pattern.

    The schedule of the trainer multiplies all rates alike, so this has to be done before the schedule is made.

    Args:
        optimizer: has not taken a step.
        parameters: of the model, with their names.
        rates: learning rates by regular expression.

    Raises:
        UserError: no parameter that is trained has such a name.
    """
    names = {id(parameter): name for name, parameter in parameters}
    groups = optimizer.param_groups
    for pattern, rate in rates.items():
        found = False
        for group in [group for group in groups if not group.get("own_rate")]:
            chosen = [each for each in group["params"] if re.search(pattern, names[id(each)])]
            if chosen:
                found = True
                left = {id(each) for each in chosen}
                group["params"] = [each for each in group["params"] if id(each) not in left]
                optimizer.add_param_group(dict(group) | {"params": chosen, "lr": rate, "own_rate": True})
        if not found:
            trained = sorted(names[id(each)] for group in groups for each in group["params"])
            raise UserError(
                f"grpo.rates: no parameter that is trained has {pattern!r} in its name; there are "
                f"{len(trained)}, {trained[0]} one of them"
            )
    groups[:] = [group for group in groups if group["params"]]  # an empty one would not be restored under FSDP
