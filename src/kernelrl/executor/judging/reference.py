"""The referee's side of a task: fresh inputs, expected outputs and the reference's process, made once per group."""

from __future__ import annotations

import hashlib
import random
import secrets
import threading
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Literal

import torch

from kernelrl.errors import TaskError
from kernelrl.executor import wire
from kernelrl.executor.api import Distribution, ExecutorSettings
from kernelrl.executor.contest import distributions
from kernelrl.executor.judging import compare, parameters
from kernelrl.executor.judging.arena import Arena, Case, Shape, overlapping, span_of, view, write
from kernelrl.executor.judging.baseline import Baseline, NoBaseline
from kernelrl.executor.judging.parameters import Parameters
from kernelrl.executor.judging.timing import time_call
from kernelrl.executor.legality.operators import only_moves
from kernelrl.executor.processes.cores import Cores
from kernelrl.executor.processes.process import Process, ProcessFailure
from kernelrl.task import Task

_ALIGNMENT = 64
_UNSTABLE = frozenset(f"aten::{name}" for name in "sort argsort topk kthvalue median mode unique _unique2".split())
"""Operators whose integer outputs are not determined where values are equal."""
_UNSCALED = ("denormal",)
"""Distributions under which a small output may as well be zero."""
_CHECKED, _REDRAWN, _TIMED = 1, 2, 3
"""Numbers of the hidden parameters: of further runs on the task's own inputs, on hidden ones, and of the timed runs."""


