"""The builder: compiles inline C++ that a candidate asks for, into a content-addressed cache.

Trusted code, untrusted input: the compiler runs confined (no network, reads headers only, writes only to its own
folder, limits on time, memory and output), and what it makes is loaded by nobody but the contestant that asked for
it. What is the same for all kernels (the loader's headers, the templates through which a module is called) is compiled
once for each compiler, so that a ten-line kernel takes a quarter of the processor time that its own loader needs.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shutil
import signal
import sys
import sysconfig
import tempfile
import threading
import time
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import re2
import torch
import triton
import tvm_ffi.libinfo
from torch.utils import cpp_extension

from kernelrl.dialects import _cpp_text
from kernelrl.errors import InfrastructureError
from kernelrl.executor import machine
from kernelrl.executor.building import cubin
from kernelrl.executor.building.pruning import DEFAULT_LIMITS, CacheLimits, prune
from kernelrl.executor.legality import symbols
from kernelrl.executor.processes.cores import Cores
from kernelrl.executor.processes.patience import ceiling
from kernelrl.executor.processes.process import ForkServer, explain_status

BASE_FLAGS = ("-std=c++17", "-fPIC", "-O3", "-march=native", "-fopenmp")
PRECOMPILED_TUNING = ("-ffast-math", "-mrecip=none")
"""Flags that a precompiled header must share with what includes it, and that are common enough for one of their own."""
ALLOWED_FLAG = re2.compile(
    r"-(O[0-3sz]|Ofast|g0?|w|W[a-z0-9-]+|pthread|lm|lgomp|f[a-z0-9-]+|fvect-cost-model=\w+|ffp-contract=\w+|m[a-z0-9.-]+(=[\w.-]+)?"
    r"|std=(c|gnu)\+\+\w+|D\w+(=\w*)?|shared|fPIC)"
)
FORBIDDEN_FLAG = re2.compile(r"-f(no-plt|plugin|profile|dump)")
_NAME = re2.compile(r"[A-Za-z_]\w{0,99}")
CUDA_FLAGS = ("-std=c++17", "-O3", "--expt-relaxed-constexpr", "-Xptxas", "-v", "-Xcompiler", "-fPIC")
ALLOWED_CUDA_FLAG = re2.compile(
    r"-(O[0-3]|-use_fast_math|use_fast_math|lineinfo|w|-ftz=\w+|-fmad=\w+|-prec-(div|sqrt)=\w+|-?maxrregcount=?\d+"
    r"|std=c\+\+\d+|D\w+(=\w*)?|-expt-(relaxed-constexpr|extended-lambda)|-extended-lambda)"
)
_PTXAS = re2.compile(
    r"Compiling entry function '(\w+)'[^\n]*\n(?:[^\n]*\n)?[^\n]*?(\d+) bytes spill stores[^\n]*\n"
    r"[^\n]*Used (\d+) registers(?:[^\n]*?(\d+) bytes smem)?"
)
"""What the assembler says of one kernel: its (mangled) name, spills, registers, shared memory."""
MEMORY_BYTES = 4 << 30
FILE_BYTES = 64 << 20
HEADER_FILE_BYTES = 1 << 30
HEADER_CPU_S = 600.0
"""CPU time for precompiling a header, which is trusted text (in seconds)."""
MAX_LOG_CHARS = 4000
MAX_UNIT_CHARS = 400_000
"""Length of the texts of one unit."""
MAX_EXPANDED_BYTES = 1 << 20
"""Length of a unit's text with its macros expanded."""
MAX_WORDS = 64
"""Flags, and functions, of one unit."""
BUILD_AND_LOOK = f"""\
"$0" "$@" || exit $?
if [ -e blank.cpp ]; then
  g++ $(cat own_flags) -E -P blank.cpp 2> /dev/null | head -c {MAX_EXPANDED_BYTES + 1} > expanded
fi
nm -D --undefined-only module.so | head -c {symbols.MAX_BYTES} > mangled
(ulimit -v 1000000; ulimit -t 5; c++filt < mangled | head -c {symbols.MAX_BYTES} > symbols)
readelf -rW module.so | head -c {symbols.MAX_BYTES} > relocations
"""
"""Compile, expand macros, and list what the module wants from other libraries, in one confined process."""
KILLED = "was killed by SIGKILL"
OUT_OF_CPU = "CPU time limit exceeded"
BUILD_FORMAT = 10
"""Raised when a change of the builder makes earlier builds useless."""
PRUNE_EVERY = 256
"""Builds after which those that nobody has used for long are looked for."""

