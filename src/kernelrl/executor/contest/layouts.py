"""Which outputs a program has laid out: data that were copied in another order of dimensions, and nothing else done."""

from __future__ import annotations

from typing import Any

import torch

from kernelrl.executor import trees
from kernelrl.executor.contest.operator_mode import OperatorMode
from kernelrl.executor.contest.values import tensors_in

_WRITE_ANEW = ("clone", "_to_copy")


class Layouts(OperatorMode):  # type: ignore[no-untyped-call]
    """While it is active, notes the tensors to which data were copied in another order of dimensions."""

    def __init__(self) -> None:
        super().__init__()
        self._laid_out: list[torch.Tensor] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        name = func._schema.name.removeprefix("aten::")
        source = args[0] if name in _WRITE_ANEW else args[1] if name == "copy_" else None
        if source is not None:
            if source.shape == result.shape and _order(source) != _order(result):
                self._laid_out.append(result)
        elif func._schema.is_mutable:  # and so it computes
            written = {tensor.untyped_storage().data_ptr() for tensor in tensors_in([*args, *(kwargs or {}).values()])}
            self._laid_out = [each for each in self._laid_out if each.untyped_storage().data_ptr() not in written]
        return result

    def of(self, outputs: Any) -> list[bool]:
        """Of each output: it lies in such a tensor."""
        storages = {tensor.untyped_storage().data_ptr() for tensor in self._laid_out}
        return [output.untyped_storage().data_ptr() in storages for output in tensors_in(outputs)]


def _order(tensor: torch.Tensor) -> list[int]:
    return trees.order(tensor.shape, tensor.stride())
