"""What is the same for all kernels, compiled once for each compiler: headers, and what is linked to every module."""

from __future__ import annotations

import os
import tempfile
import threading
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import re2
import torch
import tvm_ffi

from kernelrl.errors import InfrastructureError
from kernelrl.executor import machine
from kernelrl.executor.building.compilers import CUT, Compilers
from kernelrl.executor.building.entries import digest, publish
from kernelrl.executor.building.units import BASE_FLAGS, HEADERS, includes, text_of
from kernelrl.executor.processes.cores import Cores

TUNING = ("-ffast-math", "-mrecip=none")
"""Flags that a precompiled header must share with what includes it, and that are common enough for one of their own."""
HEADER_FILE_BYTES = 1 << 30
HEADER_CPU_S = 600.0
"""CPU time for precompiling a header, which is trusted text (in seconds)."""
LIGHT = {
    loader: Path(__file__).with_name(name).read_text(encoding="utf-8")
    for loader, name in {"tvm_ffi": "tensor_view.h", "torch": "torch_tensors.h"}.items()
}
"""By loader: what of it is enough for nearly all texts; what does not compile with that is compiled with all of it."""
REPLACED = {"tvm_ffi": (), "torch": ("torch/extension.h", "torch/torch.h")}
"""By loader: headers that are empty beside the light one, which stands for them."""
OFTEN_INCLUDED = {"tvm_ffi": re2.compile(r"(?m)^#include <(cmath|immintrin\.h|omp\.h)>\s*$")}
"""By loader: headers that are precompiled together with the light one where a text includes them. (A precompiled header
of torch's has half a gigabyte.)"""
LIGHT_NAMESPACE, NAMESPACE = "tvm::ffi::light::", "tvm::ffi::"
"""In which names of the light headers are, as the compiler says them, and as texts say them."""
_ERROR = re2.compile(r"error: (.*)")
_SYNTAX = re2.compile(r"expected \W+( or \W+)? (before|at end of input)")
"""What the compiler says of a text that lacks a sign. Of an unknown name it says another thing, too, unless that is a
macro."""
_MACRO = re2.compile(r"before \W+([A-Z][A-Z0-9_]+|PRI\w+)\W*$")
SUPPORT = {"tvm_ffi": Path(__file__).with_name("binding.cpp").read_text(encoding="utf-8")}
"""By loader: what is linked to every module."""


def may_help(log: str) -> bool:
    """Whether a text that does not compile might with more headers: one that lacks a sign does not."""
    errors = _ERROR.findall(log)
    known = all(_SYNTAX.match(each) and not _MACRO.search(each) for each in errors)
    return not errors or not known or CUT in log


class Headers:
    """The folder of precompiled headers. Thread-safe.

    Args:
        folder: where they are kept.
        scratch: folder in which they are made, on the same file system.
        compilers: make them.
        cores: counts the waiting for somebody else who makes one.
    """

    def __init__(self, folder: Path, scratch: Path, compilers: Compilers, cores: Cores):
        self._folder = folder
        self._scratch = scratch
        self._compilers = compilers
        self._cores = cores
        self._locks: defaultdict[str, threading.Lock] = defaultdict(threading.Lock)

    def of(self, unit: dict[str, Any], tuning: tuple[str, ...]) -> Iterator[Path]:
        """Headers to compile a text with, one after the other until it compiles. Each has a precompiled twin.

        The compiler is to look for further headers in their folder first.
        """
        loader = unit["loader"]
        often = sorted(set(OFTEN_INCLUDED[loader].findall(text_of(unit)))) if loader in OFTEN_INCLUDED else []
        light = LIGHT[loader] + "".join(f"#include <{name}>\n" for name in often)
        yield self._header(loader, light, tuning, REPLACED[loader])
        yield self._header(loader, HEADERS[loader], tuning)

    def _header(self, loader: str, text: str, tuning: tuple[str, ...] = (), replaced: tuple[str, ...] = ()) -> Path:
        arguments = [*tuning, "-x", "c++-header", "loader.h", "-o", "loader.h.gch"]
        texts = {"loader.h": text} | dict.fromkeys(replaced, "")
        return self._prepare(loader, texts, arguments) / "loader.h"

    def support(self, loader: str) -> list[str]:
        """What is linked to every module of a loader."""
        if loader not in SUPPORT:
            return []
        header = self._header(loader, HEADERS[loader])
        text = f'#include "{header}"\n{SUPPORT[loader]}'
        folder = self._prepare(loader, {"support.cpp": text}, ["-c", "support.cpp", "-o", "support.o"])
        return [str(folder / "support.o")]

    def _prepare(self, loader: str, texts: dict[str, str], arguments: list[str]) -> Path:
        """Folder with some trusted texts and what the compiler makes of them, once for each compiler.

        Raises:
            InfrastructureError: they cannot be compiled here.
        """
        compiler = machine.compiler(), machine.native_target()
        versions = tvm_ffi.__version__, torch.__version__
        key = digest(texts, arguments, BASE_FLAGS, compiler, versions)
        folder = self._folder / key[:16]
        with self._cores.holding(self._locks[key]):
            if not folder.exists():
                with tempfile.TemporaryDirectory(dir=self._scratch) as name:
                    work = Path(name) / "headers"
                    work.mkdir()
                    for file, text in texts.items():
                        (work / file).parent.mkdir(exist_ok=True)
                        (work / file).write_text(text, encoding="utf-8")
                    command = ["g++", *BASE_FLAGS, *includes(loader), *arguments]
                    made = self._compilers.run(
                        command, work, HEADER_FILE_BYTES, cpu_s=max(HEADER_CPU_S, self._compilers.cpu_s)
                    )
                    if not made.ok:
                        raise InfrastructureError(
                            f"the header of the loader {loader} does not compile here: {made.log}"
                        )
                    publish(work, folder)
            os.utime(folder)
        return folder