BINDING = Path(__file__).with_name("binding.h"), Path(__file__).with_name("binding.cpp")
HEADERS = {
    "tvm_ffi": BINDING[0].read_text(encoding="utf-8"),
    "torch": """\
#define TORCH_API_INCLUDE_EXTENSION_H
#include <torch/extension.h>
""",
}
"""By loader: what stands before the candidate's text."""
SUPPORT = {"tvm_ffi": BINDING[1].read_text(encoding="utf-8")}
"""By loader: what is linked to every module."""


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
    final: bool = True
    """False: the load on the machine, or a signal from outside, may have decided; such a build is not kept."""
    out_of_time: bool = False
    """The compiler was stopped because it took too long."""


@dataclass(frozen=True)
class _Compiled:
    """What one run of a compiler came to."""

    ok: bool
    log: str
    seconds: float
    """Wall time without pauses (in seconds)."""
    final: bool = True
    out_of_time: bool = False


@dataclass(frozen=True)
class _Prelude:
    """What comes before a candidate's text, compiled."""

    header: Path
    objects: tuple[Path, ...]


class Builder:
    """Builds native modules. Thread-safe; equal units are built once.

    Args:
        cache: folder of the content-addressed cache; only this process and its like write to it.
        scratch: folder in which builds happen, on the same file system.
        forkserver: forks the confined compilers.
        cores: says when a compiler may run.
        timeout: CPU time for one build (in seconds).
        gpu_arch: of the device that is here, for which CUDA sources are built.
        limits: what the caches may hold.
    """

    def __init__(
        self,
        cache: Path,
        scratch: Path,
        forkserver: ForkServer,
        cores: Cores,
        timeout: float,
        gpu_arch: str | None = None,
        limits: CacheLimits = DEFAULT_LIMITS,
    ):
        self._limits = limits
        self._num_published = 0
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
        versions = machine.compiler(), machine.linker(), target, tvm_ffi.__version__, torch.__version__
        limits = self._timeout, MEMORY_BYTES, FILE_BYTES
        key = _digest(source, compiler, flags, link, versions, limits, HEADERS, SUPPORT, BUILD_FORMAT)
        folder = build_folder(self._cache, key)
        with self._cores.holding(self._locks[key]):
            if (folder / "build.json").exists():
                return self._load(folder, cached=True)
            tuning = tuple(flag for flag in PRECOMPILED_TUNING if flag in flags)
            prelude = self._prelude(unit["loader"], tuning)
            link = [*map(str, prelude.objects), *link]
            if name == "main.cpp":
                source = f'#include "{prelude.header}"\n#line 1 "kernel.cpp"\n{source}'
                link = [*machine.linker(), *link]
            with tempfile.TemporaryDirectory(dir=self._scratch) as temporary:
                work = Path(temporary) / "unit"
                work.mkdir()
                (work / name).write_text(source, encoding="utf-8")
                _prepare_expansion(unit, flags, work)
                command = ["sh", "-c", BUILD_AND_LOOK, *compiler, *flags, "-shared", name, "-o", "module.so", *link]
                made = self._compile(command, work)
                if (
                    not made.final and not made.out_of_time
                ):  # it was a machine short of memory, perhaps: the second time tells
                    made = self._compile(command, work)
                if not made.final:
                    return Built(False, None, made.log, made.seconds, False, final=False, out_of_time=made.out_of_time)
                ok = made.ok and (work / "module.so").exists()
                with self._cores.working():
                    foul = _find_foul(unit, work) if ok else []
                result = {"ok": ok, "log": made.log, "seconds": made.seconds, "foul": foul}
                result |= {"out_of_time": made.out_of_time}
                (work / "build.json").write_text(json.dumps(result))
                for left in work.iterdir():
                    if left.name not in ("build.json", "module.so"):
                        left.unlink()
                self._publish(work, folder)
            return self._load(folder, cached=False)

    def _publish(self, work: Path, folder: Path) -> None:
        publish(work, folder)
        self._num_published += 1
        if self._num_published % PRUNE_EVERY == 1:
            prune(self._cache, self._scratch, self._limits)

    def _load(self, folder: Path, cached: bool) -> Built:
        result = json.loads((folder / "build.json").read_text())
        os.utime(folder)  # it is in use: see `prune`
        path = folder / "module.so" if result["ok"] else None
        seconds = 0.0 if cached else result["seconds"]
        foul = tuple(map(tuple, result["foul"]))
        late = result["out_of_time"]
        return Built(result["ok"], path, result["log"], seconds, cached, foul, folder.name, out_of_time=late)

    def _prelude(self, loader: str, tuning: tuple[str, ...]) -> _Prelude:
        """The loader's header with its precompiled twin, and what is linked to every module.

        Raises:
            InfrastructureError: they cannot be compiled here.
        """
        compiler = machine.compiler(), machine.native_target()
        versions = tvm_ffi.__version__, torch.__version__
        key = _digest(HEADERS[loader], SUPPORT.get(loader), BASE_FLAGS, tuning, compiler, versions, BUILD_FORMAT)
        folder = self._cache / "headers" / key[:16]
        with self._cores.holding(self._locks[key]):
            if not folder.exists():
                with tempfile.TemporaryDirectory(dir=self._scratch) as name:
                    work = Path(name) / "headers"
                    work.mkdir()
                    self._compile_prelude(loader, [*BASE_FLAGS, *tuning, *_includes(loader)], work)
                    publish(work, folder)
            os.utime(folder)
        return _Prelude(folder / "loader.h", tuple(folder / f"{loader}.o" for _ in SUPPORT if loader in SUPPORT))

    def _compile_prelude(self, loader: str, flags: list[str], work: Path) -> None:
        (work / "loader.h").write_text(HEADERS[loader], encoding="utf-8")
        wanted = {"loader.h.gch": ["-x", "c++-header", "loader.h"]}
        if loader in SUPPORT:
            (work / "support.cpp").write_text(SUPPORT[loader], encoding="utf-8")
            wanted[f"{loader}.o"] = ["-c", "support.cpp"]
        for name, arguments in wanted.items():
            command = ["g++", *flags, *arguments, "-o", name]
            made = self._compile(command, work, HEADER_FILE_BYTES, cpu_s=max(HEADER_CPU_S, self._timeout))
            if not made.ok:
                raise InfrastructureError(f"the header of the loader {loader} does not compile here: {made.log}")

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
            made = self._compile(["nvcc", *flags, "-c", "main.cu", "-o", "main.o"], work, shortened=False)
            ok, log = made.ok, made.log
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
            launches: what `contest/launches.py` recorded.
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
                    made = self._compile([sys.executable, "-P", cubin.__file__, "."], work)
                    if not made.ok or not (work / "result.json").exists():
                        failed = {"arch": arch, "ok": False, "log": made.log}
                        return [{"kernel": launch["kernel"], **failed} for launch in launches]
                    shutil.rmtree(work / "cache", ignore_errors=True)
                    self._publish(work, folder)
        results: list[dict[str, Any]] = json.loads((folder / "result.json").read_text())
        return results

    def _compile(
        self,
        command: list[str],
        folder: Path,
        file_bytes: int = FILE_BYTES,
        shortened: bool = True,
        cpu_s: float | None = None,
    ) -> _Compiled:
        """Run a compiler. Each of its processes may compute for `cpu_s` (in seconds; None: the builder's limit)."""
        cpu_s = cpu_s or self._timeout
        started, waiting = time.monotonic(), self._cores.clock.waiting
        with tempfile.TemporaryFile() as log:
            request = {
                "kind": "compiler",
                "command": command,
                "folder": str(folder),
                "readable": [path for path in (str(self._cache / "headers"), cubin.__file__) if os.path.exists(path)],
                "memory_bytes": MEMORY_BYTES,
                "file_bytes": file_bytes,
                "cpu_s": cpu_s,
            }
            pid = self._forkserver.spawn(request, (log.fileno(),))
            with self._cores.stoppable(pid):
                paused = self._cores.paused_s
                status = self._forkserver.wait(pid, ceiling(cpu_s))
                while status is None and self._cores.paused_s > paused:
                    paused, longer = self._cores.paused_s, self._cores.paused_s - paused
                    status = self._forkserver.wait(pid, longer)
            if status is None:
                os.killpg(pid, 9)
                self._forkserver.wait(pid, 5)
            log.seek(0)
            text = log.read(1 << 20).decode("utf-8", "replace")
            text = text.replace(f"{folder}/", "").replace(f"{self._cache}/headers/", "")
        seconds = time.monotonic() - started - (self._cores.clock.waiting - waiting)
        if status is None:
            text = f"the compiler did not end within {ceiling(cpu_s):g} s"
            return _Compiled(False, text, seconds, final=False, out_of_time=True)
        if status == 0:
            return _Compiled(True, shorten(text) if shortened else text, seconds)
        if OUT_OF_CPU in text or status >> 8 in (128 + signal.SIGXCPU, -signal.SIGXCPU & 0xFF):
            text = f"the compiler took longer than {cpu_s:g} s and was stopped"
            return _Compiled(False, text, seconds, out_of_time=True)
        if os.WIFSIGNALED(status) or status >> 8 == 137 or "Killed signal terminated program" in text:
            return _Compiled(False, f"the compiler {KILLED}", seconds, final=False)
        if not text.strip():
            text = f"the compiler {explain_status(status)}"
        return _Compiled(False, shorten(text) if shortened else text, seconds)


