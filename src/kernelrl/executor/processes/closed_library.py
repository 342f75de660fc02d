"""Which code of the loaded libraries may run in a candidate's process, to the function.

There the libraries' code is made non-executable, which the service reads from the kernel and nothing in that process
can undo (`sandbox.confine`). Over some of it, the process maps a file of the service's with the functions that are
needed for what a candidate may do: two thousand of three hundred thousand. A process of the executor's own finds them
when the executor first meets these libraries. An allowed operation that turns out to need another function teaches it.
"""

from __future__ import annotations

import hashlib
import json
import mmap
import os
import platform
import re
import sys
import sysconfig
import tempfile
import threading
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy
import torch
import triton
import tvm_ffi

from kernelrl.errors import InfrastructureError
from kernelrl.executor import machine
from kernelrl.executor.api import Layer
from kernelrl.executor.confinement import sandbox
from kernelrl.executor.legality.operators import ALLOCATION_AND_VIEWS, PLUMBING, entry_points
from kernelrl.executor.processes import elf
from kernelrl.executor.processes.failures import ProcessFailure
from kernelrl.executor.processes.process import Process
from kernelrl.records import write_atomically

Allowed = str
"""What candidates may have the library do: `views`, which is allocation and views alone, or `copies`, which is copies
too. Behind the latter come names of types, see `copies_between`."""
CONVERTED = "float64 float16 bfloat16 int64 int32".split()
"""Types to and from which the library converts where a task has them."""
OPERATORS = {"copies": PLUMBING, "views": ALLOCATION_AND_VIEWS}

RUNTIME = re.compile(
    r"(python3[.\d]*|libpython3[.\d]*|ld-linux.*|libc|libm|libmvec|libdl|libpthread|librt|libutil|libstdc\+\+|libgcc_s|"
    r"libatomic|libgomp|libiomp5|libomp|libffi|libz|libc10|libtorch_python|_C|libquadmath)(-[0-9a-f]+)*(\.so|\.cpython|$).*"
)
"""Files whose code stays open: the interpreter, the runtime of C, C++ and OpenMP, and torch's bindings, which compute
nothing by themselves, and libquadmath, which `printf` asks about every floating-point number once it is loaded. Code of
every other file is closed but for the functions that are found to be needed."""
DRIVER = re.compile(r"lib(cuda|cudart|cudadebugger|cupti|nvidia[\w-]*|nvToolsExt|nvtx\w*|c10_cuda)(-[0-9a-f]+)?\.so.*")
"""On a GPU: files whose code stays open too, the driver, and what launches kernels and measures them."""
COMPUTING = re.compile(
    r"lib(torch(_\w+)?|cublas\w*|cudnn\w*|cufft\w*|curand|cusolver\w*|cusparse\w*|nvrtc[\w.-]*|nvJitLink|npp\w*|nccl|"
    r"nvshmem\w*|mkl\w*|\w*blas\w*|lapack\w*)(-[0-9a-f]+)?\.so.*"
)
"""On a GPU: files whose code is closed wherever they lie. Other code is closed there where it lies in a Python package:
Triton's compiler needs more of the system than a candidate on a CPU does."""
CONTEST = Path(__file__).parents[1] / "contest"
TRIED = tuple(
    "closed_pages.c closed_pages.py contestant.py gpu.py operator_mode.py operator_record.py starting.py "
    "state.py".split()
)
"""Files there that say what a process is prepared by and may do, for which functions stay open."""
TIMEOUT_S, LEARNING_S = 120.0, 10.0
"""Time to find the pages of all that is allowed, and those of what one candidate has called (in seconds)."""
_ENTRY = re.compile(r"at::_ops::(\w+)::")
_ACCESS = (
    r"at::TensorBase::(const_|mutable_)?data_ptr|at::Tensor::item|"
    r"at::((init|get)_num_threads|get_thread_num|in_parallel_region|internal::set_thread_num)"
)
"""Functions through which native code reads a tensor's memory, and shares its loops out among threads."""
NEAR_BYTES = 1 << 15
"""Open functions as near as this lie on one part, with what is between them, which traps: fewer parts cost less."""
_INT3 = b"\xcc"
MAX_OPERATORS = 300
_FORMAT = 5


@dataclass(frozen=True)
class Mapping:
    """Executable memory of a process that shows a part of a file."""

    start: int
    end: int
    offset: int
    """Of `start` in the file (in bytes)."""
    path: str


_EXECUTABLE = re.compile(rb"^(\w+)-(\w+) ..x. (\w+) \S+ \d+ *(.*)$", re.MULTILINE)


