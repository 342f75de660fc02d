"""Trees of tensors: what `forward` takes or returns, in a form that travels in a message.

A tree has tensors, numbers, strings, None and lists, tuples and dicts of them. Tensors travel beside the tree, as
specifications of memory.
"""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch

from kernelrl.executor.wire import WireError

MAX_VALUES = 4096
"""Tensors, numbers and other leaves of one tree."""
MAX_PARTS = 16 * MAX_VALUES
"""Objects, lists and leaves of a tree's form."""
DTYPES: dict[str, torch.dtype] = {
    str(dtype): dtype
    for dtype in (
        torch.float64,
        torch.float32,
        torch.float16,
        torch.bfloat16,
        torch.int64,
        torch.int32,
        torch.int16,
        torch.int8,
        torch.uint8,
        torch.bool,
    )
}


def flatten(tree: Any, tensors: list[torch.Tensor], numbers: torch.dtype | None = None) -> Any:
    """JSON form of a tree; its tensors are appended to `tensors` and stand in the form as `{"tensor": index}`.

    The tensors of equal dictionaries have equal numbers, in whichever order their keys come.

    Args:
        tree: of lists, tuples and dictionaries.
        tensors: see above.
        numbers: numbers become tensors as well, floating-point ones of this dtype, and stand as `{"number": index}`.

    Raises:
        TypeError: names the type that cannot travel, or says that there are more than `MAX_VALUES` values.
    """
    return _flatten(tree, tensors, numbers, itertools.count(1))


def _flatten(tree: Any, tensors: list[torch.Tensor], numbers: torch.dtype | None, count: Iterator[int]) -> Any:
    if next(count) > MAX_VALUES:
        raise TypeError(f"more than {MAX_VALUES} values cannot be passed to or from a kernel")
    if isinstance(tree, torch.Tensor):
        tensors.append(tree)
        return {"tensor": len(tensors) - 1}
    if numbers is not None and (type(tree) in (bool, float) or (type(tree) is int and abs(tree) < 2**63)):
        tensors.append(torch.tensor(tree, dtype=numbers if type(tree) is float else None))
        return {"number": len(tensors) - 1}
    if tree is None or type(tree) in (bool, int, str):
        return tree
    if type(tree) is float:
        return {"float": tree.hex()}
    if isinstance(tree, list):  # of the base class, like the others: a subclass could compute when it is read
        return {"list": [_flatten(item, tensors, numbers, count) for item in list.__iter__(tree)]}
    if isinstance(tree, tuple):
        return {"tuple": [_flatten(item, tensors, numbers, count) for item in tuple.__iter__(tree)]}
    if isinstance(tree, dict):
        keys = [_flatten(key, tensors, None, count) for key in dict.__iter__(tree)]
        values = list(dict.values(tree))
        forms: list[Any] = [None] * len(keys)
        for place in sorted(range(len(keys)), key=lambda place: repr(keys[place])):
            forms[place] = _flatten(values[place], tensors, numbers, count)
        return {"dict": [list(pair) for pair in zip(keys, forms, strict=True)]}
    if isinstance(tree, torch.dtype | torch.device):
        return {type(tree).__name__: str(tree)}
    raise TypeError(f"values of type {type(tree).__name__} cannot be passed to a kernel")


def unflatten(form: Any, tensors: list[torch.Tensor]) -> Any:
    """The tree of a form made by `flatten`."""
    if not isinstance(form, dict):
        return form
    ((kind, value),) = form.items()
    match kind:
        case "tensor":
            return tensors[value]
        case "float":
            return float.fromhex(value)
        case "list":
            return [unflatten(item, tensors) for item in value]
        case "tuple":
            return tuple(unflatten(item, tensors) for item in value)
        case "dict":
            return {unflatten(key, tensors): unflatten(item, tensors) for key, item in value}
        case "dtype":
            return DTYPES[value]
        case "device":
            return torch.device(value)
    raise WireError(f"unknown form {kind!r}")


