"""Tensors by value: small ones in messages, others in mapped memory."""

from __future__ import annotations

import ctypes
import math
import mmap
from collections.abc import Iterable, Iterator
from typing import Any

import torch
from torch.utils._pytree import tree_leaves

from kernelrl.executor import trees

_LIBC = ctypes.CDLL(None)
_LIBC.memcmp.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t]


def literal(tensor: torch.Tensor) -> dict[str, Any]:
    """A small tensor by value."""
    return {"dtype": str(tensor.dtype), "shape": list(tensor.shape), "values": tensor.flatten().tolist()}


def value_at(memory: mmap.mmap, item: dict[str, Any]) -> torch.Tensor:
    """A tensor's values at an offset of mapped memory."""
    dtype, count = trees.DTYPES[item["dtype"]], math.prod(item["shape"])
    raw = bytearray(memory[item["offset"] : item["offset"] + count * dtype.itemsize])
    return torch.frombuffer(raw, dtype=dtype, count=count).reshape(item["shape"])


def tensor_of(item: dict[str, Any]) -> torch.Tensor:
    """What `literal` has made of a tensor."""
    return torch.tensor(item["values"], dtype=trees.DTYPES[item["dtype"]]).reshape(item["shape"])


def all_are_finite(values: torch.Tensor) -> bool:
    """Whether none is NaN or infinite. A finite sum tells it in a tenth of the time."""
    return math.isfinite(float(values.sum())) or bool(values.isfinite().all())


def are_same_bytes(first: torch.Tensor, second: torch.Tensor) -> bool:
    """Whether two tensors of one shape and dtype hold the same. `torch.equal` takes twice as long, and is as slow where
    the first element tells."""
    if first.nbytes != second.nbytes or not (first.is_contiguous() and second.is_contiguous()):
        return torch.equal(first, second)
    return bool(_LIBC.memcmp(first.data_ptr(), second.data_ptr(), first.nbytes) == 0)


def tensors_in(tree: Any) -> list[torch.Tensor]:
    """The tensors among the leaves of a tree, e.g. of an operator's arguments."""
    return [leaf for leaf in tree_leaves(tree) if isinstance(leaf, torch.Tensor)]


def numbers_among(given: Iterable[Any]) -> Iterator[float]:
    """Numbers among arguments; tensors of one element count."""
    for item in given:
        if isinstance(item, int | float) and not isinstance(item, bool):
            yield item
        elif isinstance(item, torch.Tensor) and not item.dim() and not item.is_complex():
            yield float(item.detach())


def real(tensor: torch.Tensor) -> torch.Tensor:
    """The tensor, or the same memory as pairs of real numbers where it holds complex ones."""
    return torch.view_as_real(tensor) if tensor.is_complex() and not tensor.is_conj() else tensor
