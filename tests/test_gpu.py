"""What a GPU's driver needs of the confinement, and the share of the work there: as far as no GPU is needed to see it.

`make gpu-check` tries the rest where there is one.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from kernelrl.executor import ExecutorSettings
from kernelrl.executor.judging.findings import Findings
from kernelrl.executor.judging.trials import judge_operators
from kernelrl.executor.legality.operators import launch_nothing
from kernelrl.executor.processes.warming import forkserver_environment

DRIVER = """
import socket, sys, threading
from pathlib import Path
from kernelrl.executor.confinement import namespaces, sandbox, system_calls
{switch}
namespaces.leave_network()
begin = threading.Event()

def attempt(name, action):
    try:
        action()
    except OSError:
        return
    print("could", name)

def begins_and_waits():
    begin.wait()
    attempt("open a socket in a thread of the driver's", listen)
    attempt("name a thread", lambda: Path(f"/proc/self/task/{threading.get_native_id()}/comm").write_text("driver"))

def listen():
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as own:
        own.bind(b"\\0of the driver " + str(threading.get_native_id()).encode())
        own.listen()

thread = threading.Thread(target=begins_and_waits)

def open_device():
    attempt("open a socket before", listen)
    thread.start()

scratch = Path(sys.argv[1])
limits = sandbox.Limits(1 << 40, 1 << 20)
layers = sandbox.confine(scratch, limits, cuda=True, open_device=open_device)
print("layers", *layers)
attempt("open a socket", listen)
attempt("write beside its threads' files", lambda: Path("/proc/self/oom_score_adj").write_text("1000"))
begin.set()
thread.join()
"""
"""What a driver does where its process is confined, and what is done there later."""


def done(tmp_path: Path, switch: str = "") -> set[str]:
    command = [sys.executable, "-c", DRIVER.replace("{switch}", switch), str(tmp_path)]
    finished = subprocess.run(command, capture_output=True, text=True)
    lines = finished.stdout.splitlines()
    assert "layers namespaces landlock seccomp" in lines, finished.stderr
    return {line.removeprefix("could ") for line in lines if line.startswith("could ")}


def test_a_driver_starts_within_the_confinement_and_its_threads_are_filtered_too(tmp_path: Path) -> None:
    assert done(tmp_path) == {"open a socket before", "name a thread"}


def test_without_the_filter_for_all_threads_a_driver_s_could_be_used(tmp_path: Path) -> None:
    switch = "system_calls.seccomp.SyscallFilter.set_attr = lambda *_: None"
    assert done(tmp_path, switch) == {
        "open a socket before",
        "name a thread",
        "open a socket in a thread of the driver's",
    }


SEALED = """
import ctypes, mmap, os, sys
from pathlib import Path
from kernelrl.executor.confinement import namespaces, sandbox
{switch}
namespaces.leave_network()
scratch, modules = map(Path, sys.argv[1:])
code = b"\\xc3".ljust(4096, b"\\0")
(modules / "module").write_bytes(code)

def attempt(name, action):
    try:
        action()
    except OSError:
        return
    print("could", name)

def write_own_memory():
    with open("/proc/thread-self/mem", "rb+", buffering=0) as memory:
        memory.seek(ctypes.addressof(writable))
        memory.write(b"x")

def make_executable():
    if ctypes.CDLL(None).mprotect(ctypes.c_void_p(ctypes.addressof(writable)), 4096, 5):
        raise OSError

def execute(path):
    mmap.mmap(os.open(path, os.O_RDONLY), 4096, flags=mmap.MAP_PRIVATE, prot=5)

def copied():
    (scratch / "code").write_bytes(code)
    execute(scratch / "code")

