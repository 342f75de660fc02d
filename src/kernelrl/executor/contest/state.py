"""What a call of `forward` must leave as it was: parameters, random numbers, torch's settings."""

from __future__ import annotations

import ctypes
import os
import zlib
from collections.abc import Callable
from typing import Any

import torch

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


def read_settings() -> dict[str, str]:
    """Those settings, as text."""
    return {name: str(read()) for name, read in SETTINGS.items()}


def read_state(model: Any, on_gpu: bool) -> dict[str, Any]:
    """Digests of all that, of each buffer by its name; `model` None: there is none yet."""
    parameters, buffers = ([], []) if model is None else (model.parameters(), model.named_buffers())
    state: dict[str, Any] = {"parameters": 0}
    for parameter in parameters:
        state["parameters"] = _digest(parameter, state["parameters"])
    state["buffers"] = {name: _digest(buffer) for name, buffer in buffers}
    random_states = [torch.get_rng_state()] + ([torch.cuda.get_rng_state()] if on_gpu else [])
    state["random numbers"] = [zlib.crc32(each.numpy().tobytes()) for each in random_states]
    return state | read_settings()


def _digest(tensor: Any, start: int = 0) -> int:
    storage = tensor.untyped_storage().cpu()  # a tensor's own copy would be code of the library's
    memory = (ctypes.c_ubyte * storage.nbytes()).from_address(storage.data_ptr())
    return zlib.crc32(memory, start)