def _prepare_expansion(unit: dict[str, Any], flags: list[str], work: Path) -> None:
    """What the preprocessor needs to expand the text's own macros and those of the flags, without what it includes."""
    if "define" in _text_of(unit) or any(flag.startswith("-D") for flag in flags):
        (work / "blank.cpp").write_text(_cpp_text.without_includes(_text_of(unit)), encoding="utf-8")
        own_flags = [flag for flag in flags if flag.startswith(("-D", "-std", "-f", "-m"))]
        (work / "own_flags").write_text(" ".join(own_flags))


def _find_foul(unit: dict[str, Any], work: Path) -> list[tuple[str, str]]:
    """What the preprocessor makes of the candidate's text, and what its module wants from other libraries."""
    source = _text_of(unit)
    foul = [("forbidden_include", include) for include in _cpp_text.foul_includes(source)]
    expanded = (work / "expanded").read_bytes() if (work / "blank.cpp").exists() else b""
    if len(expanded) > MAX_EXPANDED_BYTES:
        foul.append(("forbidden_cpp", f"macros that expand to more than {MAX_EXPANDED_BYTES} characters"))
    words = {word for text in (source, expanded.decode("utf-8", "replace")) for word, _ in _cpp_text.foul_words(text)}
    foul += [("forbidden_cpp", word) for word in sorted(words)]
    texts = {name: (work / name).read_bytes() for name in ("mangled", "symbols", "relocations")}
    mangled, demangled = (texts[name].count(b"\n") for name in ("mangled", "symbols"))
    if mangled != demangled or max(map(len, texts.values())) >= symbols.MAX_BYTES:
        return [*foul, ("library_symbol", f"names of more than {symbols.MAX_BYTES} characters")]
    wanted = [line.strip().partition(" ")[2] for line in texts["symbols"].decode("utf-8", "replace").splitlines()]
    foul += [
        ("library_symbol", symbol) for symbol in symbols.foreign(wanted, unit["loader"], cuda=bool(unit.get("cuda")))
    ]
    taken = symbols.foreign_addresses(texts["relocations"].decode("utf-8", "replace"))
    return [*foul, *(("library_symbol", f"the address of {name}") for name in taken)]