def executable_mappings(pid: int) -> list[Mapping]:
    """All memory that a process may execute, as the kernel says. It should be frozen."""
    lines = _EXECUTABLE.findall(Path(f"/proc/{pid}/maps").read_bytes())
    return [
        Mapping(int(start, 16), int(end, 16), int(offset, 16), os.fsdecode(path)) for start, end, offset, path in lines
    ]


def copies_between(dtypes: Iterable[str]) -> Allowed:
    """Copies, and conversions of the types that a task has (`torch.float16`, …)."""
    return " ".join(["copies", *(name for name in CONVERTED if f"torch.{name}" in set(dtypes))])


def closable(mapping: Mapping, open_folders: tuple[str, ...], on_gpu: bool) -> bool:
    """Whether a mapping's code is closed but for the functions that are needed.

    Args:
        open_folders: files below them stay open.
    """
    name = os.path.basename(mapping.path)
    if mapping.path in ("[vdso]", "[vsyscall]") or mapping.path.startswith(open_folders):
        return False
    if on_gpu and (DRIVER.fullmatch(name) or not (_is_of_a_package(mapping.path) or COMPUTING.fullmatch(name))):
        return False
    return RUNTIME.fullmatch(name) is None


def _is_of_a_package(path: str) -> bool:
    return not {"site-packages", "dist-packages"}.isdisjoint(Path(path).parts)


Functions = dict[str, list[list[int]]]
"""By file, where functions start and end in it, sorted."""


@dataclass(frozen=True)
class OpenCode:
    """A file that holds the functions that stay open, and in the place of all other code near them what traps.

    Contestants map parts of it over the libraries' own code.
    """

    path: Path
    needed: Functions
    parts: dict[str, list[list[int]]]
    """By library, the parts: where each starts and ends in the library, and where it starts in this file."""

    @classmethod
    def write(cls, folder: Path, needed: Functions) -> OpenCode:
        """Make the file of these functions, with a name of its own."""
        handle, name = tempfile.mkstemp(dir=folder, prefix="open-code-")
        parts: dict[str, list[list[int]]] = {}
        with open(handle, "wb") as file:
            for library, functions in needed.items():
                code = elf.code(library)
                assert code is not None, library
                parts[library] = []
                for start, end in _parts(functions):
                    parts[library].append([start, end, file.tell()])
                    file.write(_closed_but_for(library, start, end, code.sections, functions))
        return cls(Path(name), needed, parts)

    def placed(self, mappings: Iterable[Mapping]) -> list[list[int]]:
        """Which parts belong where: addresses, lengths, and places in this file."""
        found = []
        for each in mappings:
            for start, end, at in self.parts.get(each.path, []):
                first, last = max(start, each.offset), min(end, each.offset + each.end - each.start)
                if first < last:
                    found.append([each.start + first - each.offset, last - first, at + first - start])
        return found


def _parts(functions: list[list[int]]) -> list[list[int]]:
    """Whole pages from which sorted functions are within reach: starts and ends. What is near lies on one part."""
    parts: list[list[int]] = []
    for start, end in functions:
        first, last = start // mmap.PAGESIZE * mmap.PAGESIZE, -(-end // mmap.PAGESIZE) * mmap.PAGESIZE
        if parts and first - parts[-1][1] <= NEAR_BYTES:
            parts[-1][1] = max(parts[-1][1], last)
        else:
            parts.append([first, last])
    return parts


def _closed_but_for(
    library: str, start: int, end: int, sections: list[tuple[int, int]], functions: list[list[int]]
) -> bytes:
    """A part of a library with instructions that trap in the place of all code but some functions."""
    with open(library, "rb") as file:
        held = os.pread(file.fileno(), end - start, start)
    content = bytearray(held.ljust(end - start, b"\0"))
    for low, high in sections:
        if (low := max(low, start)) < (high := min(high, end)):
            content[low - start : high - start] = _INT3 * (high - low)
    for low, high in functions[bisect_left(functions, [start]) : bisect_left(functions, [end])]:
        content[low - start : high - start] = held[low - start : high - start]
    return bytes(content)


class LibraryStaysOpen(Exception):
    """A process has executable code that it must not have."""


@dataclass(frozen=True)
class Closed:
    """How the libraries of one process are closed."""

    allowed: Allowed
    mappings: list[Mapping]
    """Of the closable files, before they were closed."""
    needed: Functions
    """The functions that stayed open."""


