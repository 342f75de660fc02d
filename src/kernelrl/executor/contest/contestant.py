"""The contestant: the process in which one candidate, or one reference, runs.

Forked from the warm server, confined before it sees untrusted text, and then driven over one socket. Nothing that it
says is believed: its outputs are read from its memory while it is frozen, and its time is taken outside. The
reference runs in a process of the same kind, so that both are timed alike.
"""

from __future__ import annotations

import contextlib
import copy
import ctypes
import faulthandler
import importlib
import importlib.util
import math
import mmap
import os
import signal
import socket
import sys
import tempfile
import time
import traceback
import zlib
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any, cast

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from kernelrl.executor import wire
from kernelrl.executor.api import Distribution
from kernelrl.executor.confinement.sandbox import Limits, confine, tie_to_parent
from kernelrl.executor.contest import allocator
from kernelrl.executor.contest.call_region import CallRegion
from kernelrl.executor.contest.closed_pages import (
    Helper,
    Plumbing,
    all_inputs,
    find_needed,
    replay,
    work_in_parallel,
)
from kernelrl.executor.contest.construction import Construction
from kernelrl.executor.contest.drawing import Drawing
from kernelrl.executor.contest.gpu import Gpu, library_share
from kernelrl.executor.contest.launches import recorded_launches
from kernelrl.executor.contest.rounding import Rounding
from kernelrl.executor.legality.reading import read
from kernelrl.executor.processes.note import Note, describe_operator

MODULE_NAME = "kernel_module"
MAX_TEXT = 4000
REHEARSAL = """\
import torch
from torch import nn

class ModelNew(nn.Module):
    def forward(self):
        return torch.empty(8).add_(1.0)
"""
FIRST_FREE, MAX_FD = 4, 4096
"""Descriptors from the first on are closed: below are the log and the socket."""
FOLDERS = ("HOME", "TMPDIR", "TRITON_CACHE_DIR", "TORCHINDUCTOR_CACHE_DIR", "XDG_CACHE_HOME")
"""Environment variables that name the scratch folder."""


def main(sock: socket.socket, log: int, note_fd: int, spec: dict[str, Any]) -> None:
    """Confine this process and serve the referee until it hangs up. Never returns normally.

    Args:
        sock: the referee's end is the only thing that this process is connected to.
        log: file that takes standard output and standard error.
        note_fd: memory that tells the referee what the process has died of.
        spec: `scratch` (folder), `modules` (folder of what the builder makes for it), `helper` (file), `memory_bytes`,
            `file_bytes`, `threads`, `device` (`cpu` or `cuda`), `may_exec` for what needs a compiler, as Triton does on
            a GPU, `filtered` unless it is trusted text, and `sealed` for candidates (see `confine`).
    """
    tie_to_parent()
    note, helper = Note(note_fd), Helper(spec["helper"])
    sock_fd = _keep_only(sock, log)
    sock = socket.socket(fileno=sock_fd)
    scratch, modules = Path(spec["scratch"]), Path(spec["modules"])
    path, cuda = os.environ.get("PATH", os.defpath), spec["device"] == "cuda"
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    spin_count = os.environ["GOMP_SPINCOUNT"]
    os.environ.clear()
    os.environ.update({name: str(scratch) for name in FOLDERS})
    tempfile.tempdir = str(scratch)  # the forkserver may have looked for one already
    if spec["may_exec"]:
        os.environ["PATH"] = path
    if cuda and visible is not None:
        os.environ["CUDA_VISIBLE_DEVICES"] = visible
    elif not cuda:
        os.environ["TRITON_INTERPRET"] = "1"
        _prepare_interpreter()
    # for OpenMP runtimes that the candidate brings along; torch's has read the forkserver's environment
    os.environ["OMP_NUM_THREADS"], os.environ["GOMP_SPINCOUNT"] = str(spec["threads"]), spin_count
    limits = Limits(memory_bytes=spec["memory_bytes"], file_bytes=spec["file_bytes"])
    layers = confine(
        scratch,
        limits,
        (str(modules),),
        may_exec=spec["may_exec"],
        filtered=spec["filtered"],
        cuda=cuda,
        modules=modules if spec["sealed"] else None,
    )
    torch.set_num_threads(spec["threads"])  # may start threads, which must be confined too
    os.chdir(scratch)
    served = _Contestant(sock, scratch, Gpu() if cuda else None, note, helper)
    with torch.no_grad():
        served.rehearse()
        if spec["sealed"]:
            signal.signal(signal.SIGSEGV, signal.SIG_DFL)  # instead of a handler of tvm-ffi's
            faulthandler.enable(all_threads=False)  # the log says in which line a process dies
            helper.report_faults(note.address)
        wire.send(sock, {"ready": layers, "settings": _read_settings()})
        served.serve()