def _text_of(unit: dict[str, Any]) -> str:
    return "\n".join((*unit["cpp"], *unit["cuda"]))


def build_folder(cache: Path, key: str) -> Path:
    """Where the build of a content key is kept."""
    return cache / "build" / key[:2] / key


def _digest(*parts: object) -> str:
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()


def publish(work: Path, folder: Path) -> None:
    """Move a finished entry into the cache, whole or not at all; another process may have been first."""
    for path in (*work.iterdir(), work):
        handle = os.open(path, os.O_RDONLY)
        os.fsync(handle)  # else a machine that loses power could leave a file that is there and empty
        os.close(handle)
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
    _check_form(unit)
    name, functions = unit["name"], unit["functions"]
    for identifier in (name, *functions):
        if not _NAME.fullmatch(identifier):
            raise BadUnit("build_request", f"{identifier[:100]!r} is not a C++ name")
    given = [*unit["cflags"], *unit["ldflags"]]
    for flag in given:
        if not ALLOWED_FLAG.fullmatch(flag) or FORBIDDEN_FLAG.match(flag):
            raise BadUnit("build_flag", flag[:100])
    source = "\n".join(unit["cpp"])
    flags = [*BASE_FLAGS, *_includes(unit["loader"])]
    flags += [flag for flag in given if not flag.startswith("-l") and flag not in flags]
    link = [flag for flag in given if flag.startswith("-l")]
    if unit["loader"] == "tvm_ffi":
        exports = "".join(f"KERNELRL_EXPORT({function})\n" for function in functions)
        libraries = [f"-L{Path(tvm_ffi.libinfo.find_libtvm_ffi()).parent}", "-ltvm_ffi"]
        return f"{source}\n{exports}", flags, [*libraries, *link]
    exports = "".join(f'  m.def("{it}", torch::wrap_pybind_function({it}));\n' for it in functions)
    module = f"PYBIND11_MODULE({name}, m) {{\n{exports}}}\n" if functions else ""
    libraries = [f"-L{path}" for path in cpp_extension.library_paths()]
    libraries += ["-lc10", "-ltorch_cpu", "-ltorch", "-ltorch_python"]
    own_name = f'#define TORCH_EXTENSION_NAME {name}\n#line 1 "kernel.cpp"\n'
    return f"{own_name}{source}\n{module}", flags, [*libraries, *link]