class ClosedLibrary:
    """Closes the libraries of contestants, and knows and learns which functions stay open. Thread-safe.

    Args:
        cache: folder in which the places of the functions are kept.
        scratch: folder of the service's own, on the file system of the contestants' folders.
        start: starts a process of the executor's own, in which libraries may compute.
        on_gpu: candidates run on a GPU.
        allow_missing: layers of confinement that may be missing; this one is `pages`.

    Raises:
        InfrastructureError: the processor is one for which this is not made, or the functions cannot be found.
    """

    def __init__(
        self,
        cache: Path,
        scratch: Path,
        start: Callable[[], Process],
        on_gpu: bool,
        allow_missing: tuple[Layer, ...] = (),
    ):
        if "pages" not in allow_missing and platform.machine() != "x86_64":
            raise InfrastructureError(sandbox.explain_missing(["pages"]))
        self._scratch = scratch
        self._start = start
        self._on_gpu = on_gpu
        self._lock = threading.Lock()
        self._finding = threading.Lock()
        self._needed: dict[Allowed, Functions] = {}
        self._open: dict[Allowed, OpenCode] = {}
        if "pages" in allow_missing:
            return
        with start() as process:
            files = {each.path for each in self._closable(process, interpreted=False)}
        self._path = cache / "pages" / f"{_digest(files, on_gpu)}.json"
        if self._path.exists():
            self._needed = json.loads(self._path.read_text())
            return
        for allowed in OPERATORS:
            self._add(allowed, self._find(allowed, []))

    def close(
        self, process: Process, ask: Callable[[dict[str, Any]], Any], allowed: Allowed, interpreted: bool
    ) -> Closed:
        """Close the libraries of a process, and see that they are closed.

        Args:
            process: frozen, with its candidate loaded.
            ask: puts a question to it.
            allowed: what its candidate may have the library do.
            interpreted: it runs Triton's interpreter, which computes with NumPy.

        Raises:
            LibraryStaysOpen: they are not.
            ProcessFailure: the process did not answer.
        """
        mappings = self._closable(process, interpreted)
        self._know(allowed)
        with self._lock:  # until the process has a link of its own
            open_code = self._open_code(allowed)
            path = process.offer_module(open_code.path, "open_code", shared=True)  # ten megabytes
        ranges = [[each.start, each.end - each.start] for each in mappings]
        ask({"do": "close", "ranges": ranges, "path": str(path), "parts": open_code.placed(mappings)})
        if left := self._closable(process, interpreted):
            names = {os.path.basename(each.path) or "memory" for each in left}
            raise LibraryStaysOpen(f"code of {', '.join(sorted(names))} could not be closed")
        return Closed(allowed, mappings, open_code.needed)

    def _know(self, allowed: Allowed) -> None:
        """Find which functions stay open, unless that is known."""
        if allowed not in self._needed:  # else nobody waits for who is finding others
            with self._finding:
                if allowed not in self._needed:
                    self._add(allowed, self._find(allowed, []))

    def _open_code(self, allowed: Allowed) -> OpenCode:
        """The file of these functions. The caller holds the lock."""
        known, needed = self._open.get(allowed), self._needed[allowed]
        if known is None or known.needed is not needed:
            if known is not None:
                known.path.unlink(missing_ok=True)
            known = self._open[allowed] = OpenCode.write(self._scratch, needed)
        return known

    def _closable(self, process: Process, interpreted: bool) -> list[Mapping]:
        folder = process.modules.parent if self._on_gpu else process.modules  # Triton's compiler writes beside them
        own = f"{folder.resolve()}/", f"{os.path.dirname(process.helper)}/"
        of_triton = triton_folders() if interpreted or self._on_gpu else ()
        folders = (*open_folders(), *own, *of_triton, *(numpy_folders() if interpreted else ()))
        return [each for each in executable_mappings(process.pid) if closable(each, folders, self._on_gpu)]

    def learn(self, process: Process, closed: Closed) -> bool:
        """After a process has died in a closed function: learn what the operators need that it is known to have called.

        They are called again in a process of the executor's own, with other values; only those that are allowed.

        Returns:
            Whether the function that it died in is open from now on.
        """
        file, offset = _locate(closed.mappings, process.note.fault())
        noted = {json.dumps(each): each for each in process.note.operators()}
        operators = [each for each in noted.values() if each["name"] in _operators(closed.allowed)]
        if file is None or not operators or _is_open(closed.needed, file, offset):
            return False
        try:
            question = {"do": "sift", "operators": operators[-MAX_OPERATORS:], "types": _types(closed.allowed)}
            with self._start() as other:  # not the one that finds: what is called a first time needs the most
                reply, _ = other.ask(question, LEARNING_S)
            operators = reply.get("operators", [])
            found = self._find(closed.allowed, operators) if operators else {}
        except (ProcessFailure, ValueError, RecursionError):  # the note is what the process has made of it
            return False
        self._add(closed.allowed, found)
        with self._lock:
            return _is_open(self._needed[closed.allowed], file, offset)

    def explain(self, process: Process, closed: Closed) -> tuple[str, int | None] | None:
        """What a process has died of, and the line of the candidate; None: not of closed code, as far as is known."""
        file, offset = _locate(closed.mappings, process.note.fault())
        if file is None:
            return None
        names = elf.functions(file)
        function = names and names.at(offset)
        operator = _ENTRY.match(function or "")
        what = f"aten::{operator[1]}" if operator else function or _last_operator(process) or f"code at {offset:#x}"
        return f"{what} of {os.path.basename(file)}", process.last_line()

    def _find(self, allowed: Allowed, operators: list[dict[str, Any]]) -> Functions:
        """The functions that some operators need; without any, all that is allowed."""
        with self._start() as process:
            mappings = self._closable(process, interpreted=False)
            question = {
                "do": "find_functions",
                "operators": operators,
                "types": _types(allowed),
                "mappings": [list(vars(each).values()) for each in mappings],
            }
            reply, _ = process.ask(question, LEARNING_S if operators else TIMEOUT_S)
        if "failed" in reply:
            if operators:
                return {}
            raise InfrastructureError(f"the needed functions of the libraries were not found: {reply['message']}")
        found: Functions = reply["functions"]
        return found if operators else _union(found, _entries(mappings, allowed))

    def _add(self, allowed: Allowed, found: Functions) -> None:
        with self._lock:
            known = self._needed.get(allowed)
            needed = _union(known or {}, found)
            if needed == known:  # else its file would be written again, and what contestants have mapped of it be kept
                return
            self._needed = {**self._needed, allowed: needed}
            write_atomically(self._path, json.dumps(self._needed))


