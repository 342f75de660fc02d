"""What a run gets and what must come out, and the memory through which it reaches a contestant."""

from __future__ import annotations

import mmap
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal

import torch

from kernelrl.errors import TaskError
from kernelrl.executor import trees
from kernelrl.executor.api import Distribution, ExecutorSettings
from kernelrl.executor.contest.values import are_same_bytes
from kernelrl.executor.judging import compare
from kernelrl.executor.processes.call_memory import CallMemory, sealed_memory
from kernelrl.executor.processes.process import Process


@dataclass(frozen=True)
class Shape:
    """Inputs of one size, with the numbers beside the tensors that one draw of them has, if the task draws these: where
    they lie in the arena, and the outputs' form and description."""

    sizes: dict[str, int]
    """Values of the task's module-level constants; empty for the shape that the task shows."""
    layout: dict[str, Any]
    form: str
    """Of the outputs, see `trees.outline`."""
    native: list[dict[str, Any]]
    """Descriptions of the reference's outputs as the task computes them."""
    fresh: list[bool]
    """Of each output: the reference makes it in the call, and does not return an input or what it holds."""
    shared: set[tuple[int, int]]
    """Pairs of the reference's outputs that share memory."""
    numbers_vary: bool = False
    """Numbers among the inputs are others than those that the task shows."""


@dataclass(frozen=True)
class Draw:
    """Which inputs and parameters a run gets: equal draws are equal."""

    index: int
    distribution: Distribution | Literal["task"] = "task"
    shape: int = 0
    """0: the shape that the task shows; 1, 2, …: hidden ones."""
    parameters: int = 0
    """0: those that the task's program makes; 1, 2, …: hidden ones."""


AS_MADE = "initial parameters"
"""What is said of inputs of the task's own kind that come with parameters as its program makes them."""


@dataclass(frozen=True)
class Case:
    """Inputs of one run and what must come out."""

    draw: Draw
    shape: Shape
    image: torch.Tensor
    """The arena's bytes before the run (uint8)."""
    outputs: list[dict[str, Any]]
    """Descriptions of the reference's."""
    near: list[compare.Near]
    """By the reference's own outputs."""
    changed: list[int]
    """Numbers of the inputs that the reference changes. What it makes of them is held to bounds after the outputs."""
    expected: list[compare.Expected] | None
    """By its outputs in float64; None: not made yet, see `Reference.settle`."""
    native: list[torch.Tensor] = field(default_factory=list)
    """The reference's own outputs, and what it makes of inputs that it changes, if these are right; else empty."""
    as_made: bool = False
    """The parameters are such as the task's program makes."""

    @property
    def inputs(self) -> str:
        """Name of the distribution, of the hidden sizes or of what else is hidden, for people."""
        if self.as_made:
            return AS_MADE
        sizes = " ".join(f"{name}={size}" for name, size in self.shape.sizes.items())
        return sizes or ("other numbers" if self.shape.numbers_vary else self.draw.distribution)

    @cached_property
    def num_bytes(self) -> int:
        """Memory that it takes."""
        bounds = *(self.expected or ()), *self.near
        held: int = sum(item.num_bytes for item in bounds) + sum(output.nbytes for output in self.native)
        return self.image.nbytes + held

    def is_native(self, outputs: list[torch.Tensor]) -> bool:
        """Whether outputs are the reference's own to the last bit, and right."""
        if not self.native:
            return False
        pairs = zip(outputs, self.native, strict=True)
        return all(output is native or are_same_bytes(output, native) for output, native in pairs)


