"""A candidate's process has no time source: each way to one is closed by a mechanism, and fails when that is off.

Static rules are off, so that what is tested refuses by itself.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from candidate_files import EXPLOITS, from_file, header
from conftest import REFERENCE, RIGHT, Kept
from executor_cases import FAST, judge
from kernelrl.executor import Executor
from kernelrl.executor.processes.helpers import compiled_helper

ATTACKS = [path for path in EXPLOITS if path.stem.startswith("clock_")]
COUNTER = RIGHT.replace("int64_t n =", "if (__builtin_ia32_rdtsc() == 0) return;\n  int64_t n =")


@pytest.fixture(scope="module")
def executor(executor_cache: Path, kept_executor: Kept) -> Iterator[Executor]:
    with kept_executor({**FAST, "cache_dir": str(executor_cache), "static_rules": False}) as engine:
        yield engine


@pytest.fixture(scope="module")
def attacked(executor: Executor) -> dict[Path, Any]:
    return dict(zip(ATTACKS, executor.evaluate([from_file(path) for path in ATTACKS]), strict=True))


@pytest.mark.slow
@pytest.mark.parametrize("path", ATTACKS, ids=lambda path: path.stem)
def test_no_attack_finds_a_clock_without_static_rules(attacked: dict[Path, Any], path: Path) -> None:
    status, *rules = header(path)["without static rules"].split()
    verdict = attacked[path]
    assert verdict.status == status, verdict.feedback
    assert rules == [violation.rule for violation in verdict.violations]


def test_no_thread_learns_that_it_is_kept_on_one_core_as_when_it_is_timed(executor: Executor) -> None:
    headers = "#include <omp.h>\n#include <sys/syscall.h>\n#include <unistd.h>"
    looks = """
  cpu_set_t cores;
  CPU_ZERO(&cores);
  sched_getaffinity(0, sizeof cores, &cores);
  static const int before = CPU_COUNT(&cores);
  bool is_told = CPU_COUNT(&cores) != before || omp_get_num_procs() != omp_get_max_threads();
  is_told |= syscall(SYS_sched_getaffinity, 0, sizeof cores, &cores) > 0;
  int64_t n = is_told ? 1 : x.numel();"""
    verdict = judge(executor, RIGHT.replace('r"""', f'r"""\n{headers}').replace("int64_t n = x.numel();", looks))
    assert verdict.correct, verdict.feedback
    assert verdict.speedup is not None


def test_the_clock_that_a_process_died_of_is_named_with_the_line(executor: Executor) -> None:
    verdict = judge(executor, COUNTER)
    [violation] = verdict.violations
    assert (violation.rule, violation.evidence) == ("clock", "reached for the processor's time-stamp counter")
    assert violation.line == COUNTER.splitlines().index("        mod.kernel(x, out)") + 1


def test_candidates_of_every_dialect_have_none_and_python_sees_one_that_stands_still(executor: Executor) -> None:
    source = """\
import time
import torch
from torch import nn

class ModelNew(nn.Module):
    def forward(self, x):
        assert time.perf_counter() == time.time() == 0.0
        return torch.relu(x) * 2.0
"""
    verdict = judge(executor, source, dialect="python")
    assert verdict.correct and "clock" in verdict.layers, verdict.feedback
    slept = judge(executor, source.replace("assert", "time.sleep(0.001)\n        assert"), dialect="python")
    assert slept.violations[0].evidence == "reached for system call clock_nanosleep"


def reading_a_clock(statement: str) -> str:
    """A reference that does so in each call."""
    call = "    def forward(self, x):\n"
    return REFERENCE.replace("import torch\n", "import time\nimport torch\n", 1).replace(
        call, f"{call}        {statement}\n"
    )


@pytest.mark.slow
def test_the_reference_is_timed_without_a_clock_too(executor: Executor) -> None:
    """What a closed clock costs, both sides pay. Where this reference sees the time go by, no call takes less than
    100 ms; where it does not, a fraction of one, and half of the calls would have to be interrupted for so long."""
    verdict = judge(executor, RIGHT, reading_a_clock("time.perf_counter() and time.sleep(0.1)"))
    assert verdict.correct and verdict.reference_ms is not None, verdict.feedback
    assert verdict.reference_ms < 100


def test_a_reference_that_needs_a_clock_is_timed_where_it_has_one(executor: Executor) -> None:
    verdict = judge(executor, RIGHT, reading_a_clock("assert time.perf_counter() > 0"))
    assert verdict.correct and verdict.speedup is not None, verdict.feedback


PROBES = """
import ctypes, mmap, os, sys, time
from pathlib import Path
from kernelrl.executor.confinement import namespaces, sandbox
{switch}
folder = Path(sys.argv[1])
os.dup2(os.open(folder / "log", os.O_RDWR | os.O_CREAT), 1)
libc, kernel = ctypes.CDLL("libc.so.6"), ctypes.CDLL(None, use_errno=True).syscall
moment = (ctypes.c_long * 2)()
code = mmap.mmap(-1, 4096, prot=7)
code.write(bytes.fromhex("0f31 48c1e220 4809d0 c3"))
counter = ctypes.CFUNCTYPE(ctypes.c_uint64)(ctypes.addressof(ctypes.c_char.from_buffer(code)))
deadline = (ctypes.c_long * 2)(0, 1000)
word = ctypes.c_int(0)
thousand = ctypes.c_long(1000)
file = mmap.mmap(os.open(sys.executable, os.O_RDONLY), 4096, flags=mmap.MAP_PRIVATE, prot=3)
shown = ctypes.c_void_p(ctypes.addressof(ctypes.c_char.from_buffer(file)))

