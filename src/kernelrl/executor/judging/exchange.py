"""Whether a task as a whole moves or converts its data, whatever operators it is written in.

Values of the inputs are exchanged for others: where they come out exchanged, the library's copies would be the work. A
program that computes with values, or compares them, does not give the one for the other.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Set
from typing import Any

import torch

from kernelrl.errors import TaskError
from kernelrl.executor import trees
from kernelrl.executor.judging.arena import view, write
from kernelrl.executor.judging.reference_process import ReferenceProcess
from kernelrl.executor.legality.operators import combine_bits

_POWERS = torch.tensor([1.15**power for power in range(-10, 11) if power]).bfloat16().float()
VALUES = torch.cat((-_POWERS.flip(0), _POWERS))
"""Numbers that every floating-point type has, in ascending order, to be exchanged one for another."""
NEAR = 2e-4
"""What comes out so near one of them is that one: there and back again (a transform and its inverse), or between two
places (an interpolation), errs by less."""
BYTES = 256
SOME = 4096
"""Elements of an output that are looked at first: of most tasks they tell."""
CHOSEN = 65_537
"""So many values, drawn at random, follow each other before they come again."""
APART = 7919
"""Places between the values of one input and the same ones of the next: of equal inputs the larger one is a copy."""


def exchanges(own: ReferenceProcess, layout: dict[str, Any], image: torch.Tensor, operators: Set[str]) -> bool:
    """Whether values of the inputs, exchanged for others, come out exchanged. What comes out the same both times are
    constants.

    Of a task with floating-point inputs their values are exchanged, of one that has none the bytes of its integers,
    if no operator could take these for places in memory.

    Args:
        own: runs the task.
        layout: of its inputs.
        image: its inputs.
        operators: names of those that ran.
    """
    places = [place for place in layout["tensors"] if place["bytes"] and place["dtype"] != "torch.bool"]
    floats = [place for place in places if trees.DTYPES[place["dtype"]].is_floating_point]
    generator = torch.Generator().manual_seed(0)

    def outputs_of(which: list[dict[str, Any]], table: torch.Tensor, chosen: torch.Tensor) -> list[torch.Tensor]:
        changed = image.clone()
        for number, place in enumerate(which):
            tensor, bytewise = view(changed, place), table.dtype == torch.uint8
            once = [1 if step == 0 else size for size, step in zip(tensor.shape, tensor.stride(), strict=True)]
            count = math.prod(once) * (tensor.itemsize if bytewise else 1)
            values = table[chosen.roll(APART * number)].repeat(1 + count // CHOSEN)[:count]
            write(tensor, (values.view(tensor.dtype) if bytewise else values.to(tensor.dtype)).view(once))
        return own.outputs(own.call(layout, changed))

    def are_exchanged(
        which: list[dict[str, Any]], table: torch.Tensor, is_exchanged: Callable[..., tuple[bool, bool]]
    ) -> bool:
        chosen = torch.randint(len(table), (CHOSEN,), generator=generator)
        others = table[torch.randperm(len(table), generator=generator)]
        try:
            pairs = list(zip(outputs_of(which, table, chosen), outputs_of(which, others, chosen), strict=True))
        except TaskError:
            if not own.process.alive:
                raise
            return False
        if any(first.shape != second.shape for first, second in pairs):
            return False
        if not all(is_exchanged(_some(first), _some(second), others)[0] for first, second in pairs):
            return False
        found = [is_exchanged(first, second, others) for first, second in pairs]
        return all(exchanged for exchanged, _ in found) and any(moved for _, moved in found)

    if floats:
        return are_exchanged(floats, VALUES, _values_are_exchanged)
    bytewise = torch.arange(BYTES, dtype=torch.uint8)
    return bool(places) and combine_bits(operators) and are_exchanged(places, bytewise, _bytes_are_exchanged)


def gives_back(outputs: list[torch.Tensor], inputs: list[torch.Tensor]) -> bool:
    """Whether each output is the only input, converted at the most. Of several one may be an identity by chance."""
    return len(inputs) == 1 and bool(outputs) and all(_is_same(output, inputs[0]) for output in outputs)


def _is_same(output: torch.Tensor, given: torch.Tensor) -> bool:
    if not output.numel() or output.numel() != given.numel():
        return False
    one, other = output.flatten(), given.flatten()
    near = NEAR * float(other.double().abs().mean())
    return all(
        torch.allclose(some.double(), others.double(), 0, near, equal_nan=True)
        for some, others in ((_some(one), _some(other)), (one, other))
    )


def _some(values: torch.Tensor) -> torch.Tensor:
    return values.flatten()[:SOME]


def _values_are_exchanged(first: torch.Tensor, second: torch.Tensor, others: torch.Tensor) -> tuple[bool, bool]:
    """Whether all that is among `VALUES` came out exchanged for the others and the rest is constant; whether any is."""
    first, second = first.float().contiguous(), second.float()
    places = torch.searchsorted(VALUES, first.nan_to_num() - NEAR).clamp(max=len(VALUES) - 1)
    moved = ((VALUES[places] - first).abs() <= NEAR) & ((first - second).abs() > NEAR)
    expected = torch.where(moved, others[places], first)
    return torch.allclose(expected, second, 0, NEAR, equal_nan=True), bool(moved.any())


def _bytes_are_exchanged(first: torch.Tensor, second: torch.Tensor, others: torch.Tensor) -> tuple[bool, bool]:
    """The same of bytes."""
    one, two = (tensor.contiguous().flatten().view(torch.uint8) for tensor in (first, second))
    moved = one != two
    return torch.equal(torch.where(moved, others[one.long()], one), two), bool(moved.any())