def _prepare_interpreter() -> None:
    """Leave out what Triton does for a GPU: timing configs, of which the first serves, and copying what it changed."""
    from triton.runtime.autotuner import Autotuner
    from triton.runtime.interpreter import GridExecutor

    def all_alike(self: Autotuner, *args: Any, config: Any, **meta: Any) -> list[float]:
        return [1.0, 1.0, 1.0]

    def nothing_to_restore(self: GridExecutor, *arguments: Any) -> None:
        """The interpreter works in the arguments' own memory where that is the CPU's."""

    Autotuner._bench = all_alike
    GridExecutor._restore_args_dev = nothing_to_restore


def _keep_only(sock: socket.socket, log: int) -> int:
    """Close every inherited descriptor but the socket (moved to 3) and the log (as 1 and 2)."""
    null = os.open(os.devnull, os.O_RDONLY)
    sock_fd = sock.detach()
    os.dup2(null, 0)
    os.dup2(log, 1)
    os.dup2(log, 2)
    if sock_fd != 3:
        os.dup2(sock_fd, 3)
    os.closerange(FIRST_FREE, MAX_FD)
    return FIRST_FREE - 1


class _Contestant:
    def __init__(self, sock: socket.socket, scratch: Path, gpu: Gpu | None, note: Note, helper: Helper):
        self.sock = sock
        self.scratch = scratch
        self.gpu = gpu
        self.note = note
        self.helper = helper
        self.model: Any
        self.region: CallRegion | None = None
        self.held: list[list[torch.Tensor]] = []  # what the last two answers describe
        self.args: tuple[Any, ...] = ()
        self.called = False
        self.shown: dict[str, Any] = {}  # the module's constants as written, of those that have had other values
        _route_builds(self._build)

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
                reply = {"failed": type(error).__name__, "message": _explain(error)}
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
        compiled: bool = False,
    ) -> dict[str, Any]:
        """Import the source and construct `entry`; `init` None: the module's own `get_init_inputs()`."""
        path = self.scratch / f"{MODULE_NAME}.py"
        path.write_text(source, encoding="utf-8")
        spec = importlib.util.spec_from_file_location(MODULE_NAME, path)
        assert spec is not None and spec.loader is not None
        self.module = importlib.util.module_from_spec(spec)
        sys.modules[MODULE_NAME] = self.module
        spec.loader.exec_module(self.module)
        torch.manual_seed(seed)
        tensors: list[torch.Tensor] = []
        if init is None:
            init = wire.flatten(tuple(self.module.get_init_inputs()), tensors)
            init_tensors = [_literal(tensor) for tensor in tensors]
        self.entry, self.init, self.init_tensors, self.seed = entry, init, init_tensors, seed
        parameters = self._construct(Construction(None, {}))
        if compiled:
            self.model = torch.compile(self.model)
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
            values = {item["number"]: _value_at(memory, item) for item in given}
        self.held = []
        del self.model  # its memory is free before the next one takes some
        return {"parameters": self._construct(Construction(hidden, values))}

    def _construct(self, construction: Construction) -> dict[str, Any]:
        """Call the constructor; the report says what it drew and registered."""
        arguments = wire.unflatten(self.init, [_tensor_of(item) for item in self.init_tensors])
        torch.manual_seed(self.seed)
        with construction.watching():
            self.model = getattr(self.module, self.entry)(*arguments)
        report = construction.report(self.model)
        if self.gpu is not None:
            self.constructed = construction.values  # stays where the report says while the model goes to the device
            self.model = self.model.to(self.gpu.device)
        torch.manual_seed(self.seed)
        self.held = []
        return report

    def do_attach(self, *fds: int, sizes: list[int]) -> dict[str, Any]:
        """Map the memory through which inputs arrive and, but on a GPU, that of the tensors of a call."""
        self.arena = mmap.mmap(fds[0], sizes[0])
        os.close(fds[0])
        self.host = self.inputs = torch.frombuffer(self.arena, dtype=torch.uint8)
        if self.gpu is not None:
            self.gpu.attach(self.host)
            self.inputs = self.gpu.inputs
            return {"attached": [self.inputs.data_ptr()]}
        self.region = CallRegion(fds[1], sizes[1])
        os.closerange(FIRST_FREE, MAX_FD)  # mappings hold on to descriptors of memory that could be mapped executable
        return {"attached": [self.inputs.data_ptr(), self.region.address]}

    def do_arrange(self, form: Any, tensors: list[dict[str, Any]]) -> dict[str, Any]:
        """Make the arguments of `forward` from views of that memory."""
        views = []
        for item in tensors:
            dtype = wire.DTYPES[item["dtype"]]
            count = item["bytes"] // dtype.itemsize
            if not count:
                views.append(torch.empty(item["shape"], dtype=dtype, device=self.inputs.device))
            elif self.gpu is None:
                flat = torch.frombuffer(self.arena, dtype=dtype, count=count, offset=item["offset"])
                views.append(flat.as_strided(item["shape"], item["stride"]))
            else:
                flat = self.inputs[item["offset"] : item["offset"] + item["bytes"]].view(dtype)
                views.append(flat.as_strided(item["shape"], item["stride"], flat.storage_offset()))
        self.args = wire.unflatten(form, views)
        return {"arranged": True}

    def do_run(self, recorded: bool = False, profiled: bool = False) -> dict[str, Any]:
        """Call `forward` on the inputs.

        Args:
            recorded: note library operators, their share of the time, and Triton's launches.
            profiled: on a GPU, measure that share, which takes long.
        """
        seen: dict[str, Any] = {}
        outputs: Any = None
        described: Any = None
        if self.region is not None:
            self.region.begin()
        try:
            outputs = self._recorded_call(seen, profiled) if recorded else self.model(*self.args)
            if self.gpu is not None:
                self.gpu.finish()
            reply = self._report(outputs) | seen
            if self.region is not None:  # the referee reads there, and what is held could not be used by the next call
                described = zip(self.held.pop(), reply["tensors"], strict=True)
                self.held = [[tensor for tensor, each in described if not self.region.owns(each["pointer"])]]
        finally:
            outputs = described = None
            if self.region is not None:
                seen["spans"] = self.region.end()
        if not self.called:
            self.called = True
            allocator.keep()  # memory is measured in the first call
        return reply | seen

    def _recorded_call(self, seen: dict[str, Any], profiled: bool) -> Any:
        self.note.clear()
        with OperatorRecord(self.note) as record, recorded_launches() as launches:
            share: float | None = None
            if self.gpu is None:
                started = time.perf_counter()
                outputs = self.model(*self.args)
                share = record.seconds / (time.perf_counter() - started - record.noting_seconds)
            elif profiled:
                outputs, share = library_share(lambda: self.model(*self.args))
            else:
                outputs = self.model(*self.args)
                self.gpu.finish()
        seen.update(operators=dict(record.counts), library_share=share, launches=launches)
        return outputs

    def do_stage(self) -> dict[str, Any]:
        """Bring the inputs in the arena to the device."""
        assert self.gpu is not None
        self.gpu.stage(self.host)
        return {"staged": True}

    def do_fetch(self) -> dict[str, Any]:
        """Bring the last call's outputs to the host, and the inputs back to the arena."""
        assert self.gpu is not None
        return {"tensors": [wire.describe(tensor) for tensor in self.gpu.fetch(self.host, self.held[-1])]}

    def do_null(self) -> dict[str, Any]:
        """Do nothing, to time the way there and back."""
        if self.gpu is not None:
            self.gpu.finish()
        return {"done": None, "tensors": []}

    def do_inputs(self, seed: int, sizes: dict[str, int], distribution: str = "task") -> dict[str, Any]:
        """Draw inputs by the task's own `get_inputs()`, with other values for some of the module's constants.

        With a hidden distribution, what it draws has that distribution; the answer then counts the draws.
        """
        namespace = vars(self.module)
        for name in sizes:
            self.shown.setdefault(name, namespace[name])
        namespace.update(self.shown | sizes)
        torch.manual_seed(seed)
        if distribution == "task":
            self.drawn = _map(tuple(self.module.get_inputs()), torch.Tensor.cpu)
            return self._report(self.drawn)
        with Drawing(cast(Distribution, distribution), seed) as drawing:
            self.drawn = _map(tuple(self.module.get_inputs()), torch.Tensor.cpu)
        return self._report(self.drawn) | {"num_drawn": drawing.num_drawn, "num_redrawn": drawing.num_redrawn}

    def do_exact(self) -> dict[str, Any]:
        """Outputs of the reference on the inputs in the arena, in float64 where the task runs in it.

        After them comes what rounding in the task's own precision does to each (see `rounding`): the distance to the
        exact output, or for integers and booleans whether it changes. Without float64 there is none of that.
        """
        try:
            outputs = copy.deepcopy(self.model).double()(*_map(self.args, _to_double))
        except Exception:  # a task may insist on its own precision: then its own outputs are the reference
            return self._report(copy.deepcopy(self.model)(*copy.deepcopy(self.args)))
        tensors: list[torch.Tensor] = []
        form = wire.flatten(outputs, tensors)
        moves = []
        with contextlib.suppress(Exception):  # an operator that this precision lacks: nothing is known of rounding
            rounded: list[torch.Tensor] = []
            with Rounding(self._precision()):
                wire.flatten(copy.deepcopy(self.model).double()(*_map(self.args, _to_double)), rounded)
            moves = [_move(*pair) for pair in zip(tensors, rounded, strict=True)]
        return self._report((outputs, moves)) | {"form": form, "num_outputs": len(tensors)}

    def _precision(self) -> torch.dtype:
        """The lowest floating-point precision among parameters and inputs."""
        tensors = list(self.model.parameters())
        wire.flatten(self.args, tensors)
        dtypes = {tensor.dtype for tensor in tensors if tensor.is_floating_point()}
        return max(dtypes, key=lambda dtype: torch.finfo(dtype).eps, default=torch.float32)

    def do_state(self) -> dict[str, Any]:
        """Digests of what a call of `forward` must leave as it was."""
        model = getattr(self, "model", None)
        tensors = [] if model is None else [*model.parameters(), *model.buffers()]
        state: dict[str, Any] = {"parameters": 0}
        for tensor in tensors:
            storage = tensor.untyped_storage().cpu()  # a tensor's own copy would be code of the library's
            memory = (ctypes.c_ubyte * storage.nbytes()).from_address(storage.data_ptr())
            state["parameters"] = zlib.crc32(memory, state["parameters"])
        random_states = [torch.get_rng_state()] + ([] if self.gpu is None else [torch.cuda.get_rng_state()])
        state["random numbers"] = [zlib.crc32(each.numpy().tobytes()) for each in random_states]
        return {"state": state | _read_settings()}

    def _report(self, tree: Any) -> dict[str, Any]:
        tensors: list[torch.Tensor] = []
        form = wire.flatten(tree, tensors)
        self.held = [*self.held[-1:], tensors]
        return {"done": form, "tensors": [wire.describe(tensor) for tensor in tensors]}

    def do_close(self, ranges: list[list[int]]) -> dict[str, Any]:
        """Close code of libraries, see `closed_library`."""
        return {"failures": self.helper.close(ranges)}

    def do_find_pages(self, ranges: list[list[int]], operators: list[dict[str, Any]], copies: bool) -> dict[str, Any]:
        """Addresses of the pages in these ranges that some operators need; without any, all that is allowed."""
        self.model = Plumbing(copies)

        def work() -> None:
            self.model.inputs = all_inputs()  # here: the first call of an operator needs more than the later ones
            if operators:
                replay(operators)
                with OperatorRecord(self.note):
                    replay(operators)
                return
            self.do_arrange({"tuple": []}, [])
            self.do_run(recorded=True)
            self.do_run()
            work_in_parallel(copies)
            self.model.inputs = []
            self.do_run(recorded=True)
            self.do_null()
            self.do_state()

        return {"pages": find_needed(self.helper, ranges, work)}

    def _build(self, unit: dict[str, Any]) -> Path:
        """Have the builder compile one native module."""
        wire.send(self.sock, {"build": unit})
        reply, _ = wire.receive(self.sock)
        if not reply["ok"]:
            raise RuntimeError(f"build of {unit['name']!r} failed:\n{reply['log']}")
        return Path(reply["path"])


