"""The inline C++ builds of a candidate go to the builder, whichever loader it uses."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

from kernelrl.executor import trees

MANY = 1000
"""More numbers than a call may hand over, see `judging.trials`."""
MOST_DIMENSIONS, CHANGES = 8, 16
"""A tensor with more dimensions hands over a number in each; and so does a function that changes the shape of what it
returns so often."""


class HandedOver:
    """Counts the numbers that a candidate's modules hand to its Python, which could compute with them."""

    def __init__(self) -> None:
        self.count = 0
        self._shapes: dict[int, tuple[int, ...]] = {}  # of the last tensor that each function has returned
        self._num_changed = 0

    def counting(self, function: Any) -> Any:
        """The function of a module; what is no function stays as it is."""
        if not callable(function):
            return function

        def call(*args: Any, **kwargs: Any) -> Any:
            try:
                result = function(*args, **kwargs)
            except Exception:  # whose text may hold any
                self.count += MANY
                raise
            self.count += self._numbers(result, function)
            return self.counting(result)

        return call

    def _numbers(self, result: Any, function: Any) -> int:
        if hasattr(result, "__dlpack__"):
            return self._numbers_beside(result, function)
        if result is None or callable(result):
            return 0
        if isinstance(result, str | bytes):
            return 1 + len(result) // 8
        if type(result).__module__.startswith("tvm_ffi") and type(result).__name__ in ("List", "Dict"):
            return MANY  # what it holds may be written later
        if isinstance(result, Mapping):
            return sum(self._numbers(each, function) for pair in result.items() for each in pair)
        return sum(self._numbers(each, function) for each in result) if isinstance(result, Iterable) else 1

    def _numbers_beside(self, tensor: Any, function: Any) -> int:
        """The numbers that a tensor brings beside its elements: its shape and strides can be any."""
        shape = tuple(tensor.shape)
        strides = tuple(tensor.stride() if callable(getattr(tensor, "stride", None)) else tensor.strides)
        if 0 in shape or len(shape) > MOST_DIMENSIONS:
            return 2 * len(shape)
        if not trees.is_dense(shape, strides):
            return len(shape) - 1
        if self._shapes.get(id(function)) == shape:
            return 0
        self._shapes[id(function)] = shape
        self._num_changed += 1
        return int(self._num_changed % CHANGES == 0)


class CountedModule:
    """A module of TVM's, of which the functions' results are counted."""

    def __init__(self, module: Any, handed_over: HandedOver):
        self._module = module
        self._handed_over = handed_over

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or "_module" not in self.__dict__:  # which a copy lacks at first
            raise AttributeError(name)
        function = self.__dict__[name] = self._handed_over.counting(getattr(self._module, name))
        return function

    def __getitem__(self, name: str) -> Any:
        return self._handed_over.counting(self._module[name])


def route_builds(build: Callable[[dict[str, Any]], Path]) -> HandedOver:
    """Send every inline C++ build of the candidate to the builder, whichever loader it uses."""
    import torch.utils.cpp_extension
    import tvm_ffi
    import tvm_ffi.cpp

    handed_over = HandedOver()

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
        return CountedModule(tvm_ffi.load_module(str(path)), handed_over)

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
        for function in [each for each in vars(module) if not each.startswith("__")]:
            setattr(module, function, handed_over.counting(getattr(module, function)))
        return module

    tvm_ffi.cpp.load_inline = tvm_load_inline
    torch.utils.cpp_extension.load_inline = torch_load_inline
    return handed_over
