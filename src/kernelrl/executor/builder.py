"""The builder: compiles inline C++ that a candidate asks for, into a content-addressed cache.

Trusted code, untrusted input: the compiler runs confined (no network, reads headers only, writes only to its own
folder, limits on time, memory and output), and what it makes is loaded by nobody but the contestant that asked for
it. The headers of the loader are precompiled once per machine, which makes a ten-line kernel's build two to three
times faster.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import sysconfig
import tempfile
import threading
import time
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tvm_ffi.libinfo
from torch.utils import cpp_extension

from kernelrl.executor import machine
from kernelrl.executor.cores import Cores
from kernelrl.executor.process import ForkServer, explain_status

BASE_FLAGS = ("-std=c++17", "-fPIC", "-O3", "-march=native", "-fopenmp")
PRECOMPILED_TUNING = ("-ffast-math", "-mrecip=none")
"""Flags that a precompiled header must share with what includes it, and that are common enough for one of their own."""
ALLOWED_FLAG = re.compile(
    r"-(O[0-3sz]|Ofast|g0?|w|Wall|Wextra|pthread|lm|lgomp|fopenmp(-simd)?|ffast-math|fno-[a-z-]+|funroll-loops"
    r"|ftree-vectorize|fassociative-math|freciprocal-math|fstrict-aliasing|fvect-cost-model=\w+|m[a-z0-9.-]+(=[\w.-]+)?"
    r"|std=(c|gnu)\+\+\w+|D\w+(=\w*)?|shared|fPIC)"
)
MEMORY_BYTES = 4 << 30
FILE_BYTES = 64 << 20
MAX_LOG_CHARS = 4000

TVM_HEADERS = """\
#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/dtype.h>
#include <tvm/ffi/error.h>
#include <tvm/ffi/extra/c_env_api.h>
#include <tvm/ffi/function.h>
"""
TORCH_HEADERS = "#include <torch/extension.h>\n"


class BadUnit(Exception):
    """A build request that is refused: rule and evidence."""

    def __init__(self, rule: str, evidence: str):
        super().__init__(evidence)
        self.rule = rule
        self.evidence = evidence


@dataclass(frozen=True)
class Built:
    """Outcome of one build."""

    ok: bool
    path: Path | None
    log: str
    seconds: float
    cached: bool


class Builder:
    """Builds native modules. Thread-safe; equal units are built once.

    Args:
        cache: folder of the content-addressed cache; only this process and its like write to it.
        scratch: folder in which builds happen, on the same file system.
        forkserver: forks the confined compilers.
        cores: says when a compiler may run.
        timeout: time for one build (in seconds).
    """

    def __init__(self, cache: Path, scratch: Path, forkserver: ForkServer, cores: Cores, timeout: float):
        self._cache = cache
        self._scratch = scratch
        self._forkserver = forkserver
        self._cores = cores
        self._timeout = timeout
        self._locks: defaultdict[str, threading.Lock] = defaultdict(threading.Lock)

    def build(self, unit: dict[str, Any]) -> Built:
        """Compile one unit, or take it from the cache.

        Raises:
            BadUnit: the unit uses a compiler flag, a loader or a language that is not allowed.
        """
        source, flags, link = _translate(unit)
        key = _digest(source, flags, link, machine.compiler(), tvm_ffi.__version__, cpp_extension.TORCH_LIB_PATH)
        folder = self._cache / "build" / key[:2] / key
        with self._locks[key]:
            if (folder / "build.json").exists():
                return self._load(folder, cached=True)
            tuning = tuple(flag for flag in PRECOMPILED_TUNING if flag in flags)
            header = self._precompiled(TVM_HEADERS, tuning) if unit["loader"] == "tvm_ffi" else None
            include = f'#include "{header}"\n' if header else TORCH_HEADERS
            with tempfile.TemporaryDirectory(dir=self._scratch) as name:
                work = Path(name) / "unit"
                work.mkdir()
                (work / "main.cpp").write_text(f'{include}#line 1 "kernel.cpp"\n{source}', encoding="utf-8")
                command = ["g++", *flags, "-shared", "main.cpp", "-o", "module.so", *link]
                ok, log, seconds = self._compile(command, work)
                ok = ok and (work / "module.so").exists()
                (work / "build.json").write_text(json.dumps({"ok": ok, "log": log, "seconds": seconds}))
                (work / "main.cpp").unlink()
                _publish(work, folder)
            return self._load(folder, cached=False)

    def _load(self, folder: Path, cached: bool) -> Built:
        result = json.loads((folder / "build.json").read_text())
        path = folder / "module.so" if result["ok"] else None
        return Built(result["ok"], path, result["log"], 0.0 if cached else result["seconds"], cached)

    def _precompiled(self, headers: str, tuning: tuple[str, ...]) -> Path:
        """Header file, with a precompiled twin beside it unless the compiler could make none."""
        key = _digest(headers, BASE_FLAGS, tuning, machine.compiler(), tvm_ffi.__version__)
        folder = self._cache / "headers" / key[:16]
        with self._locks[key]:
            if not folder.exists():
                with tempfile.TemporaryDirectory(dir=self._scratch) as name:
                    work = Path(name) / "headers"
                    work.mkdir()
                    (work / "loader.h").write_text(headers)
                    command = ["g++", *BASE_FLAGS, *tuning, *_includes("tvm_ffi"), "-x", "c++-header", "loader.h"]
                    self._compile([*command, "-o", "loader.h.gch"], work, file_bytes=256 << 20)
                    _publish(work, folder)
        return folder / "loader.h"

    def _compile(self, command: list[str], folder: Path, file_bytes: int = FILE_BYTES) -> tuple[bool, str, float]:
        started = time.monotonic()
        with tempfile.TemporaryFile() as log:
            request = {
                "kind": "compiler",
                "command": command,
                "folder": str(folder),
                "readable": [str(self._cache / "headers")] if (self._cache / "headers").exists() else [],
                "memory_bytes": MEMORY_BYTES,
                "file_bytes": file_bytes,
            }
            pid = self._forkserver.spawn(request, (log.fileno(),))
            with self._cores.stoppable(pid):
                paused = self._cores.paused_s
                status = self._forkserver.wait(pid, self._timeout)
                while status is None and self._cores.paused_s > paused:
                    paused, longer = self._cores.paused_s, self._cores.paused_s - paused
                    status = self._forkserver.wait(pid, longer)
            if status is None:
                os.killpg(pid, 9)
                self._forkserver.wait(pid, 5)
            log.seek(0)
            text = log.read(1 << 20).decode("utf-8", "replace").replace(str(folder) + "/", "")
        seconds = time.monotonic() - started
        if status is None:
            return False, f"the compiler took longer than {self._timeout:g} s and was killed", seconds
        if status != 0 and not text.strip():
            text = f"the compiler {explain_status(status)}"
        return status == 0, shorten(text), seconds


def _digest(*parts: object) -> str:
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()


def _publish(work: Path, folder: Path) -> None:
    """Move a finished entry into the cache in one step; another process may have been first."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    with contextlib.suppress(OSError):
        os.rename(work, folder)


