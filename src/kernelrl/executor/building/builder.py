"""The builder: compiles inline C++ that a candidate asks for, into a content-addressed cache.

Trusted code, untrusted input: the compiler runs confined (no network, reads headers only, writes only to its own
folder, limits on time, memory and output), and what it makes is loaded by nobody but the contestant that asked for
it. What is the same for all kernels (the loader's headers, the templates through which a module is called) is compiled
once for each compiler, so that a ten-line kernel takes a seventh of the processor time that its own loader needs.
"""

from __future__ import annotations

import copy
import itertools
import json
import os
import shutil
import sys
import tempfile
import threading
from collections import defaultdict
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import re2
import torch
import triton
import tvm_ffi

from kernelrl.errors import InfrastructureError
from kernelrl.executor import machine
from kernelrl.executor.building import checks, cubin, headers, loops, watched_vectors
from kernelrl.executor.building.checks import Check
from kernelrl.executor.building.compilers import FILE_BYTES, MEMORY_BYTES, Compiled, Compilers, shorten
from kernelrl.executor.building.entries import build_folder, digest, publish
from kernelrl.executor.building.headers import Headers
from kernelrl.executor.building.pruning import DEFAULT_LIMITS, CacheLimits, prune
from kernelrl.executor.building.units import HEADERS, translate, translate_cuda
from kernelrl.executor.legality import native
from kernelrl.executor.processes.cores import Cores
from kernelrl.executor.processes.forking import ForkServer
from kernelrl.executor.processes.helpers import confined_assembler
from kernelrl.syntax import parse
from kernelrl.verdict import Loop

_PTXAS = re2.compile(
    r"Compiling entry function '(\w+)'[^\n]*\n(?:[^\n]*\n)?[^\n]*?(\d+) bytes spill stores[^\n]*\n"
    r"[^\n]*Used (\d+) registers(?:[^\n]*?(\d+) bytes smem)?"
)
"""What the assembler says of one kernel: its (mangled) name, spills, registers, shared memory."""
BUILD_FORMAT = 16
"""Raised when a change of the builder makes earlier builds useless."""
ROOM_BYTES = 1 << 20
"""Where less space is left, the compiler may have failed for want of it."""
PRUNE_EVERY = 256
"""Builds after which those that nobody has used for long are looked for."""