anonymous = mmap.mmap(-1, 4096)
writable = ctypes.c_char.from_buffer(anonymous)
limits = sandbox.Limits(1 << 40, 1 << 20)
driver = lambda: attempt("write its own memory before", write_own_memory)
layers = sandbox.confine(scratch, limits, (str(modules),), cuda=True, open_device=driver, modules=modules)
print("layers", *layers)
attempt("write its own memory", write_own_memory)
attempt("map a module", lambda: execute(modules / "module"))
attempt("map a library", lambda: execute("/bin/sh"))
attempt("map what it has written", copied)
attempt("have executable memory", lambda: mmap.mmap(-1, 4096, prot=7))
attempt("make memory executable", make_executable)
"""
"""What the process of a CUDA kernel can do."""


@pytest.mark.parametrize(
    ("switch", "lost", "possible"),
    [
        ("", set(), set()),
        ("sandbox.execute_only = lambda paths: False", {"noexec"}, {"map a library", "map what it has written"}),
        ("sandbox.restrict_writing = lambda folder: False", {"landlock"}, {"write its own memory"}),
        (
            "sandbox.filter_other = lambda may_exec, sealed: False",
            {"seccomp"},
            {"have executable memory", "make memory executable"},
        ),
    ],
)
def test_each_layer_is_what_forbids_a_cuda_kernel(
    tmp_path: Path, switch: str, lost: set[str], possible: set[str]
) -> None:
    folders = [tmp_path / name for name in ("scratch", "modules")]
    for folder in folders:
        folder.mkdir()
    command = [sys.executable, "-c", SEALED.replace("{switch}", switch), *map(str, folders)]
    finished = subprocess.run(command, capture_output=True, text=True)
    lines = finished.stdout.splitlines()
    layers = next((set(line.split()[1:]) for line in lines if line.startswith("layers")), set())
    assert layers == {"namespaces", "noexec", "landlock", "seccomp"} - lost, finished.stderr
    could = {line.removeprefix("could ") for line in lines if line.startswith("could ")}
    assert could == {"write its own memory before", "map a module"} | possible


def test_drivers_and_compilers_are_found_by_the_variables_that_name_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LD_LIBRARY_PATH", "/somewhere/lib64")
    monkeypatch.setenv("CUDA_HOME", "/somewhere/cuda")
    monkeypatch.setenv("SECRET", "key")
    environment = forkserver_environment(ExecutorSettings(device="cuda"))
    assert (environment["LD_LIBRARY_PATH"], environment["CUDA_HOME"]) == ("/somewhere/lib64", "/somewhere/cuda")
    assert "SECRET" not in environment and "TRITON_INTERPRET" not in environment


@pytest.mark.parametrize(
    ("operators", "nothing"),
    [
        ({"aten::empty_like", "aten::view", "aten::transpose"}, True),
        (set(), True),
        ({"aten::empty", "aten::zeros"}, False),
        ({"aten::empty", "aten::copy_"}, False),
        ({"aten::_local_scalar_dense"}, False),
    ],
)
def test_operators_that_start_no_kernel_leave_all_of_the_work_to_the_candidate(
    operators: set[str], nothing: bool
) -> None:
    assert launch_nothing(operators) == nothing


@pytest.mark.parametrize(
    ("device", "answers", "coverage"),
    [
        ("cuda", [({"aten::empty": 1}, None)] * 2, 1.0),
        ("cuda", [({"aten::empty": 1}, None), ({"aten::zeros": 1}, None)], None),
        ("cuda", [({"aten::zeros": 1}, None), ({"aten::zeros": 1}, 0.25), ({"aten::zeros": 1}, None)], 0.75),
        ("cpu", [({"aten::empty": 1}, 0.0)], None),
    ],
)
def test_the_share_of_the_work_is_that_of_all_checked_calls_and_nobodys_claim_on_a_cpu(
    device: str, answers: list[tuple[dict[str, int], float | None]], coverage: float | None
) -> None:
    match = SimpleNamespace(must_do_the_work=True)
    own = SimpleNamespace(found=Findings(), settings=ExecutorSettings.model_validate({"device": device}), match=match)
    for operators, share in answers:
        judge_operators(own, {"operators": operators, "library_share": share})  # type: ignore[arg-type]
    assert own.found.coverage == coverage


HANDED_OVER = """
import mmap, os
from kernelrl.executor.contest.descriptors import close_all_of
fd, other = os.memfd_create("inputs"), os.memfd_create("a driver's")
os.ftruncate(fd, 4096)
memory, file = mmap.mmap(fd, 4096), os.fstat(fd)
os.close(fd)
close_all_of(file)
left = [path for number in range(64) if os.path.lexists(path := f"/proc/self/fd/{number}")]
print(*(name for path in left if "memfd" in (name := os.readlink(path))), sep=";")
memory[0] = 1
"""


def test_no_descriptor_is_left_of_memory_that_is_handed_over() -> None:
    finished = subprocess.run([sys.executable, "-c", HANDED_OVER], capture_output=True, text=True)
    assert finished.stdout == "/memfd:a driver's (deleted)\n", finished.stderr
