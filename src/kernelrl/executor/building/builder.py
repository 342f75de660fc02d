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
import shutil
import sys
import sysconfig
import tempfile
import threading
import time
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import triton
import tvm_ffi.libinfo
from torch.utils import cpp_extension

from kernelrl.dialects import cpp
from kernelrl.executor import machine
from kernelrl.executor.building import cubin
from kernelrl.executor.legality import symbols
from kernelrl.executor.processes.cores import Cores
from kernelrl.executor.processes.process import ForkServer, explain_status

BASE_FLAGS = ("-std=c++17", "-fPIC", "-O3", "-march=native", "-fopenmp")
PRECOMPILED_TUNING = ("-ffast-math", "-mrecip=none")
"""Flags that a precompiled header must share with what includes it, and that are common enough for one of their own."""
ALLOWED_FLAG = re.compile(
    r"-(O[0-3sz]|Ofast|g0?|w|W[a-z0-9-]+|pthread|lm|lgomp|f(?!no-plt|plugin|profile|dump)[a-z0-9-]+|fvect-cost-model=\w+|ffp-contract=\w+|m[a-z0-9.-]+(=[\w.-]+)?"
    r"|std=(c|gnu)\+\+\w+|D\w+(=\w*)?|shared|fPIC)"
)
CUDA_FLAGS = ("-std=c++17", "-O3", "--expt-relaxed-constexpr", "-Xptxas", "-v", "-Xcompiler", "-fPIC")
ALLOWED_CUDA_FLAG = re.compile(
    r"-(O[0-3]|-use_fast_math|use_fast_math|lineinfo|w|-ftz=\w+|-fmad=\w+|-prec-(div|sqrt)=\w+|-?maxrregcount=?\d+"
    r"|std=c\+\+\d+|D\w+(=\w*)?|-expt-(relaxed-constexpr|extended-lambda)|-extended-lambda)"
)
_PTXAS = re.compile(
    r"Compiling entry function '(\w+)'[^\n]*\n(?:[^\n]*\n)?[^\n]*?(\d+) bytes spill stores[^\n]*\n"
    r"[^\n]*Used (\d+) registers(?:[^\n]*?(\d+) bytes smem)?"
)
"""What the assembler says of one kernel: its (mangled) name, spills, registers, shared memory."""
MEMORY_BYTES = 4 << 30
FILE_BYTES = 64 << 20
MAX_LOG_CHARS = 4000
BUILD_AND_LOOK = """\
"$0" "$@" || exit $?
nm -D -C --undefined-only module.so > symbols
readelf -rW module.so > relocations
"""
"""Compile, and list what the module wants from other libraries, in one confined process."""
KILLED = "was killed by SIGKILL"
BUILD_FORMAT = 8
"""Raised when a change of the builder makes earlier builds useless."""

HEADERS = {
    "tvm_ffi": """\
#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/dtype.h>
#include <tvm/ffi/error.h>
#include <tvm/ffi/extra/c_env_api.h>
#include <tvm/ffi/function.h>
""",
    "torch": """\
#define TORCH_API_INCLUDE_EXTENSION_H
#include <torch/extension.h>
""",
}
"""By loader: what it includes before the candidate's text."""


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
    foul: tuple[tuple[str, str], ...] = ()
    """Rules that the text or the module breaks, with the evidence."""
    key: str = ""
    """Content key in the cache; empty: not kept."""


