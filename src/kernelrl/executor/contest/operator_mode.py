"""The base of all that looks on, or changes something, where PyTorch's operators run."""

from __future__ import annotations

from typing import Any

from torch.utils._python_dispatch import TorchDispatchMode


class OperatorMode(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """While it is active, operators that reach PyTorch's dispatcher go through its `__torch_dispatch__`."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False  # the decorator that keeps torch.compile out would import it, which takes a second


def arguments_of(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
    """All arguments of an operator by their names."""
    defaults = {argument.name: argument.default_value for argument in func._schema.arguments}
    return defaults | dict(zip(defaults, args, strict=False)) | kwargs
