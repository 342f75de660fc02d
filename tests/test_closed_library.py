"""In a process that runs a candidate the libraries cannot compute, and nothing can make memory executable.

Static rules are off, so that what is tested refuses by itself; each layer has a test that switches it off.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from candidate_files import EXPLOITS, from_file
from conftest import RIGHT, Kept, copied_cache
from executor_cases import FAST, judge
from kernelrl.errors import InfrastructureError
from kernelrl.executor import Executor, make_executor
from kernelrl.executor.api import ExecutorSettings
from kernelrl.executor.contest.closed_pages import allowed_among
from kernelrl.executor.engines import service
from kernelrl.executor.legality.operators import only_moves
from kernelrl.executor.processes import elf
from kernelrl.executor.processes.closed_library import Mapping, OpenCode, closable
from kernelrl.executor.processes.note import Note

LIBRARY = Path(torch.__file__).parent / "lib" / "libtorch_cpu.so"
ATTACKS = [
    path
    for path in EXPLOITS
    if path.stem.startswith(("world_code_", "world_library_", "no_kernel_pages_", "no_kernel_neighbour_"))
]
ATTACKS += [
    path
    for path in EXPLOITS
    if path.stem.startswith(("no_kernel_copies_", "no_kernel_moves_", "world_writes_own_memory"))
]
ATTACKS += [path for path in EXPLOITS if path.stem in ("no_kernel_converts", "no_kernel_blas_by_ctypes",
                                                       "no_kernel_numpys_blas_by_ctypes", "no_kernel_thread_in_library",
                                                       "no_kernel_numpys_operators", "no_kernel_traced_while_loading",
                                                       "no_kernel_emulated_code", "world_remounts")]  # fmt: skip
TAUGHT = "moves_in_inference_mode", "moves_after_a_fill", "copies_by_reshape", "copies_into_empty"
"""Exploits, of which the first two die of what copies need."""
HIDDEN = """\
import torch
from torch import nn

class ModelNew(nn.Module):
    def forward(self, x):
        with torch._C._DisableTorchDispatch():
            return torch.relu(x) * 2.0
