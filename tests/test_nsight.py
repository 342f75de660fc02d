"""Nsight Compute: its command line, its words, and the confined run of a stand-in for it, because there is no GPU."""

from __future__ import annotations

import _queue
import os
import socket
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from conftest import REFERENCE
from executor_cases import request
from kernelrl.executor import ExecutorSettings, Request
from kernelrl.executor.engines import service
from kernelrl.executor.judging import nsight
from kernelrl.executor.judging.nsight import METRICS, STALLS, Profile, Profiler, command, parse
from kernelrl.executor.judging.retest import Retest
from kernelrl.executor.processes.cores import Cores
from kernelrl.executor.processes.forking import ForkServer
from kernelrl.executor.processes.warming import start_forkserver
from kernelrl.verdict import GpuCounters, Speedup, Verdict

HEADER = (
    '"ID","Process ID","Process Name","Host Name","Kernel Name","Context","Stream","Block Size","Grid Size","Device",'
    '"CC","Section Name","Metric Name","Metric Unit","Metric Value"'
)


def row(number: int, kernel: str, metric: str, unit: str, value: str) -> str:
    """A line of the table that `ncu --csv --metrics …` prints (versions 2021 to 2025)."""
    place = f'"{number}","4242","python3.11","127.0.0.1","{kernel}","1","7","(256, 1, 1)","(4096, 1, 1)","0","9.0"'
    return f'{place},"Command line profiler metrics","{metric}","{unit}","{value}"'


LONG, BARRIER = (
    f"smsp__average_warps_issue_stalled_{name}_per_issue_active.ratio" for name in ("long_scoreboard", "barrier")
)
TABLE = "\n".join(
    [
        "==PROF== Connected to process 4242 (/usr/bin/python3.11)",
        '==PROF== Profiling "relu_kernel" - 0: 0%....50%....100% - 9 passes',
        '==PROF== Profiling "relu_kernel" - 1: 0%....50%....100% - 9 passes',
        '==PROF== Profiling "sum_kernel" - 2: 0%....50%....100% - 9 passes',
        'a line that the program prints, "quoted", with commas',
        "==PROF== Disconnected from process 4242",
        HEADER,
        row(0, "relu_kernel", "dram__bytes_read.sum", "byte", "67,117,056"),
        row(0, "relu_kernel", "dram__bytes_write.sum", "byte", "58,720,256"),
        row(0, "relu_kernel", "dram__throughput.avg.pct_of_peak_sustained_elapsed", "%", "91.37"),
        row(0, "relu_kernel", "gpu__time_duration.sum", "nsecond", "49,312"),
        row(0, "relu_kernel", "sm__throughput.avg.pct_of_peak_sustained_elapsed", "%", "17.08"),
        row(0, "relu_kernel", "sm__warps_active.avg.pct_of_peak_sustained_active", "%", "83.44"),
        row(0, "relu_kernel", LONG, "inst", "31.25"),
        row(0, "relu_kernel", BARRIER, "inst", "0"),
        row(1, "relu_kernel", "gpu__time_duration.sum", "nsecond", "1,205.00"),
        row(2, "sum_kernel", "dram__throughput.avg.pct_of_peak_sustained_elapsed", "", "n/a"),
        row(2, "sum_kernel", "gpu__time_duration.sum", "us", "211.94"),
        "",
    ]
)


def test_of_each_kernel_the_longest_launch_counts_and_what_is_not_said_is_not_known() -> None:
    first, second = parse(TABLE)
    assert (first.kernel, first.launches, first.microseconds) == ("sum_kernel", 1, pytest.approx(211.94))
    assert first.dram is None and first.occupancy is None and first.stalled_by is None
    assert (second.kernel, second.launches) == ("relu_kernel", 2)
    assert second.microseconds == pytest.approx(49.312)
    assert second.dram == pytest.approx(0.9137) and second.compute == pytest.approx(0.1708)
    assert second.occupancy == pytest.approx(0.8344)
    assert (second.read_bytes, second.written_bytes) == (67_117_056, 58_720_256)
    assert second.stalled_by == STALLS["long_scoreboard"]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "==ERROR== no kernels were profiled",
        HEADER,
        f'{HEADER}\n"0","1"\n"x"',
        f"{HEADER}\n\0,\0\n",
        f"{HEADER}\n{'9' * 200_000}\n",
    ],
)
def test_words_without_a_table_hold_nothing(text: str) -> None:
    assert parse(text) == ()


