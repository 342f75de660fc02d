"""The contestant: the process in which one candidate, or one reference, runs.

Forked from the warm server, confined before it sees untrusted text, and then driven over one socket. Nothing that it
says is believed: its outputs are read from its memory while it is frozen, and its time is taken outside. The
reference runs in a process of the same kind, so that both are timed alike.
"""

from __future__ import annotations

import contextlib
import gc
import mmap
import os
import socket
from collections.abc import Callable, Collection, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Literal

import torch

from kernelrl.executor import trees, wire
from kernelrl.executor.api import Distribution
from kernelrl.executor.contest import allocator, demand
from kernelrl.executor.contest import exact as exactly
from kernelrl.executor.contest.builds import ALL, route_builds
from kernelrl.executor.contest.call_region import CallRegion
from kernelrl.executor.contest.closed_pages import (
    CPU,
    Copies,
    Helper,
    Plumbing,
    all_inputs,
    allowed_among,
    find_needed,
    replay,
    work_as_native_code,
    work_in_parallel,
)
from kernelrl.executor.contest.construction import Construction
from kernelrl.executor.contest.decisions import Decisions
from kernelrl.executor.contest.descriptors import close_all_of, close_others
from kernelrl.executor.contest.drawing import DrawCounter, Further
from kernelrl.executor.contest.gpu import Gpu, library_share
from kernelrl.executor.contest.input_changes import leaves_behind, share_elements
from kernelrl.executor.contest.inputs import Inputs
from kernelrl.executor.contest.interpreted import failing_with_kernels
from kernelrl.executor.contest.launches import recorded_launches
from kernelrl.executor.contest.layouts import Layouts
from kernelrl.executor.contest.leaving import Leaving
from kernelrl.executor.contest.operator_record import OperatorRecord
from kernelrl.executor.contest.seeding import seed_torch
from kernelrl.executor.contest.state import read_settings, read_state
from kernelrl.executor.contest.text_module import explain, import_text
from kernelrl.executor.contest.thresholds import Thresholds
from kernelrl.executor.contest.values import literal, tensor_of, value_at
from kernelrl.executor.contest.watching import in_own_memory, watch_bounds
from kernelrl.executor.legality.reading import read
from kernelrl.executor.processes.note import Note

REHEARSAL = """\
import torch
from torch import nn

class ModelNew(nn.Module):
    def forward(self):
        return torch.empty(8).add_(1.0)
"""


