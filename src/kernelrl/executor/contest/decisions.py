"""Decisions that a program makes on its way: which values its operators choose, and between which they find places."""

from __future__ import annotations

from typing import Any

import torch

from kernelrl.executor.contest.operator_mode import OperatorMode, arguments_of

_DECIDE = frozenset("argmax argmin topk sort argsort max min kthvalue median searchsorted bucketize".split())
MOST = 4096
"""Decisions of one operator beyond which some are close in any inputs."""


class Decisions(OperatorMode):  # type: ignore[no-untyped-call]
    """While it is active, keeps the indices that operators give which choose by the order of values.

    In which order the largest come is left out: often nothing hangs on it.
    """

    def __init__(self) -> None:
        super().__init__()
        self.made: list[torch.Tensor] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        result = func(*args, **kwargs)
        name = func._schema.name.removeprefix("aten::")
        if name in _DECIDE:
            chosen = result[-1] if isinstance(result, tuple) else result
            if chosen.dtype == torch.int64 and chosen.numel() <= MOST and args[0].is_floating_point():
                in_any_order = name == "topk" and chosen.dim() > 0
                self.made.append(
                    chosen.sort(arguments_of(func, args, kwargs)["dim"])[0] if in_any_order else chosen.clone()
                )
        return result
