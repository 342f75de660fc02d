"""CUDA in a contestant's process: inputs on the device, nothing left unfinished, outputs brought back.

The functions of torch that are used between a candidate's calls are taken when this module is imported, which is before
any candidate: one that replaces `torch.cuda.synchronize` replaces it for itself.
"""

from __future__ import annotations

from typing import Any

import torch
import triton
from torch.profiler import ProfilerActivity, profile

_synchronize = torch._C._cuda_synchronize if hasattr(torch._C, "_cuda_synchronize") else None
_copy = torch.ops.aten.copy_.default
_empty_strided = torch.empty_strided

LIBRARY = "aten::"


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

    def finish(self) -> None:
        """Wait for all work of this process on all streams."""
        assert _synchronize is not None
        _synchronize()

    def fetch(self, arena: torch.Tensor, outputs: list[torch.Tensor]) -> list[torch.Tensor]:
        """Bring the inputs, as they are now, back to the arena, and copies of outputs to the host."""
        _copy(arena, self.inputs)
        self._fetched = []
        for output in outputs:
            if not output.is_cuda:
                self._fetched.append(output)
                continue
            host = _empty_strided(output.shape, output.stride(), dtype=output.dtype)
            _copy(host, output)
            self._fetched.append(host)
        self.finish()
        return self._fetched


def library_share(run: Any) -> tuple[Any, float | None]:
    """What `run()` returns, and the library's share of the device time that it took (None: not measured).

    A kernel that an operator of PyTorch launched is the library's; any other is the candidate's.
    """
    assert _synchronize is not None
    with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]) as recorded:
        outputs = run()
        _synchronize()
    events = recorded.key_averages()
    total = sum(event.self_device_time_total for event in events if event.device_type.name == "CUDA")
    library = sum(event.self_device_time_total for event in events if event.key.startswith(LIBRARY))
    return outputs, min(1.0, library / total) if total > 0 else None
