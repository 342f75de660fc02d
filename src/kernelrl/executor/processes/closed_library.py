"""Which code of the loaded libraries may run in a candidate's process, to the page.

The code that computes is made non-executable there, from outside verified, and nothing in that process can make memory
executable again (`sandbox.confine`). What a candidate may do needs a few hundred of the libraries' hundred thousand
pages: a process of the executor's own finds them when the executor first meets these libraries. An allowed operation
that turns out to need another page teaches it.
"""

from __future__ import annotations

import hashlib
import json
import mmap
import os
import platform
import re
import sysconfig
import tempfile
import threading
from bisect import bisect_left
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Literal

import numpy
import torch
import triton
import tvm_ffi

from kernelrl.errors import InfrastructureError
from kernelrl.executor import machine
from kernelrl.executor.api import Layer
from kernelrl.executor.confinement import sandbox
from kernelrl.executor.legality.operators import ALLOCATION_AND_VIEWS, PLUMBING
from kernelrl.executor.processes import elf
from kernelrl.executor.processes.process import Process, ProcessFailure

Allowed = Literal["copies", "views"]
"""What candidates may have the library do: allocation, views, copies and conversions; or allocation and views alone."""
OPERATORS: dict[Allowed, frozenset[str]] = {"copies": PLUMBING, "views": ALLOCATION_AND_VIEWS}

RUNTIME = re.compile(
    r"(python3[.\d]*|libpython3[.\d]*|ld-linux.*|libc|libm|libmvec|libdl|libpthread|librt|libutil|libstdc\+\+|libgcc_s|"
    r"libatomic|libgomp|libiomp5|libomp|libffi|libz|libc10|libtorch_python|_C)(-[0-9a-f]+)?(\.so|\.cpython|$).*"
)
"""Files whose code stays open: the interpreter, the runtime of C, C++ and OpenMP, and torch's bindings, which compute
nothing by themselves. Code of every other file is closed but for the pages that are found to be needed."""
GPU_LIBRARIES = re.compile(r"lib(cublas|cublasLt|cudnn\w*|cufft|cusparse\w*|cusolver\w*|nvrtc[\w-]*)\.so.*")
"""On a GPU: files whose code is closed. It has not been tried on a GPU which pages of the others could be."""
CONTEST = Path(__file__).parents[1] / "contest"
TIMEOUT_S = 120.0
_ENTRY = re.compile(r"at::_ops::(\w+)::")
_LINE = re.compile(r'File "[^"\n]*/kernel_module\.py", line (\d+) in')
"""Where a process dies, as Python's `faulthandler` says it."""
MAX_OPERATORS = 10_000
_FORMAT = 1


@dataclass(frozen=True)
class Mapping:
    """Executable memory of a process that shows a part of a file."""

    start: int
    end: int
    offset: int
    """Of `start` in the file (in bytes)."""
    path: str


def executable_mappings(pid: int) -> list[Mapping]:
    """All memory that a process may execute, as the kernel says. It should be frozen."""
    found = []
    for line in Path(f"/proc/{pid}/maps").read_text().splitlines():
        fields = line.split(None, 5)
        if "x" in fields[1]:
            start, end = (int(number, 16) for number in fields[0].split("-"))
            found.append(Mapping(start, end, int(fields[2], 16), fields[5] if len(fields) > 5 else ""))
    return found


def closable(mapping: Mapping, open_folders: tuple[str, ...], on_gpu: bool) -> bool:
    """Whether a mapping's code is closed but for the pages that are needed.

    Args:
        open_folders: files below them stay open.
    """
    name = os.path.basename(mapping.path)
    if on_gpu:
        return GPU_LIBRARIES.fullmatch(name) is not None
    if mapping.path in ("[vdso]", "[vsyscall]") or mapping.path.startswith(open_folders):
        return False
    return RUNTIME.fullmatch(name) is None


