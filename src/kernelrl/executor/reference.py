"""The referee's side of a task: fresh inputs, expected outputs and the reference's process, made once per group."""

from __future__ import annotations

import hashlib
import mmap
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch

from kernelrl.errors import TaskError
from kernelrl.executor import compare, wire
from kernelrl.executor.cores import Cores
from kernelrl.executor.process import ForgedMessage, Process, ProcessDied, ProcessTimeout
from kernelrl.task import Task

_ALIGNMENT = 64


@dataclass(frozen=True)
class Case:
    """Inputs of one run and what must come out."""

    image: torch.Tensor
    """The arena's bytes before the run (uint8)."""
    after: torch.Tensor
    """The arena's bytes after the reference has run: the same unless the reference changes its inputs."""
    expected: list[compare.Expected]


class Arena:
    """Memory shared with one process, through which inputs reach it. Written only while that process is frozen."""

    def __init__(self, layout: dict[str, Any]):
        self._fd = os.memfd_create("kernelrl-inputs")
        os.ftruncate(self._fd, layout["size"])
        self._map = mmap.mmap(self._fd, layout["size"])
        self.bytes = torch.frombuffer(self._map, dtype=torch.uint8)
        self._layout = layout
        self.address = 0

    def attach(self, process: Process, timeout: float) -> None:
        """Let a process map it, before it sees untrusted text: then the address that it names can be believed."""
        reply, _ = process.ask({"do": "attach", **self._layout}, timeout, fds=(self._fd,))
        self.address = _succeeded(reply)["attached"]
        os.close(self._fd)