def test_numbers_that_are_none_are_not_known() -> None:
    values = ("inf", "nan", "-inf", "1e999")
    rows = [row(0, "relu", metric, "%", value) for metric, value in zip(METRICS, values, strict=False)]
    (only,) = parse("\n".join([HEADER, *rows, row(0, "relu", LONG, "inst", "nan")]))
    assert only.model_dump(exclude_none=True) == {"kernel": "relu", "launches": 1}


def test_the_command_line_names_all_metrics_and_ends_with_the_program() -> None:
    told = command("/opt/ncu", ["python", "-m", "program"])
    assert told[0] == "/opt/ncu" and told[-3:] == ["python", "-m", "program"]
    assert told[told.index("--metrics") + 1] == ",".join(METRICS)
    assert {"--csv", "--profile-from-start"} <= {*told}


CANDIDATE = REFERENCE.replace("class Model(", "class ModelNew(").partition("def get_inputs")[0]
STAND_IN = """#!/bin/sh
while [ "$1" != --metrics ]; do shift; done
shift 2
"$@" || exit 3
"""
TALKS = """\
import ctypes, fcntl, os, resource, signal, socket

def enter_another_root():
    if ctypes.CDLL(None).unshare(0x20000):
        raise OSError

def have_namespaces_of_its_own():
    child = ctypes.CDLL(None).syscall(56, 0x10000000 | signal.SIGCHLD, 0, 0, 0, 0)
    if child == 0:
        os._exit(0)
    if child < 0:
        raise OSError
    os.waitpid(child, 0)

def outlive_its_parent():
    if ctypes.CDLL(None).prctl(1, 0, 0, 0, 0):
        raise OSError

def signal_a_thread():
    if ctypes.CDLL(None).syscall(200, os.getpid(), 0):
        raise OSError

def look_at_others():
    if not {"1", str(os.getpid())} <= {*os.listdir("/proc")}:
        return
    if len([name for name in os.listdir("/proc") if name.isdigit()]) < 6:
        raise OSError

def fill_the_disk():
    for number in range(5):
        with open(f"large{number}", "wb") as file:
            file.write(bytes(60 << 20))

with socket.create_server(("127.0.0.1", 0)) as server:
    socket.create_connection(server.getsockname()).close()
for action in ACTIONS:
    try:
        action()
    except OSError:
        continue
    raise RuntimeError("could")
"""
COMPILES = """\
import ctypes, os, subprocess
subprocess.run(["/sbin/ldconfig", "-p"], check=True, stdout=subprocess.DEVNULL)
open("stub.c", "w").write("int one(void) { return 1; }")
subprocess.run(["cc", "-shared", "-fPIC", "-o", "stub.so", "stub.c"], check=True)
assert ctypes.CDLL(os.path.abspath("stub.so")).one() == 1
"""
ESCAPES = """ACTIONS = [
    lambda: open("/etc/passwd").read(),
    lambda: open({home!r}, "w"),
    lambda: socket.create_connection(("192.0.2.1", 80), 1),
    lambda: enter_another_root(),
    lambda: os.kill({pid}, 0),
    lambda: socket.socket(socket.AF_UNIX).connect({unix!r}),
    lambda: socket.socket(socket.AF_NETLINK, socket.SOCK_RAW),
    lambda: socket.socket(socket.AF_VSOCK),
    lambda: socket.socket(socket.AF_UNIX).connect("\\0" + {unix!r}[-100:]),
    lambda: os.chmod({unix!r}, 0o777),
    lambda: os.chmod("/usr", 0o755),
    lambda: os.fchmod(0, 0o666),
    lambda: socket.socketpair(socket.AF_NETLINK, socket.SOCK_RAW),
    lambda: have_namespaces_of_its_own(),
    lambda: open("/usr/written", "w"),
    lambda: os.mknod("memory", 0o20666, os.makedev(1, 1)),
    lambda: open("/proc/sys/kernel/hostname", "w"),
    lambda: open("/proc/sysrq-trigger", "w"),
    lambda: look_at_others(),
    lambda: fcntl.fcntl(os.open("lease", os.O_CREAT), fcntl.F_SETLEASE, fcntl.F_RDLCK),
    lambda: resource.prlimit(os.getppid(), resource.RLIMIT_NOFILE),
    lambda: outlive_its_parent(),
    lambda: signal_a_thread(),
    lambda: fill_the_disk(),
]
"""