def _check_form(unit: dict[str, Any]) -> None:
    """A request says what it must and no more than is read."""
    if unit.get("loader") not in ("tvm_ffi", "torch"):
        raise BadUnit("build_request", f"loader {unit.get('loader')!s:.50}")
    if not isinstance(unit.get("name"), str):
        raise BadUnit("build_request", "a module without a name")
    for field in ("cpp", "cuda", "functions", "cflags", "cuda_cflags", "ldflags"):
        value = unit.get(field)
        if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
            raise BadUnit("build_request", f"{field} is no list of texts")
        if field not in ("cpp", "cuda") and len(value) > MAX_WORDS:
            raise BadUnit("build_request", f"{len(value)} {field}; at most {MAX_WORDS} are taken")
    if (length := len(_text_of(unit))) > MAX_UNIT_CHARS:
        raise BadUnit("build_request", f"{length} characters of native code; at most {MAX_UNIT_CHARS} are compiled")


def _translate_cuda(unit: dict[str, Any], arch: str) -> tuple[str, list[str]]:
    """Source text and nvcc's flags of a unit with CUDA sources, all checked."""
    source, _, _ = _translate(unit)
    given = unit["cuda_cflags"]
    for flag in given:
        if not ALLOWED_CUDA_FLAG.fullmatch(flag):
            raise BadUnit("build_flag", flag[:100])
    cuda = "\n".join(unit["cuda"])
    text = f'{HEADERS[unit["loader"]]}\n#line 1 "kernel.cu"\n{cuda}\n{source}'
    return text, [*CUDA_FLAGS, f"-arch={arch}", *_includes(unit["loader"]), *given]


def _includes(loader: str) -> list[str]:
    if loader == "tvm_ffi":
        paths = [tvm_ffi.libinfo.find_include_path(), tvm_ffi.libinfo.find_dlpack_include_path()]
    else:
        paths = [*cpp_extension.include_paths(), sysconfig.get_paths()["include"]]
    return [f"-I{path}" for path in dict.fromkeys(paths)]