def map_tensors(tree: Any, function: Callable[[torch.Tensor], torch.Tensor]) -> Any:
    """The same tree with each tensor replaced; a tuple with names becomes a plain one, as it does on its way."""
    if isinstance(tree, torch.Tensor):
        return function(tree)
    if isinstance(tree, tuple | list):
        items = (map_tensors(item, function) for item in tree)
        return tuple(items) if isinstance(tree, tuple) else list(items)
    if isinstance(tree, dict):
        return {key: map_tensors(item, function) for key, item in tree.items()}
    return tree


def outline(form: Any) -> str:
    """Digest of a tree's form, for which a list and a tuple are the same, and the keys of a dictionary have no order.

    It takes time that is linear in the form's size.

    Raises:
        ValueError: the form is larger, or deeper, than that of any tree that may travel.
    """
    _check_size(form)
    try:
        return _outline(form).hex()
    except RecursionError:
        raise ValueError("too deep") from None


def _check_size(form: Any) -> None:
    left, count = [form], 0
    while left:
        part = left.pop()
        parts = part if isinstance(part, list) else list(part.values()) if isinstance(part, dict) else []
        count += len(parts)
        if count > MAX_PARTS:
            raise ValueError("too large")
        left += parts


def _outline(form: Any) -> bytes:
    if isinstance(form, dict) and isinstance(pairs := form.get("dict"), list):
        parts = [b"dict", *sorted(_outline(pair) for pair in pairs)]
    elif isinstance(form, dict):
        named = {"tuple" if key == "list" else key: value for key, value in form.items()}
        parts = [b"form", *(part for key in sorted(named) for part in (_outline(key), _outline(named[key])))]
    elif isinstance(form, list):
        parts = [b"list", *map(_outline, form)]
    else:
        parts = [b"leaf", repr(int(form) if isinstance(form, bool) else form).encode()]
    return hashlib.sha256(b"".join(len(part).to_bytes(4, "little") + part for part in parts)).digest()


def span_bytes(shape: list[int], stride: list[int], itemsize: int) -> int:
    """Bytes from a tensor's first element to the end of its last, for non-negative strides; 0 for an empty tensor."""
    if 0 in shape:
        return 0
    return (sum((size - 1) * step for size, step in zip(shape, stride, strict=True)) + 1) * itemsize


def is_dense(shape: Sequence[int], stride: Sequence[Any]) -> bool:
    """Whether the elements fill their span exactly, in whatever order of dimensions."""
    if not all(isinstance(step, int) and step >= 0 for step in stride):
        return False
    step = 1
    for length, found in sorted(zip(shape, stride, strict=True), key=lambda pair: (pair[1], pair[0])):
        if length != 1 and found != step:
            return False
        step *= max(length, 1)
    return True


def order(shape: Sequence[int], stride: Sequence[int]) -> list[int]:
    """The dimensions by their steps, the longest first; those of length one, or without a step, have no place."""
    dims = [dim for dim, length in enumerate(shape) if length > 1 and stride[dim]]
    return sorted(dims, key=stride.__getitem__, reverse=True)


def describe(tensor: torch.Tensor) -> dict[str, Any]:
    """Where a tensor's memory is and how it is to be read. Of a subclass, which could lie or compute, only the name."""
    if type(tensor) not in (torch.Tensor, torch.nn.Parameter):
        name = f"{type(tensor).__module__}.{type(tensor).__qualname__}"
        return {"type": name, "dtype": None, "shape": [], "stride": None, "device": None, "layout": None, "pointer": 0}
    return {
        "dtype": str(tensor.dtype),
        "shape": list(tensor.shape),
        "stride": list(tensor.stride()) if tensor.layout == torch.strided else None,
        "device": tensor.device.type,
        "layout": str(tensor.layout),
        "pointer": tensor.data_ptr() if tensor.layout == torch.strided else 0,
        "type": type(tensor).__name__,
    }