def ranges_to_close(mappings: Iterable[Mapping], needed: dict[str, list[int]]) -> list[list[int]]:
    """Ranges of addresses, each a start and a length, of all that these mappings show but the needed pages.

    Args:
        mappings: of closable files.
        needed: by file, the sorted numbers of its pages that stay open.
    """
    ranges = []
    for each in mappings:
        pages = needed.get(each.path, [])
        first, last = each.offset // mmap.PAGESIZE, (each.offset + each.end - each.start) // mmap.PAGESIZE
        start = first
        for page in [*pages[bisect_left(pages, first) : bisect_left(pages, last)], last]:
            if page > start:
                ranges.append([each.start + (start - first) * mmap.PAGESIZE, (page - start) * mmap.PAGESIZE])
            start = page + 1
    return ranges


class LibraryStaysOpen(Exception):
    """A process has executable code that it must not have."""


@dataclass(frozen=True)
class Closed:
    """How the libraries of one process are closed."""

    allowed: Allowed
    mappings: tuple[Mapping, ...]
    """Of the closable files, before they were closed."""


class ClosedLibrary:
    """Closes the libraries of contestants, and knows and learns which pages stay open. Thread-safe.

    Args:
        cache: folder in which the pages are kept.
        start: starts a process of the executor's own, in which libraries may compute.
        on_gpu: candidates run on a GPU.
        allow_missing: layers of confinement that may be missing; this one is `pages`.

    Raises:
        InfrastructureError: the processor is one for which this is not made, or the pages cannot be found.
    """

    def __init__(self, cache: Path, start: Callable[[], Process], on_gpu: bool, allow_missing: tuple[Layer, ...] = ()):
        if "pages" not in allow_missing and platform.machine() != "x86_64":
            raise InfrastructureError(sandbox.explain_missing(["pages"]))
        self._start = start
        self._on_gpu = on_gpu
        self._lock = threading.Lock()
        self._needed: dict[Allowed, dict[str, list[int]]] = {"copies": {}, "views": {}}
        if on_gpu or "pages" in allow_missing:
            return
        with start() as process:
            files = {each.path for each in self._closable(process, interpreted=False)}
        self._path = cache / "pages" / f"{_digest(files)}.json"
        if self._path.exists():
            self._needed = json.loads(self._path.read_text())
            return
        for allowed in self._needed:
            self._add(allowed, self._find(allowed, []))

    def close(self, process: Process, allowed: Allowed, interpreted: bool) -> Closed:
        """Close the libraries of a process, and see that they are closed.

        Args:
            process: frozen, with its candidate loaded.
            allowed: what its candidate may have the library do.
            interpreted: it runs Triton's interpreter, which computes with NumPy.

        Raises:
            LibraryStaysOpen: they are not.
            ProcessFailure: the process did not answer.
        """
        mappings = self._closable(process, interpreted)
        with self._lock:
            needed = self._needed[allowed]
        process.ask({"do": "close", "ranges": ranges_to_close(mappings, needed)}, TIMEOUT_S)
        left = self._closable(process, interpreted)
        if still_open := ranges_to_close(left, needed):
            names = {os.path.basename(each.path) or "memory" for each in left for start, _ in still_open
                     if each.start <= start < each.end}  # fmt: skip
            raise LibraryStaysOpen(f"code of {', '.join(sorted(names))} could not be closed")
        return Closed(allowed, tuple(mappings))

    def _closable(self, process: Process, interpreted: bool) -> list[Mapping]:
        own = f"{process.modules.resolve()}/", f"{os.path.dirname(process.helper)}/"
        folders = (*open_folders(), *own, *(numpy_folders() if interpreted else ()))
        return [each for each in executable_mappings(process.pid) if closable(each, folders, self._on_gpu)]

    def learn(self, process: Process, closed: Closed) -> bool:
        """After a process has died on a closed page: learn what the operators need that it is known to have called.

        They are called again in a process of the executor's own, with other values; only those that are allowed.

        Returns:
            Whether the page that it died on is open from now on.
        """
        file, page = _locate(closed.mappings, process.note.fault())
        operators = [each for each in process.note.operators() if each["name"] in OPERATORS[closed.allowed]]
        if file is None or not operators:
            return False
        try:
            self._add(closed.allowed, self._find(closed.allowed, operators[:MAX_OPERATORS]))
        except ProcessFailure:
            return False
        with self._lock:
            return page in self._needed[closed.allowed].get(file, [])

    def explain(self, process: Process, closed: Closed) -> tuple[str, int | None] | None:
        """What a process has died of, and the line of the candidate; None: not of a closed page, as far as is known."""
        fault = process.note.fault()
        file, page = _locate(closed.mappings, fault)
        if file is None or fault is None:
            return None
        names = elf.functions(file)
        function = names and names.at(page * mmap.PAGESIZE + fault % mmap.PAGESIZE)
        operator = _ENTRY.match(function or "")
        what = f"aten::{operator[1]}" if operator else function or f"page {page}"
        line = _LINE.search(process.log_tail())
        return f"{what} of {os.path.basename(file)}", int(line[1]) if line else None

    def _find(self, allowed: Allowed, operators: list[dict[str, Any]]) -> dict[str, set[int]]:
        """By file, numbers of the pages that some operators need; without any, all that is allowed."""
        with self._start() as process:
            mappings = self._closable(process, interpreted=False)
            with self._lock:
                known = self._needed[allowed] if operators else {}
            question = {"do": "find_pages", "operators": operators, "copies": allowed == "copies"}
            reply, _ = process.ask(question | {"ranges": ranges_to_close(mappings, known)}, TIMEOUT_S)
        if "failed" in reply:
            raise InfrastructureError(f"the pages of the libraries were not found: {reply['message']}")
        found: dict[str, set[int]] = {} if operators else _entries(mappings, allowed)
        for address in reply["pages"]:
            file, page = _locate(mappings, address)
            assert file is not None
            found.setdefault(file, set()).add(page)
        return found

    def _add(self, allowed: Allowed, pages: dict[str, set[int]]) -> None:
        with self._lock:
            known = self._needed[allowed]
            added = {file: sorted(new | set(known.get(file, []))) for file, new in pages.items()}
            self._needed = {**self._needed, allowed: known | added}
            self._path.parent.mkdir(parents=True, exist_ok=True)
            handle, name = tempfile.mkstemp(dir=self._path.parent)
            with open(handle, "w") as file:
                json.dump(self._needed, file)
            os.replace(name, self._path)