@dataclass(frozen=True)
class Built:
    """Outcome of one build."""

    ok: bool
    path: Path | None
    log: str
    seconds: float
    cached: bool
    violations: tuple[tuple[str, str], ...] = ()
    """Rules that the text or the module breaks, with the evidence."""
    key: str = ""
    """Content key in the cache; empty: not kept."""
    final: bool = True
    """False: the load on the machine, or a signal from outside, may have decided; such a build is not kept."""
    out_of_time: bool = False
    """The compiler was stopped because it took too long."""
    loops: tuple[Loop, ...] = ()
    """What the compiler has made of the loops of C++; empty: nothing is known."""


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
        self._published = itertools.count()
        self._arch = gpu_arch
        self._cache = cache
        self._scratch = scratch
        self._cores = cores
        self._timeout = timeout
        folder = cache / "headers"
        self._assembler = confined_assembler(cache)
        readable = folder, self._assembler, Path(cubin.__file__)
        self._compilers = Compilers(forkserver, cores, timeout, readable, folder)
        self._headers = Headers(folder, scratch, self._compilers, cores)
        self._locks: defaultdict[str, threading.Lock] = defaultdict(threading.Lock)
        self._check: Check | None = None

    def checking(self, check: Check) -> Builder:
        """This builder for modules that find mistakes in themselves. What they want from libraries is not looked at."""
        other = copy.copy(self)
        other._check = check
        return other

    def build(self, unit: dict[str, Any], gpu_arch: str | None = None) -> Built:
        """Compile one unit, or take it from the cache; CUDA sources for the device here, or for one of `gpu_arch`.

        Raises:
            BadUnit: the unit uses a compiler flag, a loader or a language that is not allowed.
            InfrastructureError: the disk is full.
        """
        source, flags, link = translate(unit)
        untrusted = "\n".join((*unit["cuda"], source))  # with the candidate's names where our own text has them
        compiler = ["g++"]
        if unit.get("cuda"):
            arch = gpu_arch or self._arch
            assert arch is not None
            source, flags = translate_cuda(unit, arch)
            compiler = ["nvcc", "-cudart", "shared"]
        target = "" if unit.get("cuda") else machine.native_target()
        if self._check:
            flags = [*flags, *checks.FLAGS[self._check]]
        versions = machine.compiler(), machine.linker(), target, tvm_ffi.__version__, torch.__version__
        limits = self._timeout, MEMORY_BYTES, FILE_BYTES
        support: list[str] = []
        if self._check:
            texts = (path.read_text() for path in checks.SUPPORT[self._check])
            support = [*texts, *checks.LINK[self._check], checks.BUILD, watched_vectors.before_text(source)]
        trusted = HEADERS, headers.LIGHT, headers.SUPPORT, support
        key = digest(source, compiler, self._assembler.name, flags, link, versions, limits, trusted, BUILD_FORMAT)
        folder = build_folder(self._cache, key)
        with self._cores.holding(self._locks[key]):
            if (folder / "build.json").exists():
                return self._load(folder, cached=True)
            with tempfile.TemporaryDirectory(dir=self._scratch) as temporary:
                work = Path(temporary) / "unit"
                work.mkdir()
                native.prepare(untrusted, flags, work)
                confined = [*(["-Xcompiler"] if unit.get("cuda") else []), f"-B{self._assembler}"]
                made = self._compile(unit, source, [*compiler, *confined, *flags], link, work)
                if not made.ok and shutil.disk_usage(self._scratch).free < ROOM_BYTES:
                    raise InfrastructureError(f"no space is left for builds in {self._scratch}")
                if not made.final:
                    return Built(False, None, made.log, made.seconds, False, final=False, out_of_time=made.out_of_time)
                ok, violations = made.ok and (work / "module.so").exists(), []
                if ok and not self._check:
                    with self._cores.working():
                        violations = native.violations(untrusted, work, unit["loader"], bool(unit.get("cuda")))
                result = {"ok": ok, "log": made.log, "seconds": made.seconds, "violations": violations}
                result |= {"out_of_time": made.out_of_time, "loops": loops.read(work)}
                (work / "build.json").write_text(json.dumps(result))
                for left in work.iterdir():
                    if left.is_dir():
                        shutil.rmtree(left)
                    elif left.name not in ("build.json", "module.so"):
                        left.unlink()
                self._publish(work, folder)
            return self._load(folder, cached=False)

    def _compile(self, unit: dict[str, Any], source: str, command: list[str], link: list[str], work: Path) -> Compiled:
        """Compile a unit's text, with the first header that is enough for it."""
        link = [*self._headers.support(unit["loader"]), *link]
        if unit.get("cuda"):
            return self._compile_text("main.cu", source, command, link, work)
        link = [*machine.linker(), *link]
        tuning = tuple(flag for flag in headers.TUNING if flag in command)
        tuning += checks.FLAGS[self._check] if self._check else ()
        before = watched_vectors.before_text(source) if self._check else ""
        for header in self._headers.of(unit, tuning):
            text = f'#include "{header}"\n{before}#line 1 "kernel.cpp"\n{source}'
            nearer = [command[0], f"-I{header.parent}", *command[1:]]
            made = self._compile_text("main.cpp", text, nearer, link, work)
            if made.ok or not made.final or made.out_of_time or not headers.may_help(made.log):
                break
        return replace(made, log=made.log.replace(headers.LIGHT_NAMESPACE, headers.NAMESPACE))

    def _compile_text(self, name: str, text: str, command: list[str], link: list[str], work: Path) -> Compiled:
        (work / name).write_text(text, encoding="utf-8")
        if self._check:
            command = _prepare_check(self._check, work, command[1:], link)
        else:
            notes = [loops.FLAG] if command[0] == "g++" else []
            command = ["sh", "-c", native.BUILD_AND_LOOK, *command, *notes, "-shared", name, "-o", "module.so", *link]
        made = self._compilers.run(command, work)
        if made.final or made.out_of_time:
            return made
        return self._compilers.run(command, work)  # it was a machine short of memory, perhaps: the second time tells

    def _publish(self, work: Path, folder: Path) -> None:
        publish(work, folder)
        if next(self._published) % PRUNE_EVERY == 0:
            prune(self._cache, self._scratch, self._limits)

    def _load(self, folder: Path, cached: bool) -> Built:
        result = json.loads((folder / "build.json").read_text())
        os.utime(folder)  # it is in use: see `prune`
        path = folder / "module.so" if result["ok"] else None
        seconds = 0.0 if cached else result["seconds"]
        violations = tuple(map(tuple, result["violations"]))
        late, noted = result["out_of_time"], tuple(Loop(**each) for each in result["loops"])
        return Built(
            result["ok"], path, result["log"], seconds, cached, violations, folder.name, out_of_time=late, loops=noted
        )

    def compile_cuda(self, unit: dict[str, Any], arch: str) -> tuple[bool, str, list[dict[str, Any]]]:
        """Compile a unit with CUDA sources for a GPU that need not be here.

        Returns:
            Success, the compiler's words, and the fields of a `GpuBuild` for each kernel.

        Raises:
            BadUnit: as `build`.
        """
        source, flags = translate_cuda(unit, arch)
        with tempfile.TemporaryDirectory(dir=self._scratch) as name:
            work = Path(name)
            (work / "main.cu").write_text(source, encoding="utf-8")
            made = self._compilers.run(["nvcc", *flags, "-c", "main.cu", "-o", "main.o"], work, shortened=False)
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
        text = cubin.kernels_only(parse(source))
        key = digest(text, launches, arch, triton.__version__)
        folder = self._cache / "cubin" / key[:2] / key
        with self._cores.holding(self._locks[key]):
            if not folder.exists():
                with tempfile.TemporaryDirectory(dir=self._scratch) as name:
                    work = Path(name) / "cubin"
                    work.mkdir()
                    (work / "request.json").write_text(json.dumps({"source": text, "launches": launches, "arch": arch}))
                    made = self._compilers.run([sys.executable, "-P", cubin.__file__, "."], work)
                    if not made.ok or not (work / "result.json").exists():
                        failed = {"arch": arch, "ok": False, "log": made.log}
                        return [{"kernel": launch["kernel"], **failed} for launch in launches]
                    shutil.rmtree(work / "cache", ignore_errors=True)
                    self._publish(work, folder)
        results: list[dict[str, Any]] = json.loads((folder / "result.json").read_text())
        return results


def _prepare_check(check: Check, work: Path, flags: list[str], link: list[str]) -> list[str]:
    """Write what is linked to a module that is checked, and say how both are compiled."""
    for path in checks.SUPPORT[check]:
        (work / path.name).write_text(path.read_text(encoding="utf-8"), encoding="utf-8")
    (work / "flags").write_text("\n".join(map(json.dumps, flags)))  # quoted, as the compiler reads them
    return ["sh", "-c", checks.BUILD, *checks.LINK[check], *link]