def _operators(allowed: Allowed) -> frozenset[str]:
    return OPERATORS[allowed.split()[0]]


def _types(allowed: Allowed) -> list[str] | None:
    """Between which types conversions are allowed, beside `torch.float32`; None: there are no copies."""
    kind, *types = allowed.split()
    return types if kind == "copies" else None


def _union(some: Functions, others: Functions) -> Functions:
    return {
        file: [list(span) for span in sorted({tuple(span) for each in (some, others) for span in each.get(file, [])})]
        for file in {**some, **others}
    }


def _is_open(needed: Functions, file: str, offset: int) -> bool:
    """Whether an offset of a file lies in a needed function."""
    spans = needed.get(file, [])
    index = bisect_right(spans, [offset, sys.maxsize]) - 1
    return index >= 0 and offset < spans[index][1]


def _entries(mappings: Iterable[Mapping], allowed: Allowed) -> Functions:
    """The functions through which native code calls allowed operators, and reads a tensor's memory."""
    pattern = re.compile(rf"at::_ops::{entry_points(_operators(allowed))}::(call|redispatch)|{_ACCESS}")
    found: Functions = {}
    for file in {each.path for each in mappings if os.path.basename(each.path) == "libtorch_cpu.so"}:
        functions, code = elf.functions(file), elf.code(file)
        if functions and code:
            spans = {span for place in functions.places_of(pattern) if (span := code.at(place))}
            found[file] = [list(span) for span in sorted(spans)]
    return found


def _last_operator(process: Process) -> str | None:
    """What a process was doing when it died, by its own account."""
    noted = process.note.operators()
    return str(noted[-1]["name"])[:100] if noted else None


def _locate(mappings: Iterable[Mapping], address: int | None) -> tuple[str | None, int]:
    """File, and place in it, of what lies at an address; no file: it is in none of these mappings."""
    for each in mappings:
        if address is not None and each.start <= address < each.end:
            return each.path, each.offset + address - each.start
    return None, 0


@cache
def open_folders() -> tuple[str, ...]:
    """Folders whose code stays open: Python's own extension modules, and tvm-ffi's loader."""
    standard_library = Path(sysconfig.get_path("stdlib")) / "lib-dynload"
    return str(standard_library.resolve()), f"{Path(tvm_ffi.__file__).resolve().parent}/"


@cache
def numpy_folders() -> tuple[str, ...]:
    """Folders of what Triton's interpreter computes with: NumPy's arrays, and BLAS for `tl.dot`."""
    folder = Path(numpy.__file__).resolve().parent
    return f"{folder}/_core/", f"{folder}.libs/"


@cache
def triton_folders() -> tuple[str, ...]:
    """Folders of Triton's own code, interpreter and compiler."""
    return (f"{Path(triton.__file__).resolve().parent}/",)


def _digest(files: Iterable[str], on_gpu: bool) -> str:
    """Of what the needed functions depend on: the files, the processor for which torch chooses code, what is tried."""
    tried = [(CONTEST / name).read_text() for name in TRIED]
    parts = (
        sorted((file, elf.build_id(file)) for file in files),
        torch.backends.cpu.get_cpu_capability(),
        machine.native_target(),
        machine.gpu_arch() if on_gpu else None,
        tried,
        _FORMAT,
    )
    return hashlib.sha256(repr(parts).encode()).hexdigest()[:32]