def _entries(mappings: Iterable[Mapping], allowed: Allowed) -> dict[str, set[int]]:
    """By file, numbers of the pages with the functions through which native code calls allowed operators."""
    names = "|".join(name.removeprefix("aten::") for name in OPERATORS[allowed])
    pattern = re.compile(rf"at::_ops::({names})(_\w+)?::(call|redispatch)")
    files = {each.path for each in mappings if os.path.basename(each.path) == "libtorch_cpu.so"}
    return {file: found.pages_of(pattern) for file in files if (found := elf.functions(file))}


def _locate(mappings: Iterable[Mapping], address: int | None) -> tuple[str | None, int]:
    """File and number of the page at an address; no file: it is in none of these mappings."""
    for each in mappings:
        if address is not None and each.start <= address < each.end:
            return each.path, (each.offset + address - each.start) // mmap.PAGESIZE
    return None, 0


@cache
def open_folders() -> tuple[str, ...]:
    """Folders whose code stays open: Python's own extension modules, and tvm-ffi's loader."""
    standard_library = Path(sysconfig.get_path("stdlib")) / "lib-dynload"
    return str(standard_library.resolve()), f"{Path(tvm_ffi.__file__).resolve().parent}/"


@cache
def numpy_folders() -> tuple[str, ...]:
    """Folders of what Triton's interpreter computes with."""
    folder = Path(numpy.__file__).resolve().parent
    return f"{folder}/", f"{folder}.libs/", f"{Path(triton.__file__).resolve().parent}/"


def _digest(files: Iterable[str]) -> str:
    """Of what the needed pages depend on: the files, the processor for which torch chooses code, and what is tried."""
    tried = [(CONTEST / name).read_text() for name in ("closed_pages.py", "contestant.py")]
    parts = (
        sorted((file, elf.build_id(file)) for file in files),
        torch.backends.cpu.get_cpu_capability(),
        machine.native_target(),
        tried,
        _FORMAT,
    )
    return hashlib.sha256(repr(parts).encode()).hexdigest()[:32]