def shorten(text: str, limit: int = MAX_LOG_CHARS) -> str:
    """The text, with its middle left out where it is longer than `limit` characters."""
    if len(text) <= limit:
        return text
    return f"{text[: limit * 3 // 4]}\n… {len(text) - limit} characters …\n{text[-limit // 4 :]}"


def _translate(unit: dict[str, Any]) -> tuple[str, list[str], list[str]]:
    """Source text, compiler flags and linker flags of a unit, all checked: its content is hostile."""
    if unit.get("loader") not in ("tvm_ffi", "torch"):
        raise BadUnit("build_request", f"loader {unit.get('loader')!r}")
    if unit.get("cuda"):
        raise BadUnit("build_request", "CUDA sources in a C++ build")
    name, functions = str(unit.get("name")), [str(item) for item in unit.get("functions") or ()]
    for identifier in (name, *functions):
        if not re.fullmatch(r"[A-Za-z_]\w{0,99}", identifier, re.ASCII):
            raise BadUnit("build_request", f"{identifier[:100]!r} is not a C++ name")
    given = [str(flag) for flag in (*unit.get("cflags", ()), *unit.get("ldflags", ()))]
    for flag in given:
        if not ALLOWED_FLAG.fullmatch(flag):
            raise BadUnit("build_flag", flag[:100])
    source = "\n".join(str(text) for text in unit.get("cpp", ()))
    flags = [*BASE_FLAGS, *_includes(unit["loader"])]
    flags += [flag for flag in given if not flag.startswith("-l") and flag not in flags]
    link = [flag for flag in given if flag.startswith("-l")]
    if unit["loader"] == "tvm_ffi":
        exports = "".join(f"TVM_FFI_DLL_EXPORT_TYPED_FUNC({function}, {function});\n" for function in functions)
        libraries = [f"-L{Path(tvm_ffi.libinfo.find_libtvm_ffi()).parent}", "-ltvm_ffi"]
        return f"{source}\n{exports}", flags, [*libraries, *link]
    exports = "".join(f'  m.def("{it}", torch::wrap_pybind_function({it}));\n' for it in functions)
    module = f"PYBIND11_MODULE({name}, m) {{\n{exports}}}\n" if functions else ""
    macros = [f"-DTORCH_EXTENSION_NAME={name}", "-DTORCH_API_INCLUDE_EXTENSION_H"]
    libraries = [f"-L{path}" for path in cpp_extension.library_paths()]
    libraries += ["-lc10", "-ltorch_cpu", "-ltorch", "-ltorch_python"]
    return f"{source}\n{module}", [*flags, *macros], [*libraries, *link]


def _includes(loader: str) -> list[str]:
    if loader == "tvm_ffi":
        paths = [tvm_ffi.libinfo.find_include_path(), tvm_ffi.libinfo.find_dlpack_include_path()]
    else:
        paths = [*cpp_extension.include_paths(), sysconfig.get_paths()["include"]]
    return [f"-I{path}" for path in dict.fromkeys(paths)]
