"""The referee's side of a task: fresh inputs, expected outputs and the reference's process, made once per group."""

from __future__ import annotations

import hashlib
import random
import secrets
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import torch

from kernelrl.errors import TaskError
from kernelrl.executor import wire
from kernelrl.executor.api import Distribution, ExecutorSettings
from kernelrl.executor.judging import compare, distributions
from kernelrl.executor.judging.arena import Arena, Case, Shape, overlapping, span_of, view, write
from kernelrl.executor.judging.baseline import Baseline, NoBaseline
from kernelrl.executor.judging.timing import time_call
from kernelrl.executor.legality.operators import only_moves
from kernelrl.executor.processes.cores import Cores
from kernelrl.executor.processes.process import Process, ProcessFailure
from kernelrl.task import Task

_ALIGNMENT = 64
_UNSTABLE = frozenset(f"aten::{name}" for name in "sort argsort topk kthvalue median mode unique _unique2".split())
"""Operators whose integer outputs are not determined where values are equal."""
_UNSCALED = ("constant", "denormal")
"""Distributions under which outputs may be small because nothing is left of them but rounding."""
_ULPS = 16
"""Rounding of the inputs (in units of the last place) whose effect is forgiven where all of them are equal."""


@dataclass(frozen=True)
class Draw:
    """Which inputs a run gets: equal draws are equal inputs."""

    index: int
    distribution: Distribution | Literal["task"] = "task"
    shape: int = 0
    """0: the shape that the task shows; 1, 2, …: hidden ones."""