class Reference:
    """A task's reference in a process of its own.

    Args:
        task: the task.
        start: starts a contestant process.
        cores: says when it may run, unless it is alone.
        seed: root of the seeds; it also seeds the construction of the model.
        secret: makes the seeds of the inputs impossible to guess for who knows the task and the seed.
        load_timeout, run_timeout: time for loading it, and for one call (in seconds).

    Raises:
        TaskError: the reference does not load or run; names the task and the error.
    """

    def __init__(
        self,
        task: Task,
        start: Callable[[], Process],
        cores: Cores,
        seed: int,
        secret: str,
        load_timeout: float,
        run_timeout: float,
    ):
        self.task = task
        self.lock = threading.Lock()
        self.seed = seed
        self._cores = cores
        self._alone = False
        self._secret = secret
        self._timeout = run_timeout
        self._cases: dict[int, Case] = {}
        self.process = start()
        try:
            self._load(load_timeout)
        except BaseException:
            self.process.close()
            raise

    def _load(self, timeout: float) -> None:
        load: dict[str, Any] = {
            "do": "load",
            "source": self.task.source,
            "entry": "Model",
            "init": None,
            "init_tensors": [],
        }
        loaded = self._ask(load | {"seed": self.seed}, timeout)
        self.init = {"init": loaded["init"], "init_tensors": loaded["init_tensors"], "seed": self.seed}
        drawn = self._ask({"do": "inputs", "seed": self._case_seed(0)})
        self.layout = self._lay_out(drawn)
        self.arena = Arena(self.layout)
        self.arena.attach(self.process, self._timeout)
        self.arena.bytes.copy_(self._image(drawn))
        native = self._ask({"do": "run"})
        self.form = normalised(native["done"])
        self.native: list[dict[str, Any]] = native["tensors"]
        if not self.native:
            raise TaskError(f"task {self.task.id}: forward returns no tensor")
        for described in self.native:
            if described["stride"] is None or described["dtype"] not in wire.DTYPES:
                raise TaskError(
                    f"task {self.task.id}: outputs of {described['layout']} {described['dtype']} cannot be compared"
                )
        self.returns_input = any(self.owns(described) for described in self.native)
        self.changes_inputs = not torch.equal(self.arena.bytes, self._image(drawn))

    def case(self, index: int) -> Case:
        """The case of that index, drawn at its first use. The caller holds `lock`, and the cores only in `alone`."""
        if index not in self._cases:
            drawn = self._ask({"do": "inputs", "seed": self._case_seed(index)})
            image = self._image(drawn)
            after = image
            if self.changes_inputs:
                self.arena.bytes.copy_(image)
                self._ask({"do": "run"})
                after = self.arena.bytes.clone()
            exact = self._ask({"do": "reference"})
            if normalised(exact["done"]) != self.form:
                raise TaskError(f"task {self.task.id}: forward returns another structure on other inputs")
            expected = [
                compare.Expected.around(self._read(described), native | {"shape": described["shape"]}, self.task)
                for described, native in zip(exact["tensors"], self.native, strict=True)
            ]
            self._cases[index] = Case(image, after, expected)
        return self._cases[index]

    @contextmanager
    def alone(self) -> Iterator[None]:
        """For a caller that has the cores to itself: the reference need not wait for them."""
        self._alone = True
        try:
            yield
        finally:
            self._alone = False

    @property
    def num_bytes(self) -> int:
        """Memory that the cases hold."""
        return sum(
            case.image.nbytes + sum(item.low.nbytes + item.high.nbytes for item in case.expected)
            for case in self._cases.values()
        )

    def time(self, case: Case) -> float:
        """Time of one reference call on fresh inputs (in seconds). The caller holds `lock`."""
        self.arena.bytes.copy_(case.image)
        try:
            reply, seconds = self.process.ask({"do": "run"}, self._timeout)
        except (ProcessDied, ProcessTimeout, ForgedMessage) as error:
            raise self._broken(error) from None
        _succeeded(reply)
        return seconds

    def owns(self, described: dict[str, Any]) -> bool:
        """Whether an output of the reference lies in its inputs' memory."""
        return bool(self.arena.address <= described["pointer"] < self.arena.address + self.layout["size"])

    def close(self) -> None:
        """End its process."""
        self.process.close()

    def _case_seed(self, index: int) -> int:
        """Seeds that a candidate cannot guess from the task or from each other."""
        text = f"{self._secret}/{self.seed}/{self.task.digest}/{index}"
        return int.from_bytes(hashlib.sha256(text.encode()).digest()[:6], "big")

    def _lay_out(self, drawn: dict[str, Any]) -> dict[str, Any]:
        size = 0
        tensors = []
        for item in drawn["tensors"]:
            if item["stride"] is None or item["dtype"] not in wire.DTYPES or item["device"] != "cpu":
                raise TaskError(
                    f"task {self.task.id}: an input is a {item['layout']} {item['dtype']} tensor on {item['device']}; "
                    "inputs must be strided CPU tensors"
                )
            tensors.append({key: item[key] for key in ("dtype", "shape", "stride")} | {"offset": size})
            span = wire.span_bytes(item["shape"], item["stride"], wire.DTYPES[item["dtype"]].itemsize)
            size += -(-max(span, 1) // _ALIGNMENT) * _ALIGNMENT
        return {"size": max(size, _ALIGNMENT), "form": drawn["done"], "tensors": tensors}

    def _image(self, drawn: dict[str, Any]) -> torch.Tensor:
        layout = [(item["dtype"], item["shape"], item["stride"]) for item in self.layout["tensors"]]
        if [(item["dtype"], item["shape"], item["stride"]) for item in drawn["tensors"]] != layout:
            raise TaskError(f"task {self.task.id}: get_inputs() returns other shapes or dtypes from call to call")
        image = torch.zeros(self.layout["size"], dtype=torch.uint8)
        for item, place in zip(drawn["tensors"], self.layout["tensors"], strict=True):
            memory = self._memory(item)
            image[place["offset"] : place["offset"] + memory.numel()] = memory
        return image

    def _memory(self, described: dict[str, Any]) -> torch.Tensor:
        itemsize = wire.DTYPES[described["dtype"]].itemsize
        span = wire.span_bytes(described["shape"], described["stride"], itemsize)
        return self.process.read(described["pointer"], span)

    def _read(self, described: dict[str, Any]) -> torch.Tensor:
        return compare.as_output(self._memory(described), described)

    def _ask(self, message: dict[str, Any], timeout: float | None = None) -> dict[str, Any]:
        try:
            if self._alone:
                reply, _ = self.process.ask(message, timeout or self._timeout)
            else:
                reply = self._cores.next_message(self.process, self.process.post(message), timeout or self._timeout)
        except (ProcessDied, ProcessTimeout, ForgedMessage) as error:
            raise self._broken(error) from None
        if "failed" in reply:
            raise TaskError(f"task {self.task.id}: the reference failed: {reply['message']}")
        return reply

    def _broken(self, error: Exception) -> TaskError:
        reason = "took too long" if isinstance(error, ProcessTimeout) else str(error)
        return TaskError(f"task {self.task.id}: the reference's process {reason}")


def _succeeded(reply: dict[str, Any]) -> dict[str, Any]:
    if "failed" in reply:
        raise TaskError(f"the reference failed: {reply['message']}")
    return reply


def normalised(form: Any) -> Any:
    """A tree's form in which a list and a tuple are the same."""
    if isinstance(form, dict):
        return {"tuple" if key == "list" else key: normalised(value) for key, value in form.items()}
    if isinstance(form, list):
        return [normalised(item) for item in form]
    return form
