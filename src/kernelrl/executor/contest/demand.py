"""What a task demands of every program that does it: how much of its inputs must be read, and what must be computed.

Runs in the process of a reference, which is trusted text.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import torch
from torch.utils.flop_counter import FlopCounterMode

from kernelrl.executor import trees
from kernelrl.executor.legality.operators import ALLOCATION_AND_VIEWS

SAMPLES = 12
"""Elements of each tensor that are tried."""
CHANCE = 1 / 4096
"""That more is taken to be read than twice what must be, which `bound.MARGIN` allows for."""
MIN_SAMPLES = 6
"""Of a reference so slow that fewer can be tried nothing is known."""
PRODUCTS = frozenset(f"aten::{name}" for name in "mm addmm bmm baddbmm".split())


def read_bytes(
    model: torch.nn.Module, draw: Callable[[int], tuple[Any, ...]], seeds: list[int], parameters: bool, budget_s: float
) -> int:
    """Memory that every program must read because the outputs depend on it (in bytes; seldom more than twice too much).

    Elements are tried at random: one that has the same value for all seeds, or that leaves every output as it is
    whether it is much larger or much smaller, need not be read. A tensor counts with the share of the elements that
    surely matter, see `sure_share`. Where the reference is slow, or gives other outputs for the same inputs, nothing is
    known.

    Args:
        model: the reference.
        draw: its inputs, by seed.
        seeds: of which the first makes the inputs that are tried.
        parameters: they count too, because their values are hidden ones.
        budget_s: processor time that the trials may take (in seconds) where each takes as long as the fastest of three
            calls, in which others on the machine have little part.
    """
    draws = [draw(seed) for seed in seeds]
    first, *others = [_tensors(each) for each in draws]
    run = partial(_run, model, draws[0], _changes_inputs(model, draws[0]))
    expected, again = run(), run()
    if not _same(again, expected):
        return 0
    chooser = torch.Generator().manual_seed(seeds[0])
    tried = []
    for number, tensor in enumerate(first):
        changing = [other[number] for other in others]
        tried.append((tensor, list(_positions(tensor, changing, chooser))))
    if parameters:
        tried += [(each.data, list(_positions(each.data, [], chooser))) for each in model.parameters()]
    tried = [(tensor, places) for tensor, places in tried if tensor.numel()]
    samples = min(SAMPLES, int(budget_s / (_cost(run) * max(len(tried), 1))))
    if samples < MIN_SAMPLES:
        return 0
    return sum(int(_span_bytes(tensor) * _share(run, tensor, places[:samples], expected)) for tensor, places in tried)


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
    trees.flatten(tree, found)
    return found


def _run(model: torch.nn.Module, inputs: tuple[Any, ...], copied: bool = True) -> list[torch.Tensor]:
    """Outputs of a call on the inputs, or on copies of them."""
    return [each.clone() for each in _tensors(model(*(_copy(inputs) if copied else inputs)))]


def _copy(inputs: tuple[Any, ...]) -> tuple[Any, ...]:
    tensors: list[torch.Tensor] = []
    form = trees.flatten(inputs, tensors)
    copies: tuple[Any, ...] = trees.unflatten(form, [each.clone() for each in tensors])
    return copies


def _changes_inputs(model: torch.nn.Module, inputs: tuple[Any, ...]) -> bool:
    """Whether a call writes into what it is given."""
    copies = _copy(inputs)
    model(*copies)
    return not _same(_tensors(copies), _tensors(inputs))


def _positions(
    tensor: torch.Tensor, others: list[torch.Tensor], chooser: torch.Generator
) -> Iterator[tuple[int, ...] | None]:
    """Random elements; None: one that is the same in the others."""
    for _ in range(SAMPLES if tensor.numel() else 0):
        place = tuple(int(torch.randint(size, (), generator=chooser)) for size in tensor.shape)
        yield None if others and all(bool(other[place] == tensor[place]) for other in others) else place


def _cost(run: Callable[[], list[torch.Tensor]]) -> float:
    """Processor time of a call (in seconds): the least of three."""
    times = []
    for _ in range(3):
        started = time.process_time()
        run()
        times.append(time.process_time() - started)
    return max(min(times), 1e-9)


def _share(
    run: Callable[[], list[torch.Tensor]],
    tensor: torch.Tensor,
    places: list[tuple[int, ...] | None],
    expected: list[torch.Tensor],
) -> float:
    """Of the elements of a tensor those that surely matter, from those at these places."""
    extremes = _extremes(tensor)
    found = sum(place is not None and _matters(run, tensor, place, extremes, expected) for place in places)
    return sure_share(found, len(places))


def sure_share(found: int, tried: int) -> float:
    """Twice the smallest share with which so many of the tried elements are found by more than `CHANCE`, at most 1.

    The exact lower limit of a binomial share (Clopper and Pearson 1934). Twice, because whoever uses the bound allows
    for a factor of two: all of twelve, which are found by that chance where half of them matter, are all.
    """
    low, high = 0.0, 1.0
    for _ in range(40):
        share = (low + high) / 2
        beyond = sum(math.comb(tried, k) * share**k * (1 - share) ** (tried - k) for k in range(found, tried + 1))
        low, high = (share, high) if beyond < CHANCE else (low, share)
    return min(1.0, 2 * high) if found else 0.0


def _matters(
    run: Callable[[], list[torch.Tensor]],
    tensor: torch.Tensor,
    place: tuple[int, ...],
    values: list[Any],
    expected: list[torch.Tensor],
) -> bool:
    """Whether an output changes with one element, which gets these values."""
    kept = tensor[place].clone()
    for value in values:
        tensor[place] = value
        try:
            if not _same(run(), expected):
                return True
        except Exception:  # no value for this task
            continue
        finally:
            tensor[place] = kept
    return False


def _extremes(tensor: torch.Tensor) -> list[Any]:
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
