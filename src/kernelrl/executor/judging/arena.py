"""What a run gets and what must come out, and the memory through which it reaches a contestant."""

from __future__ import annotations

import mmap
import os
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch

from kernelrl.errors import TaskError
from kernelrl.executor import wire
from kernelrl.executor.judging import compare
from kernelrl.executor.processes.process import Process


@dataclass(frozen=True)
class Shape:
    """Inputs of one size: where they lie in the arena, and the outputs' form and description."""

    sizes: dict[str, int]
    """Values of the task's module-level constants; empty for the shape that the task shows."""
    layout: dict[str, Any]
    form: Any
    native: list[dict[str, Any]]
    """Descriptions of the reference's outputs as the task computes them."""


@dataclass(frozen=True)
class Case:
    """Inputs of one run and what must come out."""

    shape: Shape
    inputs: str
    """Name of the distribution or of the hidden sizes, for people."""
    image: torch.Tensor
    """The arena's bytes before the run (uint8)."""
    expected: list[compare.Expected]
    changed: dict[int, compare.Expected]
    """What the reference makes of the inputs that it changes, by their number; mostly empty."""

    @cached_property
    def num_bytes(self) -> int:
        """Memory that it takes."""
        return self.image.nbytes + sum(2 * item.low.nbytes for item in (*self.expected, *self.changed.values()))


class Arena:
    """Memory shared with one process, through which inputs reach it. Written only while that process is frozen.

    Args:
        num_bytes: its size.
        on_gpu: the process brings what lies there to its device before each call.
    """

    def __init__(self, num_bytes: int, on_gpu: bool):
        self._fd = os.memfd_create("kernelrl-inputs")
        os.ftruncate(self._fd, num_bytes)
        self._map = mmap.mmap(self._fd, num_bytes)
        self._arranged: dict[str, Any] | None = None
        self._on_gpu = on_gpu
        self.bytes = torch.frombuffer(self._map, dtype=torch.uint8)
        self.address = 0

    def attach(self, process: Process, timeout: float) -> None:
        """Let a process map it, before it sees untrusted text: then the address that it names can be believed."""
        reply, _ = process.ask({"do": "attach", "size": self.bytes.numel()}, timeout, fds=(self._fd,))
        if "failed" in reply:
            raise TaskError(f"inputs of {self.bytes.numel()} bytes cannot be mapped: {reply['message']}")
        self.address = reply["attached"]
        os.close(self._fd)

    def arrange(self, layout: dict[str, Any], ask: Callable[[dict[str, Any]], Any]) -> None:
        """Tell the process where its inputs lie, unless it knows."""
        if layout is not self._arranged:
            ask({"do": "arrange", "form": layout["form"], "tensors": layout["tensors"]})
            self._arranged = layout

    def put(self, image: torch.Tensor, ask: Callable[[dict[str, Any]], Any]) -> None:
        """Write inputs."""
        self.bytes[: image.numel()] = image
        if self._on_gpu:
            ask({"do": "stage"})

    def outputs(self, reply: dict[str, Any], ask: Callable[[dict[str, Any]], dict[str, Any]]) -> Any:
        """Descriptions of the last call's outputs where they can be read, and the inputs as the call has left them."""
        return ask({"do": "fetch"}).get("tensors") if self._on_gpu else reply.get("tensors")

    def inputs(self, layout: dict[str, Any]) -> list[torch.Tensor]:
        """Copies of the inputs that lie there."""
        return [view(self.bytes.clone(), place) for place in layout["tensors"]]

    def changed(self, image: torch.Tensor, layout: dict[str, Any]) -> list[int]:
        """Numbers of the inputs that are not as they were written."""
        if np.array_equal(self.bytes[: image.numel()].numpy().view(np.int64), image.numpy().view(np.int64)):
            return []
        spans = [span_of(place) for place in layout["tensors"]]
        return [index for index, span in enumerate(spans) if not torch.equal(self.bytes[span], image[span])]

    def owns(self, pointer: object) -> bool:
        """Whether an address of the process lies in it."""
        return isinstance(pointer, int) and self.address <= pointer < self.address + self.bytes.numel()


def span_of(place: dict[str, Any]) -> slice:
    """The bytes of an image that one input takes."""
    return slice(place["offset"], place["offset"] + place["bytes"])


def view(memory: torch.Tensor, place: dict[str, Any]) -> torch.Tensor:
    """The input that lies at a place of an image."""
    dtype = wire.DTYPES[place["dtype"]]
    if not place["bytes"]:
        return torch.empty(place["shape"], dtype=dtype)
    flat = memory[span_of(place)].view(dtype)
    return flat.as_strided(place["shape"], place["stride"])


def write(values: torch.Tensor, new: torch.Tensor) -> None:
    """Copy into a view of an image, in which expanded dimensions (stride 0) share their memory."""
    shared = [slice(0, 1) if step == 0 else slice(None) for step in values.stride()]
    values[tuple(shared)].copy_(new[tuple(shared)])
