"""Triton compiles the text of a kernel that was read, and not what its lines may be taken for."""

from __future__ import annotations

import ast
from typing import Any

import triton
from triton.runtime import jit

from kernelrl.executor.contest.text_module import function_at, is_kernel, is_of_library


def install() -> None:
    """From now on this process's kernels are compiled from their syntax.

    By itself Triton takes what follows the first line that begins with `def`, which a text among the decorators may
    hold.
    """
    owner = getattr(jit, "JITCallable", jit.JITFunction)  # before Triton 3.5 there was no such class
    make = owner.__init__

    def make_of_syntax(self: Any, fn: Any, *how: Any, **by_name: Any) -> None:
        make(self, fn, *how, **by_name)
        if not is_of_library(fn, triton):
            if not is_kernel(fn):
                raise TypeError(f"{fn.__name__} is no kernel: write @triton.jit above it")
            node = function_at(fn)
            node.decorator_list = []
            self._unsafe_update_src(f"{ast.unparse(node)}\n")

    owner.__init__ = make_of_syntax