PROBES = {
    "read the counter": counter,
    "ask the vDSO": lambda: libc.clock_gettime(1, moment) == 0 and moment[0],
    "ask the vDSO coarsely": lambda: libc.clock_gettime(6, moment) == 0 and moment[0],
    "ask the kernel": lambda: kernel(228, 1, moment) == 0,
    "sleep": lambda: kernel(35, deadline, 0) == 0,
    "wait with a timeout": lambda: ctypes.get_errno() == 110 if kernel(202, ctypes.byref(word), 0, 0, deadline) else 1,
    "allow the counter again": lambda: libc.prctl(26, 1, 0, 0, 0) == 0,
    "write to a file": lambda: Path("scratch/written").write_text("x"),
    "see an entry of /proc": lambda: os.stat("/proc/self/stat"),
    "see files of others": lambda: os.stat(folder / "log"),
    "see when its log was written": lambda: os.fstat(1),
    "have a pipe": os.pipe,
    # it would go on from here on its parent's stack, while that waits
    "have a thread that no signal stops": lambda: kernel(56, 0x54F00, 0, 0, 0, 0) >= 0,
    "ask which pages of a file are in memory": lambda: kernel(27, shown, 4096, ctypes.create_string_buffer(1)) == 0,
    "send a page of a file out of memory": lambda: kernel(28, shown, 4096, 21) == 0,
    "move a page of a file": lambda: kernel(237, shown, 4096, 0, 0, 0, 2) == 0,
    "ask who waits for a library's word": lambda: kernel(202, ctypes.cast(libc.getpid, ctypes.c_void_p), 1, 1) >= 0,
    "read a clock of Python": lambda: time.perf_counter(),
}
for name, probe in PROBES.items():
    pid = os.fork()
    if pid == 0:
        status = 1
        try:
            namespaces.leave_network()
            scratch = folder / name.replace("/", "")
            (scratch / "modules").mkdir(parents=True)
            (scratch / "scratch").mkdir()
            limits = sandbox.Limits(1 << 30, 1 << 20)
            modules = scratch / "modules"
            layers = sandbox.confine(scratch / "scratch", limits, (str(modules),), modules=modules)
            os.write(2, f"layers {' '.join(layers)}\\n".encode())
            os.chdir("..")
            if probe():
                os.write(2, f"could {name}\\n".encode())
        finally:
            os._exit(0)
    os.waitpid(pid, 0)
"""


def probed(tmp_path: Path, switch: str = "") -> tuple[set[str], set[str]]:
    """Layers that hold in processes confined like a candidate's, and what could be done there."""
    command = [sys.executable, "-c", PROBES.replace("{switch}", switch), str(tmp_path)]
    still_clock = str(compiled_helper(tmp_path, "still_clock"))
    done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, "LD_PRELOAD": still_clock})
    lines = [line.partition(" ") for line in done.stderr.splitlines()]
    layers = {text for kind, _, text in lines if kind == "layers"}
    assert len(layers) == 1, done.stderr
    return set(layers.pop().split()), {text for kind, _, text in lines if kind == "could"}


def test_a_candidates_process_can_read_no_clock(tmp_path: Path) -> None:
    assert probed(tmp_path) == ({"namespaces", "noexec", "landlock", "seccomp", "clock"}, set())


@pytest.mark.parametrize(
    ("switch", "possible"),
    [
        ("sandbox._PR_TSC_SIGSEGV = 1", {"read the counter"}),
        ("sandbox.clock_pages = lambda: (0, 0)", {"ask the vDSO coarsely"}),
        (
            "sandbox.filter_candidate = lambda sealed, timeless: sandbox.filter_other(may_exec=False)",
            {
                "ask the kernel",
                "sleep",
                "wait with a timeout",
                "allow the counter again",
                "see when its log was written",
                "have a pipe",
                "have a thread that no signal stops",
                "ask which pages of a file are in memory",
                "send a page of a file out of memory",
                "ask who waits for a library's word",
            },
        ),
        ("sandbox.show_only = lambda *arguments: True", {"see an entry of /proc", "see files of others"}),
        ("sandbox.close_clocks = lambda: True", {"read the counter", "ask the vDSO", "read a clock of Python"}),
    ],
    ids=["counter", "vDSO", "system calls", "files", "clocks"],
)
def test_each_mechanism_is_what_forbids(tmp_path: Path, switch: str, possible: set[str]) -> None:
    assert possible <= probed(tmp_path, switch)[1]


def test_a_machine_without_the_processors_switch_lacks_the_layer(tmp_path: Path) -> None:
    layers, could = probed(tmp_path, "sandbox._PR_SET_TSC = 9999")
    assert "clock" not in layers and "read a clock of Python" in could