"""
"""Computes with the library, which the record of operators does not see."""


@pytest.fixture(scope="module")
def executor(executor_cache: Path, kept_executor: Kept) -> Iterator[Executor]:
    with kept_executor({**FAST, "cache_dir": str(executor_cache), "static_rules": False}) as engine:
        yield engine


@pytest.fixture(scope="module")
def attacked(executor: Executor) -> dict[Path, Any]:
    return dict(zip(ATTACKS, executor.evaluate([from_file(path) for path in ATTACKS]), strict=True))


@pytest.mark.slow
@pytest.mark.parametrize("path", ATTACKS, ids=lambda path: path.stem)
def test_no_attack_succeeds_without_static_rules(attacked: dict[Path, Any], path: Path) -> None:
    assert attacked[path].status in ("illegal", "runtime_error", "killed"), attacked[path].feedback


def test_what_a_process_died_of_is_named(executor: Executor) -> None:
    verdict = judge(executor, HIDDEN)
    [violation] = verdict.violations
    assert (violation.rule, violation.line) == ("library_operator", 7)
    assert violation.evidence == "aten::relu of libtorch_cpu.so"
    assert verdict.layers == ("namespaces", "noexec", "landlock", "seccomp", "clock", "pages")


@pytest.mark.slow
def test_open_pages_are_what_makes_the_difference(executor_cache: Path) -> None:
    settings = {**FAST, "cache_dir": str(executor_cache), "static_rules": False, "allow_missing": ["pages"]}
    with make_executor(settings) as engine:
        verdict = judge(engine, HIDDEN)
    assert verdict.correct and "pages" not in verdict.layers


class KnownFunctions:
    """Copies of the lists of functions that stay open, in another cache.

    Another installation, as of the wheel, has a list of its own in the cache that tests share: all are to say the same.
    """

    def __init__(self, executor: Executor, executor_cache: Path, cache: Path):
        assert judge(executor, RIGHT).correct
        lists = (copied_cache(executor_cache, cache) / "pages").glob("*.json")
        self._lists = [path for path in lists if str(LIBRARY) in path.read_text()]
        self._first = json.loads(self._lists[0].read_text())

    def of(self, allowed: str) -> list[list[int]]:
        """Those of PyTorch that stay open where that is allowed."""
        found = (json.loads(path.read_text())[allowed][str(LIBRARY)] for path in self._lists)
        return [list(span) for span in sorted({tuple(span) for each in found for span in each})]

    def write(self, allowed: str, functions: list[list[int]]) -> None:
        """From now on these stay open."""
        self._first[allowed][str(LIBRARY)] = functions
        for path in self._lists:
            path.write_text(json.dumps(self._first))


@pytest.mark.slow
def test_closed_functions_beside_open_ones_make_the_difference(
    executor: Executor, executor_cache: Path, tmp_path: Path
) -> None:
    """With all functions open that share a page with a needed one, attacks by them are correct kernels."""
    known = KnownFunctions(executor, executor_cache, tmp_path)
    code, functions = elf.code(str(LIBRARY)), elf.functions(str(LIBRARY))
    assert code is not None and functions is not None
    pages = {end // 4096 for _, end in known.of("copies")}
    pages |= {place // 4096 for place in functions.places_of(re.compile(r"fbgemm::Float16ToFloat_ref"))}
    neighbours = [[start, end] for start, end in code.spans.tolist() if start // 4096 in pages or end // 4096 in pages]
    assert len(neighbours) > 5 * len(known.of("copies"))
    known.write("copies", neighbours)
    attack = next(path for path in EXPLOITS if path.stem == "no_kernel_neighbour_transposes")
    with make_executor({**FAST, "cache_dir": str(tmp_path)}) as engine:
        [verdict] = engine.evaluate([from_file(attack)])
    assert verdict.correct, verdict.feedback


@pytest.mark.slow
def test_a_function_that_an_allowed_operator_needs_is_learnt(
    executor: Executor, executor_cache: Path, tmp_path: Path
) -> None:
    """Forgotten is the last third of what copies need and views do not: the loops, behind the operators' own code."""
    known = KnownFunctions(executor, executor_cache, tmp_path)
    copying = RIGHT.replace(
        "x):\n        out",
        "x):\n        x.view(torch.uint8).int()\n        out",
    )
    of_views = known.of("views")
    of_copies = [span for span in known.of("copies") if span not in of_views]
    forgotten = of_copies[2 * len(of_copies) // 3 :]
    known.write("copies", [span for span in known.of("copies") if span not in forgotten])
    with make_executor({**FAST, "cache_dir": str(tmp_path)}) as engine:
        verdict = judge(engine, copying)
    assert verdict.correct, verdict.feedback
    learnt = [span for span in known.of("copies") if span in forgotten]
    assert len(forgotten) > 50 and 0 < len(learnt) < len(forgotten)


CONFINE = """
import ctypes, mmap, os, sys
from pathlib import Path
from kernelrl.executor.confinement import files, namespaces, sandbox
namespaces.leave_network()
scratch, modules, readable = map(Path, sys.argv[1:])
code = b"\\xb8\\x2a\\x00\\x00\\x00\\xc3".ljust(4096, b"\\0")
(readable / "code").write_bytes(code)
{switch}
print(*sandbox.confine(scratch, sandbox.Limits(1 << 30, 1 << 20), (str(modules), str(readable)), modules=modules))
def attempt(name, action):
    try:
        action()
    except OSError:
        return
    print("could", name)
def library():
    if ctypes.CDLL(None).mprotect(ctypes.c_void_p(ctypes.addressof(buffer)), 4096, 5):
        raise OSError
anonymous = mmap.mmap(-1, 4096)
buffer = ctypes.c_char.from_buffer(anonymous)
def mapped(path):
    mmap.mmap(os.open(path, os.O_RDONLY), 4096, flags=mmap.MAP_PRIVATE, prot=5)
attempt("map a file", lambda: mapped(readable / "code"))
attempt("map a library", lambda: mapped("/bin/sh"))
attempt("map a module", lambda: mapped(modules / "module"))
attempt("write a module", lambda: (modules / "module").write_bytes(code))
attempt("have executable memory", lambda: mmap.mmap(-1, 4096, prot=7))
attempt("make memory executable", library)
"""


def confined(tmp_path: Path, switch: str = "") -> tuple[set[str], set[str]]:
    """Layers that hold, and what could be done, in a process confined like a candidate's."""
    folders = [tmp_path / name for name in ("scratch", "modules", "readable")]
    for folder in folders:
        folder.mkdir()
    (tmp_path / "modules" / "module").write_bytes(bytes(4096))
    command = [sys.executable, "-c", CONFINE.replace("{switch}", switch), *map(str, folders)]
    lines = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
    return set(lines[0].split()), {line.removeprefix("could ") for line in lines[1:]}


def test_a_confined_process_can_execute_its_modules_and_nothing_new(tmp_path: Path) -> None:
    assert confined(tmp_path) == ({"namespaces", "noexec", "landlock", "seccomp"}, {"map a module"})


@pytest.mark.parametrize(
    ("switch", "layer", "possible"),
    [
        (
            "sandbox.show_only = lambda *arguments: False",
            "noexec",
            {"map a file", "map a library"},
        ),
        (
            "sandbox.filter_candidate = lambda sealed, timeless: False",
            "seccomp",
            {"have executable memory", "make memory executable"},
        ),
    ],
)
def test_each_layer_is_what_forbids(tmp_path: Path, switch: str, layer: str, possible: set[str]) -> None:
    layers, could = confined(tmp_path, switch)
    assert layer not in layers and possible <= could


def test_device_files_do_not_switch_landlock_off(tmp_path: Path) -> None:
    """The kernel refuses a rule that gives a file the rights of a folder."""
    switch = "sandbox.show_only = lambda *arguments: True\n"
    switch += "sandbox.restrict_files = (lambda restrict: lambda readable, writable, may_exec, cuda: "
    switch += "restrict(readable, writable, may_exec, True))(sandbox.restrict_files)\n"
    layers, _ = confined(tmp_path, switch + 'files.cuda_devices = lambda: ["/dev/null", "/dev/zero", "/dev"]')
    assert "landlock" in layers


def test_a_missing_layer_is_an_error_unless_it_is_allowed_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    process = SimpleNamespace(layers=["namespaces", "noexec", "seccomp", "clock"], close=lambda: None)
    monkeypatch.setattr(service, "Process", lambda *arguments, trusted: process)
    judges = object.__new__(service.Service)
    judges.__dict__ |= {"on_gpu": False, "threads": 1, "helper": "", "forkserver": None, "scratch": None}
    judges.cores = service.Cores(1, False)
    judges.settings = ExecutorSettings()
    with pytest.raises(InfrastructureError, match=r"landlock.*allow_missing=\[landlock\]"):
        judges._fork()
    judges.settings = ExecutorSettings(allow_missing=("landlock",))
    assert judges._fork() is process


def test_what_is_mapped_over_a_library_holds_the_needed_functions_and_traps(tmp_path: Path) -> None:
    library = str(LIBRARY)
    code = elf.code(library)
    assert code is not None
    held = np.memmap(library, dtype=np.uint8, mode="r")
    middle = len(code.spans) // 2
    needed = code.spans[[middle, middle + 2, middle + 100_000]].tolist()
    written = OpenCode.write(tmp_path, {library: needed})
    content = np.fromfile(written.path, dtype=np.uint8)
    near, far = written.parts[library]
    for start, end, at in (near, far):
        open_bytes = np.zeros(end - start, bool)
        for low, high in needed:
            if start <= low < end:
                open_bytes[low - start : high - start] = True
        part = content[at : at + end - start]
        assert (part == np.where(open_bytes, held[start:end], 0xCC)).all()
    shown = [Mapping(0x10000000, 0x10000000 + near[1], 0, library), Mapping(0, 4096, 0, "another")]
    assert written.placed(shown) == [[0x10000000 + near[0], near[1] - near[0], near[2]]]
    from_within = [Mapping(0x5000, 0x6000, near[1] - 4096, library)]
    assert written.placed(from_within) == [[0x5000, 4096, near[2] + near[1] - near[0] - 4096]]


def test_code_is_divided_into_functions_whether_they_are_exported_or_not() -> None:
    code, functions = elf.code(str(LIBRARY)), elf.functions(str(LIBRARY))
    assert code is not None and functions is not None
    starts, ends = code.spans.T
    assert (starts[1:] >= ends[:-1]).all() and (ends > starts).all()
    assert (ends - starts).sum() == sum(end - start for start, end in code.sections), "all code is in some function"
    name = "at::_ops::relu::call"
    [place] = functions.places_of(re.compile(name))
    span = code.at(place)
    assert span is not None and span[0] == place
    assert functions.at(span[1] - 1) == name != functions.at(span[1])
    assert len(code.spans) > 300_000 and code.at(0) is None


@pytest.mark.slow
def test_no_candidate_teaches_that_copies_are_needed_where_they_are_the_work(
    executor: Executor, executor_cache: Path, tmp_path: Path
) -> None:
    """In inference mode `reshape` is an operator of its own, and what it needs where it copies is needed to copy."""
    known = KnownFunctions(executor, executor_cache, tmp_path)
    before = known.of("views")
    paths = [next(path for path in EXPLOITS if path.stem == f"no_kernel_{name}") for name in TAUGHT]
    with make_executor({**FAST, "cache_dir": str(tmp_path), "timing": False}) as engine:
        verdicts = [engine.evaluate([from_file(path)])[0] for path in paths]
    assert {verdict.status for verdict in verdicts} == {"illegal"}
    assert known.of("views") == before


def test_unknown_libraries_are_closed() -> None:
    for name in ("libc.so.6", "libgomp-a34b3233.so.1", "libstdc++.so.6.0.30", "libpython3.11.so.1.0", "python3.11"):
        assert not closable(Mapping(0, 1, 0, f"/usr/lib/{name}"), ("/own/",), on_gpu=False), name
    for name in ("libtorch_cpu.so", "libmkl_rt.so.2", "libopenblas64_-abc.so", "libcblas.so.3", "libmagic.so", ""):
        assert closable(Mapping(0, 1, 0, f"/usr/lib/{name}"), ("/own/",), on_gpu=False), name
    package = "/usr/lib/python3.12/site-packages"
    of_cuda = "libcudnn_engines_precompiled.so.9", "libnvrtc-builtins.so.13.0", "libcublasLt.so.12", "libtorch_cuda.so"
    for path in (*(f"/usr/lib/{name}" for name in of_cuda), f"{package}/scipy/_matrices.so"):
        assert closable(Mapping(0, 1, 0, path), (), on_gpu=True), path
    for name in ("libcuda.so.1", "libcudart.so.13", "libcudart-93f5a6e2.so.12", "libcupti.so.13", "libc10_cuda.so"):
        assert not closable(Mapping(0, 1, 0, f"{package}/nvidia/{name}"), (), on_gpu=True), name
    for path in ("/usr/lib/libcrypto.so.3", f"{package}/torch/_C.cpython-312-x86_64-linux-gnu.so"):
        assert not closable(Mapping(0, 1, 0, path), (), on_gpu=True), path
    assert not closable(Mapping(0, 1, 0, "/own/module.so"), ("/own/",), on_gpu=False)


def test_functions_of_a_library_are_found_by_their_place() -> None:
    functions = elf.functions(str(LIBRARY))
    assert functions is not None
    listed = subprocess.run(["readelf", "-n", str(LIBRARY)], capture_output=True, text=True).stdout
    assert f"Build ID: {elf.build_id(str(LIBRARY))}" in listed
    assert elf.readable("_ZN2at4_ops4relu4callERKNS_6TensorE") == "at::_ops::relu::call"
    assert elf.readable("sgemm_") == "sgemm_" and functions.at(0) is None


def test_a_note_outlives_what_is_written_to_it() -> None:
    note = Note()
    written = Note(note.fd)
    written.begin({"name": "aten::view", "args": []})
    written.begin({"name": "aten::mm", "args": ["x" * 100_000]})
    written._memory[20:21] = b"\xff"
    assert note.operators() == [] and note.fault() is None
    written.clear()
    written.begin({"name": "aten::view", "args": []})
    assert note.operators() == [{"name": "aten::view", "args": []}]


def test_a_note_that_nobody_could_send_on_says_nothing() -> None:
    note = Note()
    deep: list[Any] = []
    for _ in range(500):
        deep = [deep]
    tensor = {"tensor": ["torch.float32", [3, 4], [4, 1], "cpu"]}
    note.begin({"name": "aten::clone", "args": [deep]})
    note.begin({"name": "aten::cat", "args": [[tensor, tensor], 1]})
    assert [each["name"] for each in note.operators()] == ["aten::cat"]


def test_tasks_that_only_move_data_are_known_by_their_operators() -> None:
    assert only_moves({"aten::cat", "aten::_to_copy", "aten::expand", "aten::permute_copy", "aten::index_copy_"})
    assert not only_moves({"aten::cat", "aten::add"})


REPLAY = """
import json, sys
import torch
from kernelrl.executor.contest.closed_pages import replay
from kernelrl.executor.contest.operator_mode import OperatorMode

made = set()

class Seen(OperatorMode):
    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        result = func(*args, **(kwargs or {}))
        given = [each.dtype for each in args if isinstance(each, torch.Tensor)]
        made.update(f"{each} to {result.dtype}" for each in given if each != result.dtype)
        return result

with torch.no_grad(), Seen():
    replay(json.loads(sys.argv[1]), frozenset({torch.float32}))
print(*sorted(made))
"""


def test_no_way_to_record_a_conversion_has_it_replayed() -> None:
    """Whoever forges a record writes arguments by name, in any order, and tensors in place of others."""

    def tensor(dtype: str) -> dict[str, Any]:
        return {"tensor": [dtype, [4], [1], "cpu"]}

    def number(dtype: str) -> dict[str, Any]:
        return {"tensor": [dtype, [], [], "cpu"]}

    def operator(name: str, args: list[Any], kwargs: dict[str, Any], overload: str = "default") -> dict[str, Any]:
        return {"name": name, "overload": overload, "args": args, "kwargs": kwargs}

    to_bool = {"named": "torch.bool"}
    forged = [
        operator("aten::_to_copy", [tensor("torch.float32")], {"dtype": to_bool}),
        operator("aten::_to_copy", [], {"dtype": to_bool, "self": tensor("torch.float32")}),
        operator(
            "aten::_to_copy",
            [],
            {"non_blocking": tensor("torch.uint8"), "dtype": to_bool, "self": tensor("torch.float32")},
        ),
        operator("aten::copy_", [tensor("torch.int32"), tensor("torch.float32")], {}),
        operator("aten::copy_", [tensor("torch.int32")], {"src": tensor("torch.float32")}),
        operator("aten::to", [tensor("torch.float32"), tensor("torch.int32")], {}, "other"),
        operator("aten::_to_copy", [tensor("torch.float32")], {"out": tensor("torch.int32")}, "out"),
        operator("aten::type_as", [tensor("torch.float32"), tensor("torch.bool")], {}),
    ]
    forged += [
        operator("aten::flatten", [{"tensor": ["torch.int32", [4, 4], [1, 4], "cpu"]}], {}, "__eq__"),
        operator("aten::_to_copy", ["default", 0], {}, "__setattr__"),
        operator("aten::view", ["_qualified_op_name", "aten::add"], {}, "__setattr__"),
        operator("aten::view", [tensor("torch.int32"), tensor("torch.float32")], {}, "Tensor"),
        operator("aten::fill_", [number("torch.float64"), number("torch.int32")], {}, "Tensor"),
        operator("aten::fill_", [number("torch.float64")], {"value": number("torch.int32")}, "Tensor"),
    ]
    plain = [operator("aten::_to_copy", [tensor("torch.uint8")], {"dtype": {"named": "torch.float32"}})]
    for operators, expected in ((forged, ""), (plain, "torch.uint8 to torch.float32")):
        command = [sys.executable, "-c", REPLAY, json.dumps(operators)]
        finished = subprocess.run(command, capture_output=True, text=True)
        assert finished.stdout.strip() == expected, finished.stderr


def test_a_call_that_fails_teaches_nothing() -> None:
    """The text of its error may show a tensor, for which PyTorch computes where nobody looks."""
    tensor = {"tensor": ["torch.float32", [25, 40], [40, 1], "cpu"]}
    fails = {"name": "aten::view", "overload": "default", "args": [tensor, tensor], "kwargs": {}}
    serves = {"name": "aten::view", "overload": "default", "args": [tensor, [1000]], "kwargs": {}}
    assert allowed_among([fails, serves], None) == [serves]