@dataclass(frozen=True)
class Draw:
    """Which inputs a run gets: equal draws are equal inputs."""

    index: int
    distribution: Distribution | Literal["task"] = "task"
    shape: int = 0
    """0: the shape that the task shows; 1, 2, …: hidden ones."""
    parameters: int = 0
    """0: those that the task's program makes; 1, 2, …: hidden ones."""


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
        self._hidden: dict[int, Parameters] = {}
        self._computed_vary = True
        self._constructed = 0
        self.has_parameters = self.parameters_vary = False
        self._loose: list[bool] = []
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
        self.constructed: dict[str, Any] = loaded["parameters"]
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
        self._loose = self._find_loose()
        self.parameters_vary = self._try_parameters()

    def _find_loose(self) -> list[bool]:
        """Which of the inputs that the task makes constant may have other values: those with which it is reliable."""
        constant = [not varies for varies in self.varying]
        choices = [constant]
        if sum(constant) > 1:
            choices += [[index == only for index in range(len(constant))] for only, one in enumerate(constant) if one]
        accepted = [False] * len(constant)
        if self.draws_nothing or self.settings.oracle == "native":
            return accepted
        for choice in choices:
            self._loose = choice
            if any(choice) and self._bears(Draw(1)):
                accepted = [old or new for old, new in zip(accepted, choice, strict=True)]
                if choice is constant:
                    break
        return accepted

    def _try_parameters(self) -> bool:
        """Whether the reference is reliable with hidden parameters, if it has any."""
        self.has_parameters = bool(self.constructed["tensors"])
        if self.settings.seeds == "kernelbench":
            return False
        for self._computed_vary in (True, False):
            self._draw_parameters()
            self.has_parameters = bool(self.constructed["draws"] or self._hidden[_CHECKED].given)
            if not self.has_parameters:
                return False
            if self._bears(Draw(0, parameters=_CHECKED)):
                return True
        return False

    def _bears(self, draw: Draw) -> bool:
        """Whether the reference on a draw is as reliable as on the task's own inputs and parameters."""
        try:
            case, reliable = self._make_case(draw)
        except TaskError:
            if not self.process.alive:
                raise
            return False
        if case is None:
            return False
        finite = all(item.nan is None for item in case.expected)
        return reliable or (finite and not self._make_case(Draw(0))[1])

    def _draw_parameters(self) -> None:
        self.take_parameters(0)
        for number in (_CHECKED, _REDRAWN, _TIMED):
            seed = self._seed(Draw(number), "parameters")
            given = parameters.draw_given(self.constructed, self._read, seed, self._computed_vary)
            self._hidden[number] = Parameters(f"{seed}", given, {})

    def _learn_habits(self, native: dict[str, Any], image: torch.Tensor) -> None:
        """What the reference does that a candidate may then do as well."""
        self.unstable = bool(_UNSTABLE & native["operators"].keys()) and any(
            not wire.DTYPES[described["dtype"]].is_floating_point for described in native["tensors"]
        )
        self.only_moves = only_moves(native["operators"].keys())
        inputs = [view(image, place) for place in self.shapes[0].layout["tensors"]]
        indices = [own for own in self._outputs(native) if not own.is_floating_point()]
        self.sorts = self.unstable and all(compare.Indexed.find(own, inputs) for own in indices)
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
        checked = self._number(_CHECKED)
        planned = [Draw(index, parameters=checked) for index in range(settings.trials)]
        planned += [Draw(0, shape=index, parameters=checked) for index in range(1, len(self.shapes))]
        redrawn = self._number(_REDRAWN)
        planned += [Draw(index, name, parameters=redrawn) for index, name in enumerate(settings.distributions)]
        return [draw for draw in planned if self.case(draw) is not None]

    def renew(self) -> None:
        """From now on draw other inputs: whoever has seen a verdict on the last ones does not meet them again."""
        if self.settings.draws is None:
            self.name_of_draws = secrets.token_hex(4)
            self._cases.clear()
            self._hidden.clear()
            self._constructed = -1

    def timed_draw(self, index: int) -> Draw:
        """A draw for a timed call: with parameters that no checked run has seen."""
        return Draw(index, parameters=self._number(_TIMED))

    def _number(self, parameters: int) -> int:
        return parameters if self.parameters_vary else 0

    def case(self, draw: Draw) -> Case | None:
        """The case of that draw, made at its first use; None: the reference itself is not reliable on it.

        The caller holds `lock`.
        """
        if draw not in self._cases:
            hidden = draw.distribution != "task"
            self._cases[draw] = self._attempt(draw) if hidden else self._make_case(draw)[0]
        return self._cases[draw]

    def _attempt(self, draw: Draw) -> Case | None:
        """A case on which the reference may fail or be unreliable; None: it does, or is."""
        try:
            case, reliable = self._make_case(draw)
        except TaskError:
            if not self.process.alive:
                raise
            return None
        return case if reliable else None

    def _make_case(self, draw: Draw) -> tuple[Case | None, bool]:
        """A case, and whether the reference in its own precision is well within its bounds."""
        shape = self.shapes[draw.shape]
        image = self._draw_image(draw, shape)
        if image is None:
            return None, False
        self.take_parameters(draw.parameters)
        self.arena.arrange(shape.layout, self._ask)
        self.arena.put(image, self._ask)
        native = self._ask({"do": "run"})
        if wire.normalised(native["done"]) != shape.form:
            raise TaskError(f"task {self.task.id}: forward returns another structure on other inputs")
        outputs = self._outputs(native)
        changed = self._expect_changes(image, shape)
        in_float64 = self.settings.oracle == "float64"
        scaled = in_float64 and draw.distribution not in _UNSCALED
        exact, moved = self._exact(image) if in_float64 else (outputs, [])
        expected = [
            compare.Expected.around(value, own, described, self.task, scaled, move)
            for value, own, described, move in zip(
                exact, outputs, native["tensors"], moved or [None] * len(outputs), strict=True
            )
        ]
        if self.unstable:
            inputs = [view(image, place) for place in shape.layout["tensors"]]
            for index, own in enumerate(outputs):
                indexed = compare.Indexed.find(own, inputs)
                expected[index] = replace(expected[index], indexed=indexed)
        name = draw.distribution if not shape.sizes else " ".join(f"{k}={v}" for k, v in shape.sizes.items())
        case = Case(shape, name, image, expected, changed, draw.parameters)
        return case, all(item.reliable for item in expected)

    def _exact(self, image: torch.Tensor) -> tuple[list[torch.Tensor], list[torch.Tensor | None]]:
        """Outputs in float64, and how far rounding moves each; nothing is known of that where the task has no float64.

        The latter is empty."""
        self.arena.put(image, self._ask)
        reply = self._ask({"do": "exact"})
        tensors: list[Any] = self._outputs(reply)
        count = reply.get("num_outputs", len(tensors))
        return tensors[:count], tensors[count:]

    def take_parameters(self, number: int) -> None:
        """Have the process construct its model with these parameters, unless it has them. The caller holds `lock`."""
        if number == self._constructed:
            return
        if number and not self._hidden:
            self._draw_parameters()
        self._constructed = -1  # none, if the constructor fails
        if number == 0:
            self.constructed = parameters.construct(self._ask, None, {})["parameters"]
        else:
            hidden = self._hidden[number]
            reply = parameters.construct(self._ask, hidden.hidden, hidden.given)
            self._hidden[number] = replace(hidden, report=reply["parameters"])
        self._constructed = number

    def hidden(self, number: int) -> Parameters:
        """Hidden parameters, and what the reference's constructor reports with them. The caller holds `lock`."""
        if not self._hidden or not self._hidden[number].report:
            self.take_parameters(number)
        return self._hidden[number]

    def values(self, number: int, registrations: list[int]) -> list[torch.Tensor]:
        """What the model holds with hidden parameters, by the numbers of its registrations. The caller holds `lock`."""
        self.take_parameters(number)
        return [self._read(self._hidden[number].report["tensors"][each]) for each in registrations]

    def _read(self, described: dict[str, Any]) -> torch.Tensor:
        return self.process.tensor(described)

    def _expect_changes(self, image: torch.Tensor, shape: Shape) -> dict[int, compare.Expected]:
        """What the reference has just made of the inputs that it changes, within the tolerance of an output."""
        expected = {}
        for index in self.arena.changed(image, shape.layout):
            values, place = self.arena.inputs(shape.layout)[index], shape.layout["tensors"][index]
            expected[index] = compare.Expected.around(values, values, place, self.task, scaled=False)
        return expected

    def _draw_image(self, draw: Draw, shape: Shape) -> torch.Tensor | None:
        """The inputs of a draw; None: the distribution does not apply to this task."""
        if self.unstable and not self.sorts and draw.distribution in distributions.UNORDERED:
            return None
        drawn = self._ask(self._question(draw, shape.sizes))
        image = self._image(shape.layout, drawn)
        generator = torch.Generator().manual_seed(self._seed(draw, "values"))
        if not self.draws_nothing and drawn.get("num_drawn", 1):
            if draw.distribution != "task" and not drawn["num_redrawn"]:
                return None
            if draw.index or draw.distribution != "task" or draw.shape:
                for loose, place in zip(self._loose, shape.layout["tensors"], strict=True):
                    if loose and place["bytes"]:
                        values = view(image, place)
                        write(values, distributions.vary(values, generator))
            return image
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
            number = self._number(_CHECKED)
            case = self.case(Draw(0, parameters=number))
            assert case is not None
            arena = Arena(self.arena_bytes, self.settings)
            with self._start("library") as process:

                def ask(message: dict[str, Any], fds: tuple[int, ...] = ()) -> dict[str, Any]:
                    return self._ask(message, process=process, fds=fds)

                process.watch_memory()
                arena.attach(process, self.settings.run_timeout_s)
                ask(self._load_question | self.init)
                if number:
                    parameters.construct(ask, self._hidden[number].hidden, self._hidden[number].given)
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
        inputs = Draw(draw.index, draw.distribution, draw.shape)  # the same ones with other parameters
        return {"do": "inputs", "seed": self._seed(inputs), "sizes": sizes, "distribution": draw.distribution}

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
        self,
        message: dict[str, Any],
        timeout: float | None = None,
        process: Process | None = None,
        fds: tuple[int, ...] = (),
    ) -> dict[str, Any]:
        process, timeout = process or self.process, timeout or self.settings.run_timeout_s
        try:
            reply = self._cores.ask(process, message, timeout, fds=fds)
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