@pytest.fixture(scope="module")
def forkserver() -> Iterator[ForkServer]:
    warming = start_forkserver({"PATH": os.environ["PATH"], "TRITON_INTERPRET": "1"})
    yield ForkServer(warming, on_death=lambda: None)


def profiler(forkserver: ForkServer, folder: Path, script: str) -> Profiler:
    ncu = folder / "nsight" / "bin" / "ncu"
    ncu.parent.mkdir(parents=True)
    ncu.write_text(script)
    ncu.chmod(0o755)
    scratch = folder / "scratch"
    scratch.mkdir()
    cores = Cores(1, lock_file=str(folder / "lock"))
    return Profiler(forkserver, cores, scratch, str(ncu), private=(scratch,), device="cpu")


def test_the_kernel_is_called_and_the_table_is_read(forkserver: ForkServer, tmp_path: Path) -> None:
    printing = f"{STAND_IN}cat <<'END'\n{TABLE}\nEND\n"
    counters, why = profiler(forkserver, tmp_path, printing).profile(REFERENCE, CANDIDATE, ())
    assert why == "" and [each.kernel for each in counters] == ["sum_kernel", "relu_kernel"]


def test_the_kernel_gets_the_module_that_was_built_for_it(forkserver: ForkServer, tmp_path: Path) -> None:
    loading = """
import torch.utils.cpp_extension
module = torch.utils.cpp_extension.load_inline("_queue", cpp_sources="")
assert module.SimpleQueue
"""
    counters, why = profiler(forkserver, tmp_path, f"{STAND_IN}echo it ran").run(
        REFERENCE, f"import os\n{loading}{CANDIDATE}", [Path(_queue.__file__)]
    )
    assert counters == () and why == "ncu gave no counters: it ran"


