"""Drawing of inputs: by the task's own `get_inputs()`, with other values where the reference bears them."""

from __future__ import annotations

from typing import Any

import torch

from kernelrl.errors import TaskError
from kernelrl.executor import wire
from kernelrl.executor.api import Distribution
from kernelrl.executor.contest import distributions
from kernelrl.executor.contest.distributions import Variation
from kernelrl.executor.judging.arena import Draw, Shape, span_of, view, write
from kernelrl.executor.judging.reference_process import ReferenceProcess
from kernelrl.executor.judging.seeds import Seeds

_ALIGNMENT = 64
_REAL = "; pass complex numbers as torch.view_as_real(…), and make them of it in forward"


class Images:
    """Draws the bytes that the arena holds before a call.

    Args:
        own: the reference's process.
        seeds: of the draws.
    """

    def __init__(self, own: ReferenceProcess, seeds: Seeds):
        self._own = own
        self._seeds = seeds
        self.varying: list[bool]
        """Which input tensors differ from seed to seed."""
        self.draws_nothing: bool
        self.loose: list[Variation | None] = []
        """How inputs that the task makes constant vary; None: they do not."""
        self.firm: set[Draw] = set()
        """Draws in which they do not, because the reference fails."""
        self.twins: list[tuple[int, int]] = []
        """Pairs of inputs that the task makes equal and that are drawn apart, by their numbers."""

    def find_varying(self, first: torch.Tensor, layout: dict[str, Any]) -> None:
        """Compare the first image with another one."""
        second = self.of(layout, self._own.ask(self.question(Draw(1), {})))
        spans = [span_of(place) for place in layout["tensors"]]
        self.varying = [not torch.equal(first[span], second[span]) for span in spans]
        self.draws_nothing = not any(self.varying)

    def draw(self, draw: Draw, shape: Shape) -> torch.Tensor | None:
        """The inputs of a draw; None: the distribution does not apply to this task."""
        drawn = self._own.ask(self.question(draw, shape.sizes))
        image = self.of(shape.layout, drawn)
        generator = torch.Generator().manual_seed(self._seeds.of(draw, "values"))
        if draw.distribution != "task":
            if self.draws_nothing or not drawn["num_drawn"]:
                return self._redraw(image, draw.distribution, shape, generator)
            if not drawn["num_redrawn"]:
                return None
        elif not draw.index and not draw.shape:
            return image
        for loose, place in zip(self.loose, shape.layout["tensors"], strict=True):
            values = view(image, place)
            if loose and draw not in self.firm:
                write(values, self._vary(loose, values, generator, draw))
            elif self.draws_nothing and place["bytes"]:  # the reference bears nothing else, and inputs must be fresh
                flat = image[span_of(place)].view(wire.DTYPES[place["dtype"]])
                flat.copy_(distributions.shuffle(flat, generator))
        for _, twin in self.twins if _differs(draw) else ():
            values = view(image, shape.layout["tensors"][twin])
            write(values, distributions.shuffle(values, generator))
        return image

    def _vary(self, way: Variation, values: torch.Tensor, generator: torch.Generator, draw: Draw) -> torch.Tensor:
        if way == "others":
            return distributions.vary(values, generator, alone=_differs(draw))
        return distributions.VARIATIONS[way](values, generator)

    def _redraw(
        self, image: torch.Tensor, distribution: Distribution, shape: Shape, generator: torch.Generator
    ) -> torch.Tensor | None:
        """Another distribution for finished inputs, where the task draws nothing, or not through PyTorch."""
        changed = False
        for varies, place in zip(self.varying, shape.layout["tensors"], strict=True):
            values = view(image, place)
            if not (varies or self.draws_nothing) or not place["bytes"]:
                continue
            if (new := distributions.redraw(distribution, values, generator)) is not None:
                write(values, new)
                changed = True
        return image if changed else None

    def question(self, draw: Draw, sizes: dict[str, int]) -> dict[str, Any]:
        """The question that draws inputs, with these values of the task's constants."""
        inputs = Draw(draw.index, draw.distribution, draw.shape)  # the same ones with other parameters
        keyed = self._own.settings.seeds == "secret"
        question = {"do": "inputs", "seed": self._seeds.of(inputs), "sizes": sizes}
        return question | {"distribution": draw.distribution, "keyed": keyed}

    def lay_out(self, drawn: dict[str, Any]) -> dict[str, Any]:
        """Where drawn inputs lie in the arena."""
        size = 0
        tensors = []
        for item in drawn["tensors"]:
            if item["stride"] is None or item["dtype"] not in wire.DTYPES or item["device"] != "cpu":
                raise TaskError(
                    f"task {self._own.task.id}: an input is a {item['layout']} {item['dtype']} tensor "
                    f"on {item['device']}; "
                    f"inputs must be strided CPU tensors{_REAL if 'complex' in item['dtype'] else ' of real numbers'}"
                )
            span = wire.span_bytes(item["shape"], item["stride"], wire.DTYPES[item["dtype"]].itemsize)
            form = {key: item[key] for key in ("dtype", "shape", "stride", "device")}
            tensors.append(form | {"offset": size, "bytes": span})
            size += -(-max(span, 1) // _ALIGNMENT) * _ALIGNMENT
        return {"size": max(size, _ALIGNMENT), "form": drawn["done"], "tensors": tensors}

    def of(self, layout: dict[str, Any], drawn: dict[str, Any]) -> torch.Tensor:
        """The image of inputs that were just drawn."""
        expected = [(item["dtype"], item["shape"], item["stride"]) for item in layout["tensors"]]
        if [(item["dtype"], item["shape"], item["stride"]) for item in drawn["tensors"]] != expected:
            raise TaskError(f"task {self._own.task.id}: get_inputs() returns other shapes or dtypes from call to call")
        image = torch.zeros(layout["size"], dtype=torch.uint8)
        for item, place in zip(drawn["tensors"], layout["tensors"], strict=True):
            image[span_of(place)] = self._own.process.read(item["pointer"], place["bytes"])
        return image


def _differs(draw: Draw) -> bool:
    """Of two draws one has another value for a number that is alone, and is without the equality of equal inputs."""
    return draw.index % 2 == 1
