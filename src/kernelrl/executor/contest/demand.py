"""What a task demands of every program that does it: how much of its inputs must be read, and what must be computed.

Runs in the process of a reference, which is trusted text.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch.utils.flop_counter import FlopCounterMode

from kernelrl.executor import wire
from kernelrl.executor.legality.operators import ALLOCATION_AND_VIEWS

SAMPLES = 12
"""Elements of each tensor that are tried. That all of them matter where less than half of the tensor does happens to
one tensor in 4,000."""
MIN_SAMPLES = 6
"""Tensors of which fewer were tried before the time was up are not counted."""
PRODUCTS = frozenset(f"aten::{name}" for name in "mm addmm bmm baddbmm".split())


def read_bytes(
    model: torch.nn.Module, draw: Callable[[int], tuple[Any, ...]], seeds: list[int], parameters: bool, budget_s: float
) -> int:
    """Memory that every program must read because the outputs depend on it (in bytes; never too much).

    Elements are tried at random: one that has the same value for all seeds, or that leaves every output as it is
    whether it is much larger or much smaller, need not be read. A tensor counts with the share of the elements that
    matter. Where the reference is slow, or gives other outputs for the same inputs, nothing is known.

    Args:
        model: the reference.
        draw: its inputs, by seed.
        seeds: of which the first makes the inputs that are tried.
        parameters: they count too, because their values are hidden ones.
        budget_s: time that the trials may take (in seconds).
    """
    started = time.perf_counter()
    draws = [draw(seed) for seed in seeds]
    first, *others = [_tensors(each) for each in draws]
    expected = _run(model, draws[0])
    if time.perf_counter() - started > budget_s / 4 or not _same(_run(model, draws[0]), expected):
        return 0
    chooser = torch.Generator().manual_seed(seeds[0])
    tried = []
    for number, tensor in enumerate(first):
        changing = [other[number] for other in others]
        tried.append((tensor, list(_positions(tensor, changing, chooser))))
    if parameters:
        tried += [(each.data, list(_positions(each.data, [], chooser))) for each in model.parameters()]
    tried = [(tensor, places) for tensor, places in tried if tensor.numel()]
    matters = [list[bool]() for _ in tried]
    for sample in range(SAMPLES):
        for (tensor, places), found in zip(tried, matters, strict=True):
            if time.perf_counter() - started < budget_s:
                place = places[sample]
                found.append(place is not None and _matters(model, draws[0], tensor, place, expected))
    return sum(
        int(_span_bytes(tensor) * sum(found) / len(found))
        for (tensor, _), found in zip(tried, matters, strict=True)
        if len(found) >= MIN_SAMPLES
    )


def product_flops(model: torch.nn.Module, inputs: tuple[Any, ...], names: frozenset[str]) -> int:
    """Operations of a reference that is one product of full matrices, views aside; 0: it is something else.

    Of what else a reference computes, less may do: sums of a product need no product, convolutions have fast
    transforms, zeros need not be multiplied.

    Args:
        model: the reference.
        inputs: its inputs, with values as the task draws them.
        names: the operators that it calls.
    """
    computing = names - ALLOCATION_AND_VIEWS
    if len(computing) != 1 or not computing <= PRODUCTS:
        return 0
    factors = [each for each in (*_tensors(inputs), *model.parameters()) if each.dim() > 1]
    if any(each.dtype not in (torch.float32, torch.float64) or (each == 0).any() for each in factors):
        return 0
    with FlopCounterMode(display=False) as counter:
        _run(model, inputs)
    counts = counter.get_flop_counts().get("Global", {})
    return counter.get_total_flops() if len(counts) == 1 else 0


def _tensors(tree: Any) -> list[torch.Tensor]:
    found: list[torch.Tensor] = []
    wire.flatten(tree, found)
    return found


def _run(model: torch.nn.Module, inputs: tuple[Any, ...]) -> list[torch.Tensor]:
    """Outputs of a call that changes nothing."""
    tensors: list[torch.Tensor] = []
    form = wire.flatten(inputs, tensors)
    return [each.clone() for each in _tensors(model(*wire.unflatten(form, [each.clone() for each in tensors])))]


def _positions(
    tensor: torch.Tensor, others: list[torch.Tensor], chooser: torch.Generator
) -> Iterator[tuple[int, ...] | None]:
    """Random elements; None: one that is the same in the others."""
    for _ in range(SAMPLES if tensor.numel() else 0):
        place = tuple(int(torch.randint(size, (), generator=chooser)) for size in tensor.shape)
        yield None if others and all(bool(other[place] == tensor[place]) for other in others) else place


def _matters(
    model: torch.nn.Module, inputs: tuple[Any, ...], tensor: torch.Tensor, place: tuple[int, ...], expected: list[Any]
) -> bool:
    """Whether an output changes with one element."""
    kept = tensor[place].clone()
    for value in _values(tensor):
        tensor[place] = value
        try:
            if not _same(_run(model, inputs), expected):
                return True
        except Exception:  # no value for this task
            continue
        finally:
            tensor[place] = kept
    return False


def _values(tensor: torch.Tensor) -> list[Any]:
    """What an element may become: larger, and smaller, than all; of integers, the largest and the smallest one."""
    if tensor.dtype == torch.bool:
        return [True, False]
    low, high = tensor.min(), tensor.max()
    spread = high - low if tensor.is_floating_point() else 0
    return [high + spread, low - spread]


def _same(outputs: list[torch.Tensor], expected: list[torch.Tensor]) -> bool:
    """Whether outputs are the same to the bit."""
    return all(
        one.shape == other.shape and torch.equal(_bytes(one), _bytes(other))
        for one, other in zip(outputs, expected, strict=True)
    )


def _bytes(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.contiguous().view(-1).view(torch.uint8)


def _span_bytes(tensor: torch.Tensor) -> int:
    """Memory of a tensor's elements; those of an expanded one lie on each other."""
    sizes = (size for size, stride in zip(tensor.shape, tensor.stride(), strict=True) if stride)
    count = 1
    for size in sizes:
        count *= size
    return count * tensor.element_size()