class Contestant:
    def __init__(self, sock: socket.socket, scratch: Path, gpu: Gpu | None, note: Note, helper: Helper):
        self.sock = sock
        self.scratch = scratch
        self.gpu = gpu
        self.note = note
        self.helper = helper
        self.model: Any
        self.region: CallRegion | None = None
        self.held: list[list[torch.Tensor]] = []  # what the last two answers describe
        self.arranged: tuple[Any, list[torch.Tensor]] = {"tuple": []}, []
        self.empty = torch.empty(0)
        self.ranges: set[tuple[int, int]] = set()  # from which the task draws integers
        self.num_outputs = 0  # of the last call
        self.called = False
        self.native = route_builds(self._build, self._offered)

    def rehearse(self) -> None:
        """Touch the memory that every candidate will: after a fork, the first write to each page copies it."""
        self.do_load(REHEARSAL, "ModelNew", init=[], init_tensors=[], seed=0)
        self.do_state()
        self.do_run(recorded=True)
        allocator.give_back()
        self.called = False

    def serve(self) -> None:
        while True:
            message, fds = wire.receive(self.sock, max_fds=2)
            nonce = message.pop("nonce")
            operation = getattr(self, "do_" + message.pop("do"))
            try:
                reply = operation(*fds, **message)
            except BaseException as error:
                reply = {"failed": type(error).__name__, "message": explain(error)}
            wire.send(self.sock, reply | {"nonce": nonce})

    def do_read(self, source: str, dialect: str, static_rules: bool) -> dict[str, Any]:
        """Parse a text and hold it against the static rules, before anything of it runs."""
        return read(source, dialect, static_rules)

    def do_load(
        self,
        source: str,
        entry: str,
        init: Any,
        init_tensors: list[dict[str, Any]],
        seed: int,
        compiled: str | None = None,
        unreached: Collection[Sequence[int]] | None = None,
    ) -> dict[str, Any]:
        """Import the source and construct `entry`; `init` None: the module's own `get_init_inputs()`.

        `compiled` is a mode of `torch.compile`; `unreached`: see `import_text`.
        """
        draws = DrawCounter()
        with draws if init is None else contextlib.nullcontext():
            self.module = import_text(source, self.scratch, unreached)
        self.inputs_of_task = Inputs(self.module, draws.count > 0)
        seed_torch(seed)
        tensors: list[torch.Tensor] = []
        if init is None:
            init = trees.flatten(tuple(self.module.get_init_inputs()), tensors)
            init_tensors = [literal(tensor) for tensor in tensors]
        self.entry, self.init, self.init_tensors, self.seed = entry, init, init_tensors, seed
        parameters = self._construct(Construction(None, {}))
        self.native.load()
        if compiled:
            from torch._inductor import config  # takes a second

            config.cpp.vec_isa_ok = True  # as the processor says: to try its vectors out takes longer than to compile
            self.model = torch.compile(self.model, mode=compiled)
        return {"loaded": True, "init": init, "init_tensors": init_tensors, "parameters": parameters}

    def do_construct(self, fd: int, size: int, hidden: str, given: list[dict[str, Any]]) -> dict[str, Any]:
        """Construct the model again, with hidden random draws and given values for some of what it registers.

        Args:
            fd: the memory in which the given values lie.
            size: of that memory (in bytes).
            hidden: seed of the hidden draws.
            given: for each value the number of the registration, dtype, shape and offset.
        """
        with mmap.mmap(fd, size, prot=mmap.PROT_READ) as memory:
            os.close(fd)
            values = {item["number"]: value_at(memory, item) for item in given}
        self.held = []
        self.model = None  # its memory is free before the next one takes some
        return {"parameters": self._construct(Construction(hidden, values))}

    def _construct(self, construction: Construction) -> dict[str, Any]:
        """Call the constructor; the report says what it drew and registered."""
        arguments = trees.unflatten(self.init, [tensor_of(item) for item in self.init_tensors])
        seed_torch(self.seed)
        with construction.watching():
            self.model = getattr(self.module, self.entry)(*arguments)
        construction.finish(self.model)
        report = construction.report(self.model)
        if self.gpu is not None:
            self.constructed = construction.values  # stays where the report says while the model goes to the device
            self.model = self.model.to(self.gpu.device)
        seed_torch(self.seed)
        self.held = []
        return report

    def do_attach(self, *fds: int, sizes: list[int]) -> dict[str, Any]:
        """Map the memory through which inputs arrive and that of the tensors of a call, if they are to lie there."""
        self.arena = mmap.mmap(fds[0], sizes[0])
        file = os.fstat(fds[0])
        os.close(fds[0])
        self.host = self.inputs = torch.frombuffer(self.arena, dtype=torch.uint8)
        if self.gpu is not None:
            self.gpu.attach(self.host)
            self.inputs = self.gpu.inputs
            close_all_of(file)
            return {"attached": [self.inputs.data_ptr()]}
        if len(fds) == 1:
            return {"attached": [self.inputs.data_ptr()]}
        self.region = CallRegion(fds[1], sizes[1])
        close_others()  # mappings hold on to descriptors of memory that could be mapped executable
        return {"attached": [self.inputs.data_ptr(), self.region.address]}

    def do_arrange(self, form: Any, tensors: list[dict[str, Any]]) -> dict[str, Any]:
        """Make the arguments of `forward` from views of that memory."""
        views = []
        for item in tensors:
            dtype = trees.DTYPES[item["dtype"]]
            count = item["bytes"] // dtype.itemsize
            if not count:
                views.append(torch.empty(item["shape"], dtype=dtype, device=self.inputs.device))
            elif self.gpu is None:
                flat = torch.frombuffer(self.arena, dtype=dtype, count=count, offset=item["offset"])
                views.append(flat.as_strided(item["shape"], item["stride"]))
            else:
                flat = self.inputs[item["offset"] : item["offset"] + item["bytes"]].view(dtype)
                views.append(flat.as_strided(item["shape"], item["stride"], flat.storage_offset()))
        self.arranged = form, views
        return {"arranged": True}

    @property
    def args(self) -> tuple[Any, ...]:
        """The arguments of `forward`, in lists and dictionaries of which no earlier call has changed any."""
        args: tuple[Any, ...] = trees.unflatten(*self.arranged)
        return args

    def do_shared(self, numbers: list[int]) -> dict[str, Any]:
        """Whether inputs of these numbers, as `get_inputs()` gave them, have elements that others have."""
        tensors: list[torch.Tensor] = []
        trees.flatten(self.drawn, tensors)
        return {"shared": any(share_elements(tensors, number) for number in numbers)}

    def do_run(
        self, recorded: bool = False, profiled: bool = False, compared: bool = False, deciding: bool = False
    ) -> dict[str, Any]:
        """Call `forward` on the inputs.

        Args:
            recorded: note library operators and Triton's launches.
            profiled: on a GPU, measure the operators' share of the time, which takes long.
            compared: note which operators change nothing, see `OperatorRecord`, and with what they compare.
            deciding: give the decisions that it makes on its way behind its outputs.
        """
        seen: dict[str, Any] = {}

        def call() -> Any:
            if deciding:
                return self._deciding_call(seen)
            return self._recorded_call(seen, profiled, compared) if recorded else self.model(*self.args)

        reply = self._answer(call, seen)
        self.num_outputs = len(reply["tensors"]) - seen.get("num_decisions", 0)
        if not self.called:
            self.called = True
            allocator.keep()  # memory is measured in the first call
        return reply

    def _answer(self, call: Callable[[], Any], seen: dict[str, Any]) -> dict[str, Any]:
        """The answer to a call, with what is `seen` meanwhile and which memory the next one may use."""
        outputs: Any = None
        described: Any = None
        if self.region is not None:
            self.region.begin()
        try:
            with failing_with_kernels():
                outputs = call()
            if self.gpu is not None:
                self.gpu.finish()
            reply = self._report(outputs, numbers=torch.float32) | seen
            if self.region is not None:  # the referee reads there, and what is held could not be used by the next call
                described = zip(self.held.pop(), reply["tensors"], strict=True)
                self.held = [[tensor for tensor, each in described if not self.region.owns(each["pointer"])]]
        finally:
            outputs = described = None
            if self.region is not None:
                seen["spans"] = self.region.end()
        return reply | seen

    def _deciding_call(self, seen: dict[str, Any]) -> Any:
        with Decisions() as decisions:
            outputs = self.model(*self.args)
        seen["num_decisions"] = len(decisions.made)
        return outputs, decisions.made

    def _recorded_call(self, seen: dict[str, Any], profiled: bool, compared: bool) -> Any:
        self.note.clear()
        before, self.native.handed_over.is_counting = self.native.handed_over.count, True
        thresholds = Thresholds(self.model, self.args, self.ranges) if compared else contextlib.nullcontext()
        layouts = Layouts() if compared else contextlib.nullcontext()
        leaving = Leaving(thresholds.leave) if isinstance(thresholds, Thresholds) else contextlib.nullcontext()
        record, recording = OperatorRecord(self.note, compared), recorded_launches()
        with thresholds, layouts, leaving, record, recording as launches:
            args = self.args
            if self.gpu is not None and profiled:
                outputs, seen["library_share"] = library_share(lambda: self.model(*args))
            else:
                outputs = self.model(*args)
                if self.gpu is not None:
                    self.gpu.finish()
        self.native.handed_over.is_counting = False
        if numbers := self.native.handed_over.count - before:  # as `item()` would
            record.counts["aten::_local_scalar_dense"] += numbers
        seen.update(operators=dict(record.counts), launches=launches)
        if compared:
            seen["leaves_behind"] = leaves_behind(args, self.args, outputs)
            seen["idle"] = sorted(record.counts.keys() - record.changing)
        if isinstance(thresholds, Thresholds):
            seen["thresholds"] = thresholds.found()
        if isinstance(layouts, Layouts):
            seen["laid_out"] = layouts.of(outputs)
        return outputs

    def do_threads(self, number: int) -> dict[str, Any]:
        """From now on work with so many threads."""
        torch.set_num_threads(number)
        return {"settings": read_settings()}

    def do_watch(self) -> dict[str, Any]:
        """From now on a Triton kernel fails that touches what is none of its arguments' memory."""
        self.watch = watch_bounds()
        return {"watching": True}

    def do_try(self) -> dict[str, Any]:
        """Call `forward` on inputs that lie in memory of their own; the answer says whether all could be watched."""
        self.model(*trees.map_tensors(self.args, in_own_memory))
        return {"watched": self.watch.is_complete}

    def do_prepare_profile(self) -> dict[str, Any]:
        """Prepare the device's profiler for a call."""
        assert self.gpu is not None
        self.gpu.prepare_profile()
        return {"prepared": True}

    def do_stage(self) -> dict[str, Any]:
        """Bring the inputs in the arena to the device."""
        assert self.gpu is not None
        self.gpu.stage(self.host)
        return {"staged": True}

    def do_fetch(self) -> dict[str, Any]:
        """Bring the last call's outputs to the host, and the inputs back to the arena."""
        assert self.gpu is not None
        return {"tensors": [trees.describe(tensor) for tensor in self.gpu.fetch(self.host, self.held[-1])]}

    def do_null(self) -> dict[str, Any]:
        """Do all that a call does, but with a `forward` that does nothing: to time the rest."""
        held = self.held
        reply = self._answer(lambda: [self.empty] * self.num_outputs, {})
        self.held = held
        return reply

    def do_inputs(
        self,
        seed: int,
        sizes: dict[str, int],
        distribution: Distribution | Literal["task"],
        keyed: bool,
        further: dict[str, Any],
        other_seed: int | None = None,
    ) -> dict[str, Any]:
        """Draw inputs by the task's own `get_inputs()`, with other values for some of the module's constants.

        With a hidden distribution, what it draws has that distribution. The answer counts the draws, and names those
        that are inputs as they are (`plain_draws`), and says whether integers are drawn from a range.

        Args:
            keyed: seeds that the task sets itself are without effect.
            further: what draws hold beside the distribution, see `drawing.Further`.
            other_seed: of generators that are not PyTorch's; None: `seed`.
        """
        self.drawn, drawing = self.inputs_of_task.draw(seed, sizes, distribution, keyed, Further(**further), other_seed)
        report = self._report(self.drawn)
        plain = drawing.plain.reach(self.held[-1])
        self.ranges |= drawing.ranges
        numbers = {"num_drawn": drawing.num_drawn, "num_redrawn": drawing.num_redrawn}
        kinds = {"draws_integers": bool(drawing.ranges), "draws_counts": drawing.draws_counts}
        return report | numbers | kinds | {"plain": plain}

    def do_demand(self, seeds: list[int], parameters: bool, budget_s: float) -> dict[str, Any]:
        """What every program that does this task must read and compute, see `demand`."""
        draw, state = self.inputs_of_task.draw_as_shown, torch.get_rng_state()
        try:
            read = demand.read_bytes(self.model, draw, seeds, parameters, budget_s)
            with OperatorRecord(self.note) as record:
                self.model(*draw(seeds[0]))
            return {"read": read, "flops": demand.product_flops(self.model, draw(seeds[0]), frozenset(record.counts))}
        finally:
            torch.set_rng_state(state)

    def do_exact(
        self,
        changed: list[int],
        by_largest: bool,
        masked: bool,
        level: int | None,
        writes: bool,
        faint: bool,
        narrows: bool | None,
    ) -> dict[str, Any]:
        """Outputs of the reference on the inputs in the arena, in float64 where the task runs in it.

        They are followed by what it makes of the inputs of these numbers. After them come how far rounding moves each
        (nothing, where that is not known), and for outputs that consist of chosen indices what they were chosen from,
        how far rounding moves that, and the indices (see `exact`); at last which elements of each output a mask may
        have hidden, and which are infinity or NaN that the task writes, as far as that is asked for.
        """
        exact = exactly.compute(
            self.model, self.args, self._precision(), changed, by_largest, masked, level, writes, faint, narrows
        )
        tensors: list[torch.Tensor] = []
        form = trees.flatten(exact.outputs, tensors, torch.float64)
        choices = exact.choices.items()
        keys = [[choice.values, choice.move, choice.indices] for _, choice in choices]
        told = [
            {"output": number} | {name: getattr(choice, name) for name in ("dim", "first", "running", "unordered")}
            for number, choice in choices
        ]
        counts = {"num_outputs": len(tensors), "num_moves": len(exact.moves), "num_hidden": len(exact.hidden)}
        told_of_all = {
            "form": form,
            "choices": told,
            "open": exact.open,
            "level": exact.level,
            "narrows": exact.narrows,
        }
        return self._report((tensors, exact.moves, keys, exact.hidden, exact.written)) | told_of_all | counts

    def _precision(self) -> torch.dtype:
        """The lowest floating-point precision among parameters and inputs."""
        tensors = list(self.model.parameters())
        trees.flatten(self.args, tensors)
        dtypes = {tensor.dtype for tensor in tensors if tensor.is_floating_point()}
        return max(dtypes, key=lambda dtype: torch.finfo(dtype).eps, default=torch.float32)

    def do_state(self) -> dict[str, Any]:
        """Digests of what a call of `forward` must leave as it was."""
        return {"state": read_state(getattr(self, "model", None), self.gpu is not None)}

    def _report(self, tree: Any, numbers: torch.dtype | None = None) -> dict[str, Any]:
        tensors: list[torch.Tensor] = []
        form = trees.flatten(tree, tensors, numbers)
        self.held = [*self.held[-1:], tensors]
        return {"done": form, "tensors": [trees.describe(tensor) for tensor in tensors]}

    def do_close(self, ranges: list[list[int]], path: str, parts: list[list[int]]) -> dict[str, Any]:
        """Close code of libraries but for the open functions, see `closed_library`."""
        gc.collect()  # what was left over in construction may need a library to be freed
        return {"failures": self.helper.close(ranges, path, parts)}

    def do_sift(self, operators: list[dict[str, Any]], types: list[str] | None) -> dict[str, Any]:
        """Those of some recorded operators that do nothing that only a kernel may do; `types`: see below."""
        return {"operators": allowed_among(operators, _copies(types))}

    def do_find_functions(
        self, mappings: list[Any], operators: list[dict[str, Any]], types: list[str] | None
    ) -> dict[str, Any]:
        """The functions in these mappings that some operators need; without any, all that is allowed.

        Args:
            mappings, operators: see above.
            types: between which conversions are allowed; None: no copies are.
        """
        copies = _copies(types)

        def work() -> None:
            if operators:
                replay(operators, copies)
                with OperatorRecord(self.note):
                    replay(operators, copies)
                    if self.gpu is not None:
                        library_share(lambda: replay(operators, copies))
                return
            for device in [CPU] if self.gpu is None else [CPU, self.gpu.device]:
                self.model = Plumbing(copies, device)
                self.model.inputs = all_inputs(device)
                self.do_arrange({"tuple": []}, [])
                self.do_run(recorded=True)
                self.do_run()
                work_as_native_code(copies, device)
                work_in_parallel(copies, device)
                if self.gpu is not None:
                    self.gpu.work(self.held[-1])
                    self.model.inputs = [each for each in self.model.inputs if each.dtype == torch.float32]
                    self.do_run(recorded=True, profiled=True)
                    library_share(partial(work_as_native_code, copies, device))
                self.model.inputs = []
                self.do_run(recorded=True)
                self.do_null()
                self.do_state()
            gc.collect()  # which may come at any time

        return {"functions": find_needed(self.helper, mappings, work)}

    def _build(self, unit: dict[str, Any]) -> None:
        """Have the builder compile one native module."""
        reply = self._request({"build": unit})
        if not reply["ok"]:
            raise RuntimeError(f"build of {unit['name']!r} failed:\n{reply['log']}")

    def _offered(self) -> list[Path]:
        """Where all native modules lie that were built. No other one is built from then on."""
        return [Path(path) for path in self._request({"build": ALL})["paths"]]

    def _request(self, message: dict[str, Any]) -> dict[str, Any]:
        wire.send(self.sock, message)
        reply, _ = wire.receive(self.sock)
        return reply


def _copies(types: list[str] | None) -> Copies:
    return None if types is None else frozenset({torch.float32, *(getattr(torch, name) for name in types)})