class Reference:
    """A task's reference in a process of its own.

    Args:
        task: the task.
        start: starts a contestant process; with `may_exec=True`, one that may run the compiler.
        cores: says when it may run.
        settings: seeds, hidden shapes, oracle, limits of time.
        secret: makes the seeds of the inputs impossible to guess for who knows the task and the seed.

    Raises:
        TaskError: the reference does not load or run; names the task and the error.
    """

    def __init__(
        self, task: Task, start: Callable[..., Process], cores: Cores, settings: ExecutorSettings, secret: str
    ):
        self.task = task
        self.lock = threading.Lock()
        self.settings = settings
        self._cores = cores
        self._on_gpu = settings.device == "cuda"
        self._secret = secret
        self.name_of_draws = settings.draws or secrets.token_hex(4)
        self._cases: dict[Draw, Case | None] = {}
        self._start = start
        self._baseline: Baseline | str | None = None
        self._peak: int | None = None
        self.process = start("library")
        try:
            self._load()
        except BaseException:
            self.process.close()
            raise

    def _load(self) -> None:
        settings = self.settings
        unknown: dict[str, Any] = {"init": None, "init_tensors": [], "seed": self.init_seed}
        loading = self._cores.stopwatch()
        loaded = self._ask(self._load_question | unknown, settings.load_timeout_s)
        self.construction_s = loading()
        self.init = {"init": loaded["init"], "init_tensors": loaded["init_tensors"], "seed": self.init_seed}
        sizes = [{}, *self._hidden_sizes()]
        layouts, images = [], []
        for index, each in enumerate(sizes):
            drawn = self._ask(self._question(Draw(0, shape=index), each))
            layouts.append(self._lay_out(drawn))
            images.append(self._image(layouts[-1], drawn))
        self.arena_bytes = max(layout["size"] for layout in layouts)
        self.arena = Arena(self.arena_bytes, self.settings)
        self.arena.attach(self.process, settings.run_timeout_s)
        self.shapes = []
        for index, (layout, image) in enumerate(zip(layouts, images, strict=True)):
            self.arena.arrange(layout, self._ask)
            self.arena.put(image, self._ask)
            native = self._ask({"do": "run", "recorded": index == 0})
            outputs = native["tensors"]
            self._check_outputs(outputs)
            self.arena.outputs(native, self._ask)
            fresh = [self.arena.is_of_the_call(described) for described in outputs]
            form = wire.normalised(native["done"])
            self.shapes.append(Shape(sizes[index], layout, form, outputs, fresh, overlapping(outputs)))
            if index == 0:
                self._learn_habits(native, image)
        self.varying = self._find_varying(images[0])

    def _learn_habits(self, native: dict[str, Any], image: torch.Tensor) -> None:
        """What the reference does that a candidate may then do as well."""
        self.unstable = bool(_UNSTABLE & native["operators"].keys()) and any(
            not wire.DTYPES[described["dtype"]].is_floating_point for described in native["tensors"]
        )
        self.only_moves = only_moves(native["operators"].keys())
        self.returns_input = any(self.arena.owns(described["pointer"]) for described in native["tensors"])
        before = self._ask({"do": "state"})["state"]
        again = self._ask({"do": "run"})
        self.arena.outputs(again, self._ask)
        after = self._ask({"do": "state"})["state"]
        self.changes_state = {name for name in before if before[name] != after[name]}
        self.reuses_outputs = any(
            first["pointer"] == second["pointer"]
            for first, second in zip(native["tensors"], again["tensors"], strict=True)
        )

    def _check_outputs(self, native: list[dict[str, Any]]) -> None:
        if not native:
            raise TaskError(f"task {self.task.id}: forward returns no tensor")
        for described in native:
            if described["stride"] is None or described["dtype"] not in wire.DTYPES:
                raise TaskError(
                    f"task {self.task.id}: outputs of {described['layout']} {described['dtype']} cannot be compared"
                )

    def _find_varying(self, first: torch.Tensor) -> list[bool]:
        """Which input tensors differ from seed to seed. Where none does, all are shuffled: inputs must be fresh."""
        layout = self.shapes[0].layout
        second = self._image(layout, self._ask(self._question(Draw(1), {})))
        spans = [span_of(place) for place in layout["tensors"]]
        varying = [not torch.equal(first[span], second[span]) for span in spans]
        self.draws_nothing = not any(varying)
        return varying if any(varying) else [True] * len(varying)

    def draws(self) -> list[Draw]:
        """The draws of the runs that are checked before timing, those of no use left out. The caller holds `lock`."""
        settings = self.settings
        planned = [Draw(index) for index in range(settings.trials)]
        planned += [Draw(index, name) for index, name in enumerate(settings.distributions)]
        planned += [Draw(0, shape=index) for index in range(1, len(self.shapes))]
        return [draw for draw in planned if self.case(draw) is not None]

    def renew(self) -> None:
        """From now on draw other inputs: whoever has seen a verdict on the last ones does not meet them again."""
        if self.settings.draws is None:
            self.name_of_draws = secrets.token_hex(4)
            self._cases.clear()

    def case(self, draw: Draw) -> Case | None:
        """The case of that draw, made at its first use; None: the reference itself is not reliable on it.

        The caller holds `lock`.
        """
        if draw not in self._cases:
            self._cases[draw] = self._make_case(draw)
        return self._cases[draw]

    def _make_case(self, draw: Draw) -> Case | None:
        shape = self.shapes[draw.shape]
        image = self._draw_image(draw, shape)
        if image is None:
            return None
        self.arena.arrange(shape.layout, self._ask)
        self.arena.put(image, self._ask)
        native = self._ask({"do": "run"})
        if wire.normalised(native["done"]) != shape.form:
            raise TaskError(f"task {self.task.id}: forward returns another structure on other inputs")
        outputs = self._outputs(native)
        changed = self._expect_changes(image, shape)
        slack = self._slack(image, shape, outputs) if draw.distribution == "constant" else [0.0] * len(outputs)
        if self.settings.oracle == "float64":
            self.arena.put(image, self._ask)
            exact = self._outputs(self._ask({"do": "exact"}))
        else:
            exact = outputs
        scaled = self.settings.oracle == "float64" and draw.distribution not in _UNSCALED
        expected = [
            compare.Expected.around(value, own, described, self.task, scaled, extra)
            for value, own, described, extra in zip(exact, outputs, native["tensors"], slack, strict=True)
        ]
        if draw.distribution != "task" and not all(item.reliable for item in expected):
            return None
        inputs = draw.distribution if not shape.sizes else " ".join(f"{k}={v}" for k, v in shape.sizes.items())
        return Case(shape, inputs, image, expected, changed)

    def _expect_changes(self, image: torch.Tensor, shape: Shape) -> dict[int, compare.Expected]:
        """What the reference has just made of the inputs that it changes, within the tolerance of an output."""
        expected = {}
        for index in self.arena.changed(image, shape.layout):
            values, place = self.arena.inputs(shape.layout)[index], shape.layout["tensors"][index]
            expected[index] = compare.Expected.around(values, values, place, self.task, scaled=False)
        return expected

    def _slack(self, image: torch.Tensor, shape: Shape, outputs: list[torch.Tensor]) -> list[float]:
        """How far each output moves when the inputs are rounded differently.

        On equal inputs a difference such as `x - mean(x)` is all rounding, and what divides by its size magnifies it.
        """
        rounded = image.clone()
        for place in shape.layout["tensors"]:
            dtype = wire.DTYPES[place["dtype"]]
            if dtype.is_floating_point and place["bytes"]:
                flat = rounded[span_of(place)].view(dtype)
                noise = torch.rand(flat.shape, generator=torch.Generator().manual_seed(0)) * 2 - 1
                flat.copy_(flat.double() * (1 + _ULPS * torch.finfo(dtype).eps * noise))
        self.arena.put(rounded, self._ask)
        moved = self._outputs(self._ask({"do": "run"}))
        distances = [(new.double() - old.double()).abs() for new, old in zip(moved, outputs, strict=True)]
        return [float(each.max()) if each.numel() and bool(each.isfinite().all()) else 0.0 for each in distances]

    def _draw_image(self, draw: Draw, shape: Shape) -> torch.Tensor | None:
        if self.unstable and draw.distribution in distributions.UNORDERED:
            return None
        drawn = self._ask(self._question(draw, shape.sizes))
        image = self._image(shape.layout, drawn)
        if draw.distribution == "task" and not self.draws_nothing:
            return image
        generator = torch.Generator().manual_seed(self._seed(draw, "values"))
        changed = False
        for varies, place in zip(self.varying, shape.layout["tensors"], strict=True):
            if not varies or not place["bytes"]:
                continue
            flat = image[span_of(place)].view(wire.DTYPES[place["dtype"]])
            values = view(image, place)
            if draw.distribution == "task":
                flat.copy_(distributions.shuffle(flat, generator))
                changed = True
            elif (new := distributions.redraw(draw.distribution, values, generator)) is not None:
                write(values, new)
                changed = True
        return image if changed else None

    @property
    def num_bytes(self) -> int:
        """Memory that the cases hold."""
        return sum(case.num_bytes for case in list(self._cases.values()) if case is not None)

    def peak_memory(self) -> int:
        """Peak memory of a process that loads the reference and calls it once (in bytes). The caller holds `lock`."""
        if self._peak is None:
            case = self.case(Draw(0))
            assert case is not None
            arena = Arena(self.arena_bytes, self.settings)
            with self._start("library") as process:

                def ask(message: dict[str, Any]) -> dict[str, Any]:
                    return self._ask(message, process=process)

                process.watch_memory()
                arena.attach(process, self.settings.run_timeout_s)
                ask(self._load_question | self.init)
                arena.arrange(case.shape.layout, ask)
                arena.put(case.image, ask)
                ask({"do": "run", "recorded": True})
                self._peak = process.peak_memory(self.arena_bytes)
        return self._peak

    def compiled(self) -> Baseline | str:
        """The reference under `torch.compile`, or why there is none. The caller holds `lock`."""
        if self._baseline is None:
            case = self.case(Draw(0))
            assert case is not None
            parts = self._start("compiler"), self._cores, self.settings, self._load_question | self.init
            try:
                self._baseline = Baseline(self.task, *parts, self.arena_bytes, case)
            except NoBaseline as error:
                self._baseline = str(error)
        return self._baseline

    def time(self, case: Case) -> tuple[list[torch.Tensor], float]:
        """Outputs of one call on fresh inputs and its time (in seconds), see `time_call`. The caller holds `lock`."""
        try:
            reply, seconds = time_call(self.process, self.arena, case, self.settings)
        except ProcessFailure as error:
            raise self._broken(error) from None
        return self._outputs(self._succeeded(reply)), seconds

    def check(self, outputs: list[torch.Tensor], case: Case) -> None:
        """Look at the outputs of a call that was timed like at a candidate's."""
        if not all(expected.accepts(output) for expected, output in zip(case.expected, outputs, strict=True)):
            raise TaskError(f"task {self.task.id}: the reference gives different outputs for the same inputs")

    def time_nothing(self) -> float:
        """Time of a question that asks nothing (in seconds). The caller holds `lock`."""
        try:
            return self.process.ask({"do": "null"}, self.settings.run_timeout_s)[1]
        except ProcessFailure as error:
            raise self._broken(error) from None

    def close(self) -> None:
        """End its processes."""
        self.process.close()
        if isinstance(self._baseline, Baseline):
            self._baseline.process.close()

    @property
    def _load_question(self) -> dict[str, Any]:
        return {"do": "load", "source": self.task.source, "entry": "Model"}

    @property
    def init_seed(self) -> int:
        """Seed of the model's construction: the candidate's is built from the same, and so has the same weights."""
        return KERNELBENCH_SEED if self.settings.seeds == "kernelbench" else self.settings.seed

    def _question(self, draw: Draw, sizes: dict[str, int]) -> dict[str, Any]:
        return {"do": "inputs", "seed": self._seed(draw), "sizes": sizes}

    def _seed(self, draw: Draw, purpose: str = "inputs") -> int:
        """Seeds that a candidate cannot guess from the task or from each other."""
        if self.settings.seeds == "kernelbench" and purpose == "inputs":
            return _kernelbench_seed(draw.index)
        parts = (self._secret, self.settings.seed, self.task.digest, self.name_of_draws, draw, purpose)
        return int.from_bytes(hashlib.sha256(repr(parts).encode()).digest()[:6], "big")

    def _hidden_sizes(self) -> list[dict[str, int]]:
        """Sizes within the task's `SHAPE_RANGES`: each dimension by itself may be the smallest or anything else."""
        ranges = self.task.shape_ranges
        chooser = random.Random(self._seed(Draw(0), "shapes"))
        return [
            {name: chooser.choice((low, chooser.randint(low, high))) for name, (low, high) in ranges.items()}
            for _ in range(self.settings.shapes if ranges else 0)
        ]

    def _lay_out(self, drawn: dict[str, Any]) -> dict[str, Any]:
        size = 0
        tensors = []
        for item in drawn["tensors"]:
            if item["stride"] is None or item["dtype"] not in wire.DTYPES or item["device"] != "cpu":
                raise TaskError(
                    f"task {self.task.id}: an input is a {item['layout']} {item['dtype']} tensor on {item['device']}; "
                    "inputs must be strided CPU tensors"
                )
            span = wire.span_bytes(item["shape"], item["stride"], wire.DTYPES[item["dtype"]].itemsize)
            form = {key: item[key] for key in ("dtype", "shape", "stride", "device")}
            tensors.append(form | {"offset": size, "bytes": span})
            size += -(-max(span, 1) // _ALIGNMENT) * _ALIGNMENT
        return {"size": max(size, _ALIGNMENT), "form": drawn["done"], "tensors": tensors}

    def _image(self, layout: dict[str, Any], drawn: dict[str, Any]) -> torch.Tensor:
        expected = [(item["dtype"], item["shape"], item["stride"]) for item in layout["tensors"]]
        if [(item["dtype"], item["shape"], item["stride"]) for item in drawn["tensors"]] != expected:
            raise TaskError(f"task {self.task.id}: get_inputs() returns other shapes or dtypes from call to call")
        image = torch.zeros(layout["size"], dtype=torch.uint8)
        for item, place in zip(drawn["tensors"], layout["tensors"], strict=True):
            image[span_of(place)] = self.process.read(item["pointer"], place["bytes"])
        return image

    def _outputs(self, reply: dict[str, Any]) -> list[torch.Tensor]:
        """Copies of the outputs of the call that was just answered."""
        described = self.arena.outputs(reply, self._ask)
        return [self.arena.tensor(self.process, item) for item in described]

    def _ask(
        self, message: dict[str, Any], timeout: float | None = None, process: Process | None = None
    ) -> dict[str, Any]:
        process, timeout = process or self.process, timeout or self.settings.run_timeout_s
        try:
            reply = self._cores.ask(process, message, timeout)
        except ProcessFailure as error:
            raise self._broken(error) from None
        return self._succeeded(reply)

    def _succeeded(self, reply: dict[str, Any]) -> dict[str, Any]:
        if "failed" in reply:
            raise TaskError(f"task {self.task.id}: the reference failed: {reply['message']}")
        return reply

    def _broken(self, error: ProcessFailure) -> TaskError:
        return TaskError(f"task {self.task.id}: the reference's process {error}")


KERNELBENCH_SEED = 42


def _kernelbench_seed(index: int) -> int:
    """KernelBench's seed of trial `index`: the draws of a generator seeded with 42 (its `eval_kernel_against_ref`)."""
    generator = torch.Generator().manual_seed(KERNELBENCH_SEED)
    return int(torch.randint(0, 2**32 - 1, (index + 1,), generator=generator)[index])