class Arena:
    """Memory shared with one process: for its inputs, and for the tensors of a call. Written only while it waits.

    Args:
        num_bytes: size of the inputs.
        settings: on a GPU the process brings the inputs to its device before each call, and tensors lie there.
    """

    def __init__(self, num_bytes: int, settings: ExecutorSettings):
        self._fd = sealed_memory("kernelrl-inputs", num_bytes)
        self._map = mmap.mmap(self._fd, num_bytes)
        self._arranged: dict[str, Any] | None = None
        self._on_gpu = settings.device == "cuda"
        self._call = None if self._on_gpu else CallMemory(settings.memory_mb << 20)
        self._spans: Any = [[0, settings.memory_mb << 20]]
        self.bytes = torch.frombuffer(self._map, dtype=torch.uint8)
        self.address = 0

    def attach(self, ask: Callable[..., dict[str, Any]]) -> None:
        """Let a process map it, before it sees untrusted text: then the addresses that it names can be believed.

        Args:
            ask: puts a question to it, with descriptors `fds`.
        """
        sizes = [self.bytes.numel()] + ([] if self._call is None else [self._call.num_bytes])
        fds = (self._fd,) if self._call is None else (self._fd, self._call.fd)
        try:
            reply = ask({"do": "attach", "sizes": sizes}, fds=fds)
        finally:
            os.close(self._fd)
        if "failed" in reply:
            raise TaskError(f"inputs of {self.bytes.numel()} bytes cannot be mapped: {reply['message']}")
        self.address, *call_address = reply["attached"]
        if self._call is not None:
            [self._call.address] = call_address

    def arrange(self, layout: dict[str, Any], ask: Callable[[dict[str, Any]], Any]) -> None:
        """Tell the process where its inputs lie, unless it knows."""
        if layout is not self._arranged:
            ask({"do": "arrange", "form": layout["form"], "tensors": layout["tensors"]})
            self._arranged = layout

    def write(self, image: torch.Tensor, ask: Callable[[dict[str, Any]], Any]) -> None:
        """Write the inputs of the next call. What the memory that it may use holds stays there.

        Raises:
            ValueError: the process has not said which memory that is.
        """
        self.bytes[: image.numel()] = image
        if self._call is None:
            ask({"do": "stage"})
        else:
            self._call.expect(self._spans)

    def put(self, image: torch.Tensor, outputs: list[dict[str, Any]], ask: Callable[[dict[str, Any]], Any]) -> None:
        """Write the inputs of the next call, and over the memory that it may use.

        Args:
            image: the arena's bytes.
            outputs: descriptions of what comes out; empty where that is not known yet.
            ask: puts a question to the process.

        Raises:
            ValueError: see `write`.
        """
        self.write(image, ask)
        if self._call is not None:
            self._call.overwrite(self._spans, sum(map(num_bytes_of, outputs)))

    def outputs(self, reply: dict[str, Any], ask: Callable[[dict[str, Any]], dict[str, Any]]) -> Any:
        """Descriptions of the last call's outputs where they can be read, and the inputs as the call has left them."""
        if self._call is None:
            return ask({"do": "fetch"}).get("tensors")
        self.note_spans(reply)
        return reply.get("tensors")

    def note_spans(self, reply: dict[str, Any]) -> None:
        """Keep in mind which memory the next call may use, as each answer says: what is freed between two calls is
        free after the next answer, also to a question that asks nothing."""
        self._spans = reply.get("spans", self._spans)

    def is_of_the_call(self, described: dict[str, Any]) -> bool:
        """Whether an output lies in memory that was there for the call: before a candidate's it was overwritten."""
        return self._call is not None and self._call.holds(described["pointer"], num_bytes_of(described))

    def lay_unfilled(self, described: list[dict[str, Any]]) -> bool:
        """Whether any of these outputs of the last call lies where it found zeros: it is to be asked again."""
        if self._call is None:
            return False
        outputs = [(item["pointer"], num_bytes_of(item)) for item in described if self.is_of_the_call(item)]
        return self._call.lay_unfilled(outputs)

    def tensor(self, process: Process, described: dict[str, Any], like: torch.Tensor | None = None) -> torch.Tensor:
        """Copy of an output, or `like` itself where that is one.

        Raises:
            ValueError: there is no such memory.
        """
        if self._call is None or not self.is_of_the_call(described):
            return process.tensor(described)
        flat = self._call.at(described["pointer"], num_bytes_of(described))
        if like is not None and _lies_as(described, like) and are_same_bytes(flat, like.view(-1).view(torch.uint8)):
            return like
        return flat.clone().view(trees.DTYPES[described["dtype"]]).as_strided(described["shape"], described["stride"])

    def inputs(self, layout: dict[str, Any]) -> list[torch.Tensor]:
        """Copies of the inputs that lie there."""
        return [view(self.bytes.clone(), place) for place in layout["tensors"]]

    def changed(self, image: torch.Tensor, layout: dict[str, Any]) -> list[int]:
        """Numbers of the inputs that are not as they were written."""
        if are_same_bytes(self.bytes[: image.numel()], image):
            return []
        spans = [span_of(place) for place in layout["tensors"]]
        return [index for index, span in enumerate(spans) if not torch.equal(self.bytes[span], image[span])]

    def owns(self, pointer: object) -> bool:
        """Whether an address of the process lies in it."""
        return isinstance(pointer, int) and self.address <= pointer < self.address + self.bytes.numel()


def repeat(cases: Sequence[Case]) -> bool:
    """Whether most inputs are those of an earlier case: there are few that the task draws."""
    known: list[Case] = []
    for case in cases:
        if not any(_have_same_inputs(case, other) for other in known):
            known.append(case)
    return len(known) < len(cases) / 2


def _have_same_inputs(first: Case, second: Case) -> bool:
    forms = [case.shape.layout["form"] for case in (first, second)]
    return forms[0] == forms[1] and are_same_bytes(first.image, second.image)


def _lies_as(described: dict[str, Any], like: torch.Tensor) -> bool:
    form = str(like.dtype), list(like.shape), list(like.stride())
    return like.is_contiguous() and (described["dtype"], described["shape"], described["stride"]) == form


def num_bytes_of(described: dict[str, Any]) -> int:
    """Memory that a tensor spans (see `trees.describe`)."""
    return trees.span_bytes(described["shape"], described["stride"], trees.DTYPES[described["dtype"]].itemsize)


def overlapping(described: list[dict[str, Any]]) -> set[tuple[int, int]]:
    """Pairs of these tensors whose memory overlaps."""
    ends = [(item["pointer"], item["pointer"] + num_bytes_of(item)) for item in described]
    return {
        (first, second)
        for second, (low, high) in enumerate(ends)
        for first, (other_low, other_high) in enumerate(ends[:second])
        if low < other_high and other_low < high
    }


def span_of(place: dict[str, Any]) -> slice:
    """The bytes of an image that one input takes."""
    return slice(place["offset"], place["offset"] + place["bytes"])


def view(memory: torch.Tensor, place: dict[str, Any]) -> torch.Tensor:
    """The input that lies at a place of an image."""
    dtype = trees.DTYPES[place["dtype"]]
    if not place["bytes"]:
        return torch.empty(place["shape"], dtype=dtype)
    flat = memory[span_of(place)].view(dtype)
    return flat.as_strided(place["shape"], place["stride"])


def write(values: torch.Tensor, new: torch.Tensor) -> None:
    """Copy into a view of an image, in which expanded dimensions (stride 0) share their memory."""
    shared = [slice(0, 1) if step == 0 else slice(None) for step in values.stride()]
    values[tuple(shared)].copy_(new[tuple(shared)])