class OperatorRecord(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Counts the operators that reach PyTorch's dispatcher, and the time spent in those that compute.

    Args:
        note: takes each operator before it runs, for a process that dies of it.
    """

    def __init__(self, note: Note) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.counts: Counter[str] = Counter()
        self.seconds = 0.0
        self.noting_seconds = 0.0
        self.note = note

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        noting = time.perf_counter()
        self.note.begin(describe_operator(func, args, kwargs or {}))
        started = time.perf_counter()
        result = func(*args, **(kwargs or {}))
        ended = time.perf_counter()
        self.seconds += ended - started
        self.noting_seconds += started - noting
        self.counts[func._schema.name] += 1
        return result

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False  # the decorator that keeps torch.compile out would import it, which takes a second


def _route_builds(build: Callable[[dict[str, Any]], Path]) -> None:
    """Send every inline C++ build of the candidate to the builder, whichever loader it uses."""
    import torch.utils.cpp_extension
    import tvm_ffi
    import tvm_ffi.cpp

    def as_list(value: Any) -> list[str]:
        return [value] if isinstance(value, str) else [str(item) for item in value or ()]

    def compiled(
        loader: str, name: str, cpp: Any, cuda: Any, functions: Any, cflags: Any, cuda_cflags: Any, ldflags: Any
    ) -> Path:
        unit = {
            "loader": loader,
            "name": name,
            "cpp": as_list(cpp),
            "cuda": as_list(cuda),
            "functions": list(functions) if isinstance(functions, dict) else as_list(functions),
            "cflags": as_list(cflags),
            "cuda_cflags": as_list(cuda_cflags),
            "ldflags": as_list(ldflags),
        }
        return build(unit)

    loaded: dict[str, Any] = {}

    def once(load: Callable[..., Any]) -> Callable[..., Any]:
        """A constructor that runs again gets the module that it got before."""

        def load_once(*args: Any, **kwargs: Any) -> Any:
            key = repr((args, sorted(kwargs.items())))
            if key not in loaded:
                loaded[key] = load(*args, **kwargs)
            return loaded[key]

        return load_once

    @once
    def tvm_load_inline(
        name: str,
        *,
        cpp_sources: Any = None,
        cuda_sources: Any = None,
        functions: Any = None,
        extra_cflags: Any = None,
        extra_cuda_cflags: Any = None,
        extra_ldflags: Any = None,
        **ignored: Any,
    ) -> Any:
        flags = extra_cflags, extra_cuda_cflags, extra_ldflags
        path = compiled("tvm_ffi", name, cpp_sources, cuda_sources, functions, *flags)
        return tvm_ffi.load_module(str(path))

    @once
    def torch_load_inline(
        name: str,
        cpp_sources: Any,
        cuda_sources: Any = None,
        functions: Any = None,
        extra_cflags: Any = None,
        extra_cuda_cflags: Any = None,
        extra_ldflags: Any = None,
        **ignored: Any,
    ) -> ModuleType:
        flags = extra_cflags, extra_cuda_cflags, extra_ldflags
        path = compiled("torch", name, cpp_sources, cuda_sources, functions, *flags)
        spec = importlib.util.spec_from_file_location(name, path)
        assert spec is not None and spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return module

    tvm_ffi.cpp.load_inline = tvm_load_inline
    torch.utils.cpp_extension.load_inline = torch_load_inline


SETTINGS: dict[str, Callable[[], Any]] = {
    "number of threads": torch.get_num_threads,
    "default dtype": torch.get_default_dtype,
    "default device": torch.get_default_device,
    "gradient mode": torch.is_grad_enabled,
    "deterministic algorithms": torch.are_deterministic_algorithms_enabled,
    "matmul precision": torch.get_float32_matmul_precision,
    "autocast": torch.is_autocast_cpu_enabled,
    "autocast on CUDA": lambda: torch.is_autocast_enabled("cuda"),
    "TF32 in cuDNN": lambda: torch.backends.cudnn.allow_tf32,
    "cuDNN benchmark": lambda: torch.backends.cudnn.benchmark,
    "working directory": os.getcwd,
}
"""Torch's global state, and the process's, that no candidate may change."""


def _read_settings() -> dict[str, str]:
    return {name: str(read()) for name, read in SETTINGS.items()}


def _to_double(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.double() if tensor.is_floating_point() else tensor.clone()


def _move(exact: torch.Tensor, rounded: torch.Tensor) -> torch.Tensor:
    """Distance of a rounded output to the exact one; for integers and booleans, whether it differs."""
    if exact.is_floating_point():
        return (rounded.double() - exact.double()).abs()
    return rounded != exact


def _map(value: Any, function: Callable[[torch.Tensor], torch.Tensor]) -> Any:
    """The same tree with each tensor replaced."""
    if isinstance(value, torch.Tensor):
        return function(value)
    if isinstance(value, tuple | list):
        return type(value)(_map(item, function) for item in value)
    if isinstance(value, dict):
        return {key: _map(item, function) for key, item in value.items()}
    return value


def _literal(tensor: torch.Tensor) -> dict[str, Any]:
    """A small tensor by value."""
    return {"dtype": str(tensor.dtype), "shape": list(tensor.shape), "values": tensor.flatten().tolist()}


def _value_at(memory: mmap.mmap, item: dict[str, Any]) -> torch.Tensor:
    """A tensor's values at an offset of mapped memory."""
    dtype, count = wire.DTYPES[item["dtype"]], math.prod(item["shape"])
    raw = bytearray(memory[item["offset"] : item["offset"] + count * dtype.itemsize])
    return torch.frombuffer(raw, dtype=dtype, count=count).reshape(item["shape"])


def _tensor_of(item: dict[str, Any]) -> torch.Tensor:
    return torch.tensor(item["values"], dtype=wire.DTYPES[item["dtype"]]).reshape(item["shape"])


def _explain(error: BaseException) -> str:
    """The error with the frames of the candidate's own file, shortened in the middle."""
    text = ""
    with contextlib.suppress(Exception):  # the error may be an object of the candidate's making
        frames = [f for f in traceback.extract_tb(error.__traceback__) if f.filename.endswith(f"{MODULE_NAME}.py")]
        text = "".join(f"line {frame.lineno}, in {frame.name}: {frame.line}\n" for frame in frames[-5:])
        text += f"{type(error).__name__}: {error}"
    return text if len(text) <= MAX_TEXT else f"{text[: MAX_TEXT // 2]}\n…\n{text[-MAX_TEXT // 2 :]}"