def test_a_profiled_kernel_reaches_itself_and_nothing_else(forkserver: ForkServer, tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as outside, socket.socket(socket.AF_UNIX) as nameless:
        outside.bind(str(tmp_path / "socket"))
        outside.listen()
        nameless.bind("\0" + outside.getsockname()[-100:])
        nameless.listen()
        escapes = ESCAPES.format(home=str(tmp_path / "written"), unix=outside.getsockname(), pid=os.getpid())
        counters, why = profiler(forkserver, tmp_path, STAND_IN + "echo it ran").run(
            REFERENCE, TALKS.replace("for action", f"{escapes}for action") + CANDIDATE, []
        )
    assert counters == () and why == "ncu gave no counters: it ran"


def test_a_profiled_kernel_can_be_compiled_by_triton(forkserver: ForkServer, tmp_path: Path) -> None:
    """Which asks where the driver's library lies, and has a C compiler make the code that launches the kernel."""
    counters, why = profiler(forkserver, tmp_path, STAND_IN + "echo it ran").run(REFERENCE, COMPILES + CANDIDATE, [])
    assert counters == () and why == "ncu gave no counters: it ran"


def test_a_profiler_finds_its_pipes_and_its_own_processes(forkserver: ForkServer, tmp_path: Path) -> None:
    """Nsight Compute makes a pipe that is a file for the tree of processes, and its driver names its threads."""
    script = "#!/bin/sh\nmkfifo $TMPDIR/pipe; echo x > $TMPDIR/pipe & cat $TMPDIR/pipe; wait\n"
    naming = "echo named > /proc/$$/task/$$/comm && cat /proc/$$/comm\n"
    said = profiler(forkserver, tmp_path, script + naming).run(REFERENCE, CANDIDATE, [])
    assert said == ((), "ncu gave no counters: named")


@pytest.mark.parametrize(
    ("script", "why"),
    [
        (
            "#!/bin/sh\necho '==ERROR== ERR_NVGPUCTRPERM - The user does not have permission'\nexit 1",
            nsight.ADMINISTRATORS_ONLY,
        ),
        ("#!/bin/sh\necho '==ERROR== no device'\necho more", "ncu gave no counters: ==ERROR== no device; more"),
    ],
)
def test_without_counters_the_reason_is_said(forkserver: ForkServer, tmp_path: Path, script: str, why: str) -> None:
    counters, said = profiler(forkserver, tmp_path, script).run(REFERENCE, CANDIDATE, [])
    assert counters == () and said.startswith(why)


def test_without_ncu_that_is_the_reason(forkserver: ForkServer, tmp_path: Path) -> None:
    none = Profiler(forkserver, Cores(1), tmp_path, None, private=())
    assert none.run(REFERENCE, CANDIDATE, []) == ((), nsight.MISSING)


def test_ncu_among_private_files_is_not_run(forkserver: ForkServer, tmp_path: Path) -> None:
    """To run it, its folder would be shown to the kernel."""
    beside = Profiler(forkserver, Cores(1), tmp_path, str(tmp_path / "bin" / "ncu"), private=(tmp_path / "cache",))
    assert beside.run(REFERENCE, CANDIDATE, [])[1].startswith(nsight.NOT_A_FOLDER_OF_ITS_OWN)
    at_home = Profiler(forkserver, Cores(1), tmp_path, str(Path.home() / "bin" / "ncu"), private=())
    assert at_home.run(REFERENCE, CANDIDATE, [])[1].startswith(nsight.NOT_A_FOLDER_OF_ITS_OWN)


def test_a_kernel_that_takes_too_long_gives_the_device_back(
    forkserver: ForkServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(nsight, "WALL_S", 0.5)
    sleeping = profiler(forkserver, tmp_path, "#!/bin/sh\nsleep 600\n")
    why = sleeping.run(REFERENCE, CANDIDATE, [])[1]
    assert why == "ncu gave no counters: the profiled run did not end within 0.5 s"


def test_what_fails_in_reading_costs_no_verdict(
    forkserver: ForkServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(text: str) -> None:
        raise RecursionError(f"of {text}")

    monkeypatch.setattr(nsight, "parse", fail)
    failing = profiler(forkserver, tmp_path, "#!/bin/sh\necho words\n")
    assert failing.profile(REFERENCE, CANDIDATE, ()) == ((), "RecursionError: of words\n")


def test_a_kernel_that_is_judged_again_meets_other_inputs_and_is_profiled_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """As one whose speedup is too good to be believed at once is."""
    profiled: list[str] = []
    met: list[Any] = []
    closed: list[Any] = []

    def profile(task: str, candidate: str, modules: tuple[Path, ...]) -> Profile:
        profiled.append(candidate)
        return (GpuCounters(kernel="relu"),), ""

    def judge(asked: Request, settings: ExecutorSettings, reference: Callable[[], Any], *parts: Any) -> Verdict:
        met.append(reference())
        counters, _ = parts[-1](asked.task.source, CANDIDATE, ())
        fast = Speedup(median=10, low=9, high=11, pairs=9)
        common = {"task_id": "task", "candidate": "c", "dialect": "cuda", "device": "cuda", "stage": "correct"}
        return Verdict(**common, status="correct", speedup=fast, gpu_counters=counters)

    monkeypatch.setattr(service, "judge", judge)
    judges = object.__new__(service.Service)
    judges.settings = ExecutorSettings(device="cuda")
    judges.builder = judges.library = judges.cores = judges.bounds = None
    shared = SimpleNamespace()
    judges.references = SimpleNamespace(of=lambda *asked: nullcontext(lambda: shared))
    fresh = SimpleNamespace(close=lambda: closed.append(fresh))
    judges._reference = lambda task: fresh
    judges.retest = Retest(judges.settings, lambda: None)
    judges.profiler = SimpleNamespace(profile=profile)
    for number in (1, 2):
        found = judges._judge(request(CANDIDATE, dialect="cuda"), arrived=0.0)
        assert found.retest is not None and [each.kernel for each in found.gpu_counters] == ["relu"]
        assert len(profiled) == number, "of each request once"
        assert met == [shared, fresh] * number and closed == [fresh] * number, "inputs that no candidate has met"


def test_kernelrl_is_found_where_this_process_found_it(tmp_path: Path) -> None:
    place = Path(nsight.__file__).parents[3]
    environment = {"PATH": os.environ["PATH"], "TRITON_INTERPRET": "1", "PYTHONPATH": str(place)}
    warming = start_forkserver(environment)
    server = ForkServer(warming, on_death=lambda: None)
    telling = '#!/bin/sh\necho "$PYTHONPATH $CUDA_VISIBLE_DEVICES"\n'
    assert profiler(server, tmp_path, telling).run(REFERENCE, CANDIDATE, [])[1] == f"ncu gave no counters: {place}"
