"""The inline C++ builds of a candidate go to the builder, whichever loader it uses."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any


def route_builds(build: Callable[[dict[str, Any]], Path]) -> None:
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