class Builder:
    """Builds native modules. Thread-safe; equal units are built once.

    Args:
        cache: folder of the content-addressed cache; only this process and its like write to it.
        scratch: folder in which builds happen, on the same file system.
        forkserver: forks the confined compilers.
        cores: says when a compiler may run.
        timeout: time for one build (in seconds).
        gpu_arch: of the device that is here, for which CUDA sources are built.
    """

    def __init__(
        self,
        cache: Path,
        scratch: Path,
        forkserver: ForkServer,
        cores: Cores,
        timeout: float,
        gpu_arch: str | None = None,
    ):
        self._arch = gpu_arch
        self._cache = cache
        self._scratch = scratch
        self._forkserver = forkserver
        self._cores = cores
        self._timeout = timeout
        self._locks: defaultdict[str, threading.Lock] = defaultdict(threading.Lock)

    def build(self, unit: dict[str, Any], gpu_arch: str | None = None) -> Built:
        """Compile one unit, or take it from the cache; CUDA sources for the device here, or for one of `gpu_arch`.

        Raises:
            BadUnit: the unit uses a compiler flag, a loader or a language that is not allowed.
        """
        source, flags, link = _translate(unit)
        compiler, name = ["g++"], "main.cpp"
        if unit.get("cuda"):
            arch = gpu_arch or self._arch
            assert arch is not None
            source, flags = _translate_cuda(unit, arch)
            compiler, name = ["nvcc", "-cudart", "shared"], "main.cu"
        target = "" if unit.get("cuda") else machine.native_target()
        versions = machine.compiler(), target, tvm_ffi.__version__, cpp_extension.TORCH_LIB_PATH
        key = _digest(source, compiler, flags, link, versions, BUILD_FORMAT)
        folder = build_folder(self._cache, key)
        with self._cores.holding(self._locks[key]):
            if (folder / "build.json").exists():
                return self._load(folder, cached=True)
            if name == "main.cpp":
                tuning = tuple(flag for flag in PRECOMPILED_TUNING if flag in flags)
                source = f'#include "{self._precompiled(unit["loader"], tuning)}"\n#line 1 "kernel.cpp"\n{source}'
            with tempfile.TemporaryDirectory(dir=self._scratch) as temporary:
                work = Path(temporary) / "unit"
                work.mkdir()
                (work / name).write_text(source, encoding="utf-8")
                command = ["sh", "-c", BUILD_AND_LOOK, *compiler, *flags, "-shared", name, "-o", "module.so", *link]
                ok, log, seconds = self._compile(command, work)
                if KILLED in log:  # by a machine short of memory, perhaps: the second time tells
                    ok, log, seconds = self._compile(command, work)
                ok = ok and (work / "module.so").exists()
                foul = self._find_foul(unit, flags, work) if ok else []
                if KILLED in log:
                    return Built(False, None, log, seconds, cached=False)
                result = {"ok": ok, "log": log, "seconds": seconds, "foul": foul}
                (work / "build.json").write_text(json.dumps(result))
                (work / name).unlink()
                publish(work, folder)
            return self._load(folder, cached=False)

    def _find_foul(self, unit: dict[str, Any], flags: list[str], work: Path) -> list[tuple[str, str]]:
        """What the preprocessor makes of the candidate's text, and what its module wants from other libraries."""
        source = "\n".join(str(text) for text in (*unit["cpp"], *unit.get("cuda", ())))
        foul = [("forbidden_include", include) for include in cpp.foul_includes(source)]
        words = cpp.foul_words(source)
        if "define" in source or any(flag.startswith("-D") for flag in flags):
            words += cpp.foul_words(self._preprocessed(source, flags, work))
        foul += [("forbidden_cpp", word) for word in sorted(set(words))]
        wanted = [line.strip().partition(" ")[2] for line in _take(work / "symbols").splitlines()]
        foul += [
            ("library_symbol", symbol)
            for symbol in symbols.foreign(wanted, unit["loader"], cuda=bool(unit.get("cuda")))
        ]
        taken = symbols.foreign_addresses(_take(work / "relocations"))
        return [*foul, *(("library_symbol", f"the address of {name}") for name in taken)]

    def _preprocessed(self, source: str, flags: list[str], work: Path) -> str:
        """The text with its own macros and those of the flags expanded, without what it includes."""
        blank = "\n".join("" if "include" in line and "#" in line else line for line in source.splitlines())
        (work / "blank.cpp").write_text(blank, encoding="utf-8")
        own_flags = [flag for flag in flags if flag.startswith(("-D", "-std", "-f", "-m"))]
        _, text, _ = self._compile(["g++", *own_flags, "-E", "-P", "blank.cpp"], work, shortened=False)
        (work / "blank.cpp").unlink()
        return text

    def _load(self, folder: Path, cached: bool) -> Built:
        result = json.loads((folder / "build.json").read_text())
        path = folder / "module.so" if result["ok"] else None
        seconds = 0.0 if cached else result["seconds"]
        foul = tuple(map(tuple, result["foul"]))
        return Built(result["ok"], path, result["log"], seconds, cached, foul, folder.name)

    def _precompiled(self, loader: str, tuning: tuple[str, ...]) -> Path:
        """The loader's header file, with a precompiled twin beside it unless the compiler could make none."""
        compiler = machine.compiler(), machine.native_target()
        key = _digest(HEADERS[loader], BASE_FLAGS, tuning, compiler, tvm_ffi.__version__, torch.__version__)
        folder = self._cache / "headers" / key[:16]
        with self._cores.holding(self._locks[key]):
            if not folder.exists():
                with tempfile.TemporaryDirectory(dir=self._scratch) as name:
                    work = Path(name) / "headers"
                    work.mkdir()
                    (work / "loader.h").write_text(HEADERS[loader])
                    command = ["g++", *BASE_FLAGS, *tuning, *_includes(loader), "-x", "c++-header", "loader.h"]
                    self._compile([*command, "-o", "loader.h.gch"], work, file_bytes=1 << 30)
                    publish(work, folder)
        return folder / "loader.h"

    def compile_cuda(self, unit: dict[str, Any], arch: str) -> tuple[bool, str, list[dict[str, Any]]]:
        """Compile a unit with CUDA sources for a GPU that need not be here.

        Returns:
            Success, the compiler's words, and the fields of a `GpuBuild` for each kernel.

        Raises:
            BadUnit: as `build`.
        """
        source, flags = _translate_cuda(unit, arch)
        with tempfile.TemporaryDirectory(dir=self._scratch) as name:
            work = Path(name)
            (work / "main.cu").write_text(source, encoding="utf-8")
            ok, log, _ = self._compile(["nvcc", *flags, "-c", "main.cu", "-o", "main.o"], work, shortened=False)
        kernels = [
            {"kernel": kernel, "arch": arch, "ok": True, "registers": int(registers)}
            | {"shared_bytes": int(shared or 0), "spill_bytes": int(spilled)}
            for kernel, spilled, registers, shared in _PTXAS.findall(log)
        ]
        words = [line for line in log.splitlines() if not line.startswith("ptxas info") and "stack frame" not in line]
        return ok, shorten("\n".join(words).strip()), kernels

    def assemble(self, source: str, launches: list[dict[str, Any]], arch: str) -> list[dict[str, Any]]:
        """Compile Triton kernels for a GPU that need not be here, or take the outcome from the cache.

        Args:
            source: the candidate.
            launches: what `cubin.recorded_launches` recorded.
            arch: e.g. `sm_90`.

        Returns:
            For each launch `kernel`, `arch`, `ok`, `log` and, where ok, `registers`, `shared_bytes`, `spill_bytes`.
        """
        text = cubin.kernels_only(source)
        key = _digest(text, launches, arch, triton.__version__)
        folder = self._cache / "cubin" / key[:2] / key
        with self._cores.holding(self._locks[key]):
            if not folder.exists():
                with tempfile.TemporaryDirectory(dir=self._scratch) as name:
                    work = Path(name) / "cubin"
                    work.mkdir()
                    (work / "request.json").write_text(json.dumps({"source": text, "launches": launches, "arch": arch}))
                    ok, log, _ = self._compile([sys.executable, "-P", cubin.__file__, "."], work)
                    if not ok or not (work / "result.json").exists():
                        failed = {"arch": arch, "ok": False, "log": log}
                        return [{"kernel": launch["kernel"], **failed} for launch in launches]
                    shutil.rmtree(work / "cache", ignore_errors=True)
                    publish(work, folder)
        results: list[dict[str, Any]] = json.loads((folder / "result.json").read_text())
        return results

    def _compile(
        self, command: list[str], folder: Path, file_bytes: int = FILE_BYTES, shortened: bool = True
    ) -> tuple[bool, str, float]:
        """Run a compiler: success, its words, time (in seconds)."""
        started, waiting = time.monotonic(), self._cores.clock.waiting
        with tempfile.TemporaryFile() as log:
            request = {
                "kind": "compiler",
                "command": command,
                "folder": str(folder),
                "readable": [path for path in (str(self._cache / "headers"), cubin.__file__) if os.path.exists(path)],
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
        seconds = time.monotonic() - started - (self._cores.clock.waiting - waiting)
        if status is None:
            return False, f"the compiler took longer than {self._timeout:g} s and was killed", seconds
        if os.WIFSIGNALED(status) or status >> 8 == 137 or "Killed signal terminated program" in text:
            text = f"the compiler {KILLED}"
        elif status != 0 and not text.strip():
            text = f"the compiler {explain_status(status)}"
        return status == 0, shorten(text) if shortened else text, seconds


def build_folder(cache: Path, key: str) -> Path:
    """Where the build of a content key is kept."""
    return cache / "build" / key[:2] / key


def _take(path: Path) -> str:
    """The text of a file that is not needed any more."""
    text = path.read_text(errors="replace")
    path.unlink()
    return text


def _digest(*parts: object) -> str:
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()


def publish(work: Path, folder: Path) -> None:
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
    libraries = [f"-L{path}" for path in cpp_extension.library_paths()]
    libraries += ["-lc10", "-ltorch_cpu", "-ltorch", "-ltorch_python"]
    own_name = f'#define TORCH_EXTENSION_NAME {name}\n#line 1 "kernel.cpp"\n'
    return f"{own_name}{source}\n{module}", flags, [*libraries, *link]


def _translate_cuda(unit: dict[str, Any], arch: str) -> tuple[str, list[str]]:
    """Source text and nvcc's flags of a unit with CUDA sources, all checked."""
    source, _, _ = _translate(unit)
    given = [str(flag) for flag in unit.get("cuda_cflags", ())]
    for flag in given:
        if not ALLOWED_CUDA_FLAG.fullmatch(flag):
            raise BadUnit("build_flag", flag[:100])
    cuda = "\n".join(str(text) for text in unit["cuda"])
    text = f'{HEADERS[unit["loader"]]}\n#line 1 "kernel.cu"\n{cuda}\n{source}'
    return text, [*CUDA_FLAGS, f"-arch={arch}", *_includes(unit["loader"]), *given]


def _includes(loader: str) -> list[str]:
    if loader == "tvm_ffi":
        paths = [tvm_ffi.libinfo.find_include_path(), tvm_ffi.libinfo.find_dlpack_include_path()]
    else:
        paths = [*cpp_extension.include_paths(), sysconfig.get_paths()["include"]]
    return [f"-I{path}" for path in dict.fromkeys(paths)]
