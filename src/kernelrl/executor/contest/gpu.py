"""CUDA in a contestant's process: inputs on the device, nothing left unfinished, outputs brought back.

The functions of torch that are used between a candidate's calls are taken when this module is imported, which is before
any candidate: one that replaces `torch.cuda.synchronize` replaces it for itself.
"""

from __future__ import annotations

import ctypes
from typing import Any

import torch
import triton
from torch._C._autograd import DeviceType
from torch.autograd.profiler import profile  # that of torch.profiler imports the compiler, which takes seconds

from kernelrl.executor import trees

_synchronize = torch._C._cuda_synchronize if hasattr(torch._C, "_cuda_synchronize") else None
_copy = torch.ops.aten.copy_.default
_empty = torch.empty

LIBRARY = "aten::"
NOTHING = b".version 6.4\n.target sm_60\n.address_size 64\n.visible .entry nothing() { ret; }\n"
"""A kernel that does nothing, in the driver's own language (PTX)."""


class _Launch(ctypes.Structure):
    """CUlaunchConfig of the driver."""

    _fields_ = [
        *((name, ctypes.c_uint) for name in "grid_x grid_y grid_z block_x block_y block_z shared_bytes".split()),
        *((name, ctypes.c_void_p) for name in ("stream", "attributes")),
        ("num_attributes", ctypes.c_uint),
    ]


class Gpu:
    """The first CUDA device that this process sees.

    Args:
        jit: Triton will launch kernels there, for which it compiles a module first.
    """

    def __init__(self, jit: bool) -> None:
        torch.cuda.init()  # type: ignore[no-untyped-call]
        properties = torch.cuda.get_device_properties(0)
        self.device = torch.device("cuda", 0)
        self._flush = torch.empty(2 * properties.L2_cache_size, dtype=torch.uint8, device=self.device)
        self.inputs = torch.empty(0, dtype=torch.uint8, device=self.device)
        self._fetched: list[torch.Tensor] = []
        if jit:
            triton.runtime.driver.active.get_current_device()

    def attach(self, arena: torch.Tensor) -> None:
        """Make room on the device for what arrives in the arena (uint8, on the host)."""
        self.inputs = torch.empty(arena.numel(), dtype=torch.uint8, device=self.device)

    def stage(self, arena: torch.Tensor) -> None:
        """Bring the inputs to the device, and fill its L2 cache with something else."""
        _copy(self.inputs, arena)
        self._flush.zero_()
        self.finish()

    def prepare_profile(self) -> None:
        """Start the profiler, which takes seconds the first time."""
        library_share(self._flush.zero_)

    def work(self, outputs: list[torch.Tensor]) -> None:
        """Do all that is done between calls, and ask of the device what candidates ask of it, see `closed_library`."""
        arena = torch.zeros(1 << 16, dtype=torch.uint8)
        self.attach(arena)
        self.stage(arena)
        self.fetch(arena, [*outputs, torch.zeros(3, 4, device=self.device).t(), torch.zeros(2)])
        library_share(self._launch)
        cuda: Any = torch.cuda
        begin, end = cuda.Event(enable_timing=True), cuda.Event(enable_timing=True)
        begin.record(), end.record(), end.synchronize(), end.query(), begin.elapsed_time(end)
        with cuda.device(0), cuda.device_of(self.inputs), cuda.stream(cuda.current_stream()):
            cuda.synchronize(), cuda.current_stream().synchronize(), cuda.current_device(), cuda.device_count()
        cuda.is_available(), cuda.get_device_properties(0), cuda.get_device_capability(0), cuda.get_device_name(0)
        cuda.mem_get_info(), cuda.memory_allocated(), cuda.max_memory_allocated(), cuda.empty_cache()

    def _launch(self) -> None:
        """Launch kernels as the library does, and as Triton does, by the driver's functions, and copy."""
        self._flush[:64].fill_(1).zero_()
        self.inputs[:64].cpu()
        driver, module, kernel = ctypes.CDLL("libcuda.so.1"), ctypes.c_void_p(), ctypes.c_void_p()
        form = _Launch(1, 1, 1, 1, 1, 1, 0, None, None, 0)
        failed = (
            driver.cuModuleLoadData(ctypes.byref(module), NOTHING)
            or driver.cuModuleGetFunction(ctypes.byref(kernel), module, b"nothing")
            or driver.cuLaunchKernel(kernel, 1, 1, 1, 1, 1, 1, 0, None, None, None)
            or driver.cuLaunchKernelEx(ctypes.byref(form), kernel, None, None)
        )
        if failed:
            raise RuntimeError(f"the driver launches no kernel: error {failed}")

    def finish(self) -> None:
        """Wait for all work of this process on all streams."""
        assert _synchronize is not None
        _synchronize()

    def fetch(self, arena: torch.Tensor, outputs: list[torch.Tensor]) -> list[torch.Tensor]:
        """Bring the inputs, as they are now, back to the arena, and copies of outputs to the host."""
        _copy(arena, self.inputs)
        self._fetched = [_on_host(output) if output.is_cuda else output for output in outputs]
        self.finish()
        return self._fetched


def _on_host(output: torch.Tensor) -> torch.Tensor:
    """A copy of a tensor's bytes as they lie in memory, for which no kernel of the library's is needed."""
    size = output.element_size()
    num_bytes = trees.span_bytes(list(output.shape), list(output.stride()), size)
    place = output.untyped_storage(), output.storage_offset() * size, (num_bytes,), (1,)
    host = _empty(num_bytes, dtype=torch.uint8)
    _copy(host, _empty(0, dtype=torch.uint8, device=output.device).set_(*place))
    return host.view(output.dtype).as_strided(output.shape, output.stride())


def library_share(run: Any) -> tuple[Any, float | None]:
    """What `run()` returns, and the library's share of the device time that it took (None: not measured).

    A kernel that an operator of PyTorch launched is the library's; any other is the candidate's.
    """
    assert _synchronize is not None
    with profile(use_device="cuda", use_kineto=True) as recorded:
        outputs = run()
        _synchronize()
    events = recorded.kineto_results.events()
    on_device = [event for event in events if event.device_type() == DeviceType.CUDA]
    operators = {
        event.correlation_id()
        for event in events
        if event.device_type() == DeviceType.CPU and event.name().startswith(LIBRARY)
    }
    total = sum(event.duration_ns() for event in on_device)
    library = sum(event.duration_ns() for event in on_device if event.linked_correlation_id() in operators)
    return outputs, library / total if total > 0 else None
