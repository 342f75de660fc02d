"""Trying somebody's modules on inputs, in processes of their own that may crash, hang or eat memory."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Literal

import torch
from torch.utils._pytree import tree_leaves

from kernelrl.data.workers import Limits, Lost, run_in_order

Failure = Literal["does_not_load", "no_inputs_fit", "crashed", "too_slow"]
Trial = tuple[str, list[list[str]]]
"""A program with `Model` and `get_init_inputs()`, and candidates: expressions for the inputs of `forward`."""


def first_that_fit(trials: Iterable[Trial], limits: Limits) -> Iterator[int | Failure]:
    """Which inputs programs run on, in the order of the programs.

    Args:
        limits: what one program may use, all tries together.

    Returns:
        The index of the first candidate for which a program's outputs are finite tensors, or why there is none.
    """
    for _, result in run_in_order(_try_all, trials, limits):
        if isinstance(result, Lost):
            yield "too_slow" if result.reason == "out of time" else "crashed"
        else:
            yield result


def _try_all(trial: Trial) -> int | Failure:
    source, candidates = trial
    program: dict[str, Any] = {"__name__": "mined"}
    try:
        exec(compile(source, "mined", "exec"), program)
        torch.manual_seed(0)
        model = program["Model"](*program["get_init_inputs"]())
    except (Exception, SystemExit):  # whatever it raises, it is not usable
        return "does_not_load"
    return next((index for index, inputs in enumerate(candidates) if _fits(model, inputs)), "no_inputs_fit")


def _fits(model: Any, expressions: Sequence[str]) -> bool:
    try:
        with torch.no_grad():
            outputs = tree_leaves(model(*(eval(text, {"torch": torch}) for text in expressions)))
            tensors = [output for output in outputs if isinstance(output, torch.Tensor)]
            return bool(tensors) and all(bool(tensor.isfinite().all()) and tensor.numel() > 0 for tensor in tensors)
    except (Exception, SystemExit):  # of the program, or of an output that is sparse or has no values
        return False
