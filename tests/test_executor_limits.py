"""Text, messages and caches have limits, and what depends on the load of the machine decides nothing."""

from __future__ import annotations

import itertools
import json
import multiprocessing
import os
import resource
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock

import psutil
import pytest
import torch

from conftest import KERNELS, RIGHT
from executor_cases import FAST, PATIENCE_S, judge, request, wait_for
from kernelrl.candidate import MAX_SOURCE_CHARS
from kernelrl.dialects import _cpp_text
from kernelrl.errors import InfrastructureError
from kernelrl.executor import Executor, ExecutorSettings, make_executor, quota, trees, wire
from kernelrl.executor.building.builder import Built
from kernelrl.executor.building.pruning import CacheLimits, prune
from kernelrl.executor.judging.endings import Ended
from kernelrl.executor.judging.findings import Findings
from kernelrl.executor.judging.loading import _serve_build
from kernelrl.executor.legality import symbols
from kernelrl.executor.processes import patience
from kernelrl.executor.processes.cores import Cores
from kernelrl.executor.processes.forking import explain_status
from kernelrl.executor.processes.hostlock import HostLock
from kernelrl.executor.processes.patience import OutOfPatience, Patience, ceiling, never_paused

NUM_CHARS = 200_000
CPU_LIMIT_S = 120
"""CPU time in which any machine reads texts of `NUM_CHARS`; what takes longer than linear time needs hours."""
TEXTS = {
    "quotes that are never closed": '"\\',
    "apostrophes": "'",
    "comments that are never closed": "/*",
    "raw strings that are never closed": 'R"a(',
    "continued lines": "\\\n",
    "include directives": "#include <a>\n",
    "forbidden words": "at::a\n",
    "words that need a bracket": "section ",
    "digits and apostrophes": "1'",
}
NAMES = {
    "nested types": "a<" * 60 + ">" * 60 + " & " * 60 + "!",
    "types in a row": "int " * (NUM_CHARS // 4) + "x",
    "templates of the standard library": "std::a<" * (NUM_CHARS // 8) + ">& " * 1000,
    "operators of torch": "at::_ops::a::" * (NUM_CHARS // 13),
}


def within_cpu_time(work: Callable[..., object], *args: object) -> None:
    """Do something in a process that the kernel ends when it has computed for `CPU_LIMIT_S`."""

    def limited() -> None:
        resource.setrlimit(resource.RLIMIT_CPU, (CPU_LIMIT_S, CPU_LIMIT_S))
        work(*args)

    process = multiprocessing.get_context("fork").Process(target=limited)
    process.start()
    process.join()
    assert process.exitcode == 0, f"ended by {process.exitcode}"


def _read_cpp(text: str) -> None:
    _cpp_text.forbidden_includes(text)
    _cpp_text.forbidden_words(text)
    _cpp_text.without_includes(text)


@pytest.mark.parametrize("piece", TEXTS.values(), ids=TEXTS)
def test_cpp_is_read_in_linear_time(piece: str) -> None:
    within_cpu_time(_read_cpp, piece * (NUM_CHARS // len(piece)))


@pytest.mark.parametrize("name", NAMES.values(), ids=NAMES)
def test_names_of_symbols_are_read_in_linear_time(name: str) -> None:
    within_cpu_time(lambda: symbols.foreign([name] * 10, "torch", cuda=True))


def test_cpp_is_split_as_a_compiler_splits_it() -> None:
    text = """int a = 1'000; char c = L'"'; at::relu(x); // at::foo
"at::bar" R"x(at::baz " )x" torch::kFloat torch::empty_like(1) /* at::qux
*/ dl\\ \t
sym('a'); "unclosed at::string
__attribute__((section ("x")))"""
    joined = text.replace("\\ \t\n", "")
    found = [(word.split(": ")[0], line) for word, line in _cpp_text.forbidden_words(joined)]
    assert found == [("at::relu", 0), ("dlsym", 2), ("section", 3)]
    both = "a raw string beside lines that end in a backslash"  # which only a compiler leaves there
    assert (both, 1) in _cpp_text.forbidden_words(text)


def test_a_name_of_its_own_may_begin_as_a_forbidden_one_does() -> None:
    text = "sgemm_block(a); system_of_tiles b; forked(c); c10::optional<at::Tensor> d; torch::dtype(torch::kInt64);"
    assert _cpp_text.forbidden_words(text) == []
    text = "c10::InferenceMode guard; torch::NoGradGuard other; py::gil_scoped_release release; happy::numbers::e;"
    assert _cpp_text.forbidden_words(text) == []
    text = (
        "sgemm_(a); dgemm(b); system(c); c10::impl::d; asm volatile(e); at::mm(f); py::eval(g); pybind11::gil_scoped_d;"
    )
    found = [word.split(": ")[0] for word, _ in _cpp_text.forbidden_words(text)]
    forbidden = ["asm", "at::mm", "c10::impl", "dgemm", "py::eval", "pybind11::gil_scoped_d", "sgemm_", "system"]
    assert found == forbidden


def test_a_conversion_in_cpp_is_plumbing_and_no_other_operator_whose_name_begins_alike() -> None:
    names = (
        "to_dtype",
        "to_dtype_layout",
        "to_device",
        "to_other",
        "expand_as",
        "to_sparse",
        "to_mkldnn",
        "topk",
        "mm",
    )
    wanted = [f"at::_ops::{name}::call(at::Tensor const&)" for name in names]
    assert symbols.foreign(wanted, "torch", cuda=False) == wanted[5:]
    c_functions = ["sgemm_", "sgemm_batch_", "system", "execvp", "mmap64", "fork"]
    assert symbols.foreign(c_functions, "torch", cuda=False) == c_functions


def test_an_include_is_found_wherever_a_directive_may_stand() -> None:
    text = (
        'a # include "x"\n \t%: /* */ include /**/ "secret"\n#include <cmath> // why\n#include "cmath\n"#include <y>"'
        "\n??=include <dlfcn.h>\n??=inc??/\nlude <unistd.h>"
    )
    assert _cpp_text.forbidden_includes(text) == ['#include "secret"', '#include "cmath', "#include <dlfcn.h>"]
    assert _cpp_text.forbidden_words(text) == [("??/", 4)], "which joins lines in some standards, and not in others"
    assert "secret" not in _cpp_text.without_includes(text) and "include <y>" in _cpp_text.without_includes(text)


# What a candidate's process does is told from what is done to it


@pytest.fixture
def settings(executor_cache: Path) -> dict[str, Any]:
    return {**FAST, "cache_dir": str(executor_cache), "verdict_cache": False, "run_timeout_s": 2.0}


@pytest.fixture
def unruled(settings: dict[str, Any]) -> Iterator[Executor]:
    """Judges by what runs alone: no static rule stops these candidates before they do what they are made for."""
    with make_executor({**settings, "static_rules": False, "load_timeout_s": 2.0}) as engine:
        yield engine


DEEDS = {
    "a signal without a name": ("os.kill(os.getpid(), signal.SIGRTMIN + 3)", "killed"),
    "the last signal": ("os.kill(os.getpid(), signal.SIGRTMAX)", "killed"),
    "the signal that kills": ("os.kill(os.getpid(), signal.SIGKILL)", "killed"),
    "stops itself": ("os.kill(os.getpid(), signal.SIGSTOP)", "killed"),
    "waits with all signals blocked": (
        "signal.pthread_sigmask(signal.SIG_BLOCK, range(1, 65)), signal.pause()",
        "timeout",
    ),
    "an interval timer": ("signal.setitimer(signal.ITIMER_REAL, 0.05), signal.pause()", "illegal"),
    "a limit of its own": (
        "resource.setrlimit(resource.RLIMIT_CPU, (0, 0)), [None for _ in iter(int, 1)]",
        "runtime_error",
    ),
    "waits for ever": ("signal.pause()", "timeout"),
    "computes for ever": ("[None for _ in iter(int, 1)]", "timeout"),
    "closes its socket": ("os.close(3), signal.pause()", "killed"),
    "a message of 100 MB": ("os.write(3, struct.pack('!I', 100 << 20) + bytes(1000)), signal.pause()", "killed"),
    "half a message": ("os.write(3, struct.pack('!I', 1000) + b'{'), signal.pause()", "timeout"),
    "brackets for a message": ("os.write(3, struct.pack('!I', 100000) + b'[' * 100000), signal.pause()", "killed"),
    "forgets its parent": ("ctypes.CDLL(None).prctl(1, 0) == 0 or signal.pause()", "timeout"),
    "hides from the executor": ("ctypes.CDLL(None).prctl(4, 0) == 0 or signal.pause()", "timeout"),
    "locks a library": ("fcntl.flock(os.open(torch.__file__, os.O_RDONLY), fcntl.LOCK_EX)", "runtime_error"),
    "locks a part of a library": (
        "fcntl.lockf(os.open(torch.__file__, os.O_RDONLY), fcntl.LOCK_SH)",
        "runtime_error",
    ),
    "has others wait for a library": (
        "fcntl.fcntl(os.open(torch.__file__, os.O_RDONLY), fcntl.F_SETLEASE, fcntl.F_WRLCK)",
        "runtime_error",
    ),
    "waits for all processors": ("ctypes.CDLL(None).syscall(324, 1, 0) == -1 and signal.pause()", "timeout"),
    "asks for a session of another": ("os.getsid(os.getppid())", "runtime_error"),
    "asks for a policy of another": ("os.sched_getscheduler(os.getppid())", "runtime_error"),
    "asks for a priority of another": ("os.getpriority(os.PRIO_PROCESS, os.getppid())", "runtime_error"),
    "a call that no list has": ("ctypes.CDLL(None).syscall(462, 0, 0, 0) == -1 and signal.pause()", "timeout"),
}
DOES = """
import ctypes, fcntl, os, resource, signal, struct, time
import torch
from torch import nn


class ModelNew(nn.Module):
    def forward(self, x):
        {deed}
        return torch.relu(x) * 2.0
"""


@pytest.mark.slow
def test_a_candidate_cannot_choose_infrastructure(unruled: Executor) -> None:
    sources = [DOES.format(deed=deed) for deed, _ in DEEDS.values()]
    verdicts = unruled.evaluate([request(source, dialect="python") for source in sources])
    found = {name: verdict.status for name, verdict in zip(DEEDS, verdicts, strict=True)}
    assert found == {name: status for name, (_, status) in DEEDS.items()}
    assert judge(unruled, DOES.format(deed="pass"), dialect="python").status == "correct", "the next one is served"


BOMBS = {
    "a source of a megabyte": "#" * 1_000_000,
    "a source of fifty megabytes": "#" * 50_000_000,
    "text at the limit": RIGHT + "#" * (MAX_SOURCE_CHARS - len(RIGHT) - 1),
    "text of other characters at the limit": RIGHT + "#" + "\u4e2d" * (MAX_SOURCE_CHARS - len(RIGHT) - 2),
    "lambdas": "f = " + "lambda: " * 20_000 + "1",
    "sums": "f = " + "1 + " * 40_000 + "1",
    "subscripts": "f = x" + "[0]" * 50_000,
    "half a string of braces": 'f = f"' + "{" * 100_000,
    "matches": "match x:\n" + " case " + "[" * 150 + "\n",
}


@pytest.mark.slow
def test_text_bombs_cost_their_own_verdict(settings: dict[str, Any]) -> None:
    with make_executor(settings) as engine:
        verdicts = dict(zip(BOMBS, engine.evaluate([request(text) for text in BOMBS.values()]), strict=True))
        assert judge(engine, RIGHT + "\n# after the bombs").status == "correct"
    long = [verdict for name, verdict in verdicts.items() if name.startswith("a source of")]
    assert {verdict.violations[0].rule for verdict in long} == {"source_too_long"}
    at_limit = [verdict for name, verdict in verdicts.items() if name.startswith("text ")]
    assert {verdict.status for verdict in at_limit} == {"correct"}, "a limit is what is still allowed"
    assert not {"correct", "infrastructure"} & {v.status for n, v in verdicts.items() if not n.startswith("text ")}


def test_signals_have_words() -> None:
    assert explain_status(signal.SIGKILL) == "was killed by SIGKILL"
    assert explain_status(37) == "was killed by signal 37"
    assert explain_status(3 << 8) == "exited with status 3"


# Limits are CPU time, or idleness; the clock is far above them


def _child(program: str) -> tuple[subprocess.Popen[bytes], socket.socket]:
    ours, theirs = socket.socketpair()
    with theirs:
        return subprocess.Popen([sys.executable, "-c", program], pass_fds=(theirs.fileno(),)), ours


def _end_of_patience(
    program: str,
    pauses: Callable[[], tuple[bool, float]] = never_paused,
    stopped: bool = False,
    alone: bool = False,
) -> OutOfPatience:
    process, sock = _child(program)
    with process, sock:
        try:
            if stopped:
                process.send_signal(signal.SIGSTOP)
            with pytest.raises(OutOfPatience) as end:
                Patience(process.pid, sock, 0.5, pauses, alone).wait()
        finally:
            process.kill()
    return end.value


def test_a_process_that_computes_or_sleeps_has_its_time() -> None:
    for program in ("while True: pass", "import time; time.sleep(1000)"):
        end = _end_of_patience(program)
        assert end.final and not str(end)


def test_a_process_that_stops_itself_is_told_from_one_that_is_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    assert str(_end_of_patience("while True: pass", stopped=True)) == "stopped itself"
    started = time.monotonic()
    real = time.monotonic
    monkeypatch.setattr(time, "monotonic", lambda: started + 100 * (real() - started))  # the ceiling comes soon
    end = _end_of_patience("while True: pass", lambda: (True, 0.0), stopped=True)
    assert not end.final and not str(end) and time.monotonic() - started >= ceiling(0.5)


def test_a_process_that_has_ended_has_not_stopped_itself() -> None:
    """Though somebody holds its socket, which so does not tell."""
    ours, theirs = socket.socketpair()
    with ours, theirs, subprocess.Popen([sys.executable, "-c", ""]) as process, pytest.raises(ConnectionResetError):
        Patience(process.pid, ours, 60.0).wait()


def test_who_has_the_machine_alone_may_not_wait_for_a_disk_for_longer_than_for_anything_else(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Where others run, a disk may be slow because of them."""
    looks = itertools.count()

    def reads_past_all_caches(pid: int) -> patience._Look:
        return patience._Look(0.05 * next(looks), {}, b"D")

    monkeypatch.setattr(patience, "_look", reads_past_all_caches)
    monkeypatch.setattr(patience, "num_cores", lambda: 1)
    assert not _end_of_patience("import time; time.sleep(1000)", alone=True).final and next(looks) < 7
    looks = itertools.count()
    assert _end_of_patience("import time; time.sleep(1000)").final and next(looks) > 9


def test_a_process_that_waits_for_a_core_is_not_guilty(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of two that share a core, each has what it may compute, however long that takes on the clock."""
    core = {min(os.sched_getaffinity(0))}
    rival, sock = _child("while True: pass")
    process, answer = _child("while True: pass")
    with rival, process, sock, answer:
        try:
            for each in (rival, process):
                os.sched_setaffinity(each.pid, core)
            psutil.Process(process.pid).nice(5)
            before = psutil.Process(process.pid).cpu_times()
            with pytest.raises(OutOfPatience) as end:
                Patience(process.pid, answer, 0.5).wait()
            after = psutil.Process(process.pid).cpu_times()
        finally:
            rival.kill()
            process.kill()
    assert after.user + after.system - before.user - before.system >= 0.45 and end.value.final


COMING_AND_GOING = """
import threading
def spin():
    for _ in range(1000): pass
while True:
    for thread in [threading.Thread(target=spin) for _ in range(8)]:
        thread.start()
"""


def test_threads_that_come_and_go_share_one_limit() -> None:
    end = _end_of_patience(COMING_AND_GOING)
    assert end.final and not str(end)


@pytest.mark.slow
def test_verdicts_are_the_same_on_a_busy_machine(settings: dict[str, Any]) -> None:
    """Limits that leave little room, and on each core four processes beside the executor's."""
    tight = {**settings, "run_timeout_s": 1.0, "load_timeout_s": 2.0, "timing": False}
    with make_executor(tight) as engine:
        judge(engine, KERNELS["cheat"])  # to import torch on a busy machine takes long, and shows nothing
        busy = [_child("while True: pass") for _ in range(4 * len(os.sched_getaffinity(0)))]
        try:
            verdicts = {name: judge(engine, source + "\n# busy") for name, source in KERNELS.items()}
        finally:
            for process, sock in busy:
                process.kill()
                process.wait()
                sock.close()
    found = {name: verdict.status for name, verdict in verdicts.items()}
    assert found == {"right": "correct", "wrong": "incorrect", "broken": "compile_error", "cheat": "illegal"}
    assert all(verdict.final for verdict in verdicts.values())


HOURS = """\
template <int N> constexpr unsigned spin() {
  unsigned sum = N;
  for (int i = 0; i < 1000; ++i)
    for (int j = 0; j < 1000; ++j) sum = sum * 3 + j;
  return sum;
}
template <int N> struct Row { static constexpr unsigned v = spin<N>() + Row<N - 1>::v; };
template <> struct Row<0> { static constexpr unsigned v = 0; };
constexpr unsigned slow = Row<500>::v;
"""
"""Keeps a compiler busy far beyond any limit, on any machine."""
ROW_OF_BOMBS = RIGHT.replace("void kernel", HOURS + "void kernel").replace(
    "mod = load_inline(",
    """for number in range(12):
    try:
        load_inline(name="bomb", cpp_sources=SOURCE + f"// {number}", functions="kernel")
    except RuntimeError:
        pass
mod = load_inline(""",
)


@pytest.mark.slow
def test_the_first_build_that_takes_too_long_ends_the_judgement(tmp_path: Path) -> None:
    with make_executor({**FAST, "cache_dir": str(tmp_path), "build_timeout_s": 4.0}) as engine:
        first, again = (judge(engine, ROW_OF_BOMBS) for _ in range(2))
        assert judge(engine, RIGHT).status == "correct"
    assert first.status == "compile_error" and "took longer than 4 s" in first.feedback
    assert first.build is not None and first.build.units == 1
    assert first.final and again.cached, "CPU time is the same on a busy machine"
    header = next(tmp_path.glob("headers/*/loader.h.gch"))
    assert header.stat().st_size > 1 << 20, "the header has a limit of its own, and is whole"


def test_builds_in_vain_have_one_limit_together() -> None:
    """Each fails before its own: 16 of them would keep the compilers for a quarter of an hour."""
    failed = Built(False, None, "error", seconds=35.0, cached=False)
    own = MagicMock(found=Findings(), settings=ExecutorSettings(build_timeout_s=60.0))
    own.match.builder.build.return_value = failed
    _serve_build(own, {"name": "bomb"})
    own.process.reply.assert_called_once()
    with pytest.raises(Ended) as ended:
        _serve_build(own, {"name": "bomb"})
    assert ended.value.status == "compile_error" and not own.found.final


@pytest.mark.slow
def test_what_the_load_may_have_decided_is_not_remembered(executor_cache: Path) -> None:
    suicide = DOES.format(deed="os.kill(os.getpid(), signal.SIGKILL)")
    settings = {**FAST, "cache_dir": str(executor_cache), "static_rules": False}
    with make_executor(settings) as engine:
        first, second = (judge(engine, suicide, dialect="python") for _ in range(2))
    assert not first.final and not first.cached and not second.cached


# One measurement at a time on a host; nothing is left behind

HOLDER = """
import sys
from kernelrl.executor.processes.hostlock import HostLock
with HostLock(sys.argv[1]).held():
    print("locked", flush=True)
    sys.stdin.read()
"""


def test_one_executor_of_a_host_measures_at_a_time(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    command = [sys.executable, "-c", HOLDER, str(path)]
    measured = threading.Event()

    def measure() -> None:
        with Cores(1, lock_file=str(path)).measuring():
            measured.set()

    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout is not None and holder.stdin is not None
        assert holder.stdout.readline() == "locked\n"
        assert path.stat().st_mode & 0o777 == 0o644, "others can lock it and none can write to it"
        thread = threading.Thread(target=measure)
        thread.start()
        assert not measured.wait(0.3)
        holder.kill()
        assert measured.wait(PATIENCE_S), "the kernel frees the lock of a process that is gone"
        thread.join()


def test_a_lock_that_is_no_file_is_named(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "elsewhere")
    os.mkfifo(tmp_path / "pipe")
    for name in ("link", "none/lock", "pipe"):
        with pytest.raises(InfrastructureError, match=name), HostLock(str(tmp_path / name)).held():
            pass
    assert not (tmp_path / "elsewhere").exists()


def test_the_services_own_work_and_a_measurement_exclude_each_other(tmp_path: Path) -> None:
    cores = Cores(2, lock_file=str(tmp_path / "lock"))
    order: list[str] = []
    working, go_on = threading.Event(), threading.Event()

    def work() -> None:
        with cores.working():
            working.set()
            go_on.wait(PATIENCE_S)
            order.append("worked")

    def measure() -> None:
        with cores.measuring():
            order.append("measured")

    threads = [threading.Thread(target=work), threading.Thread(target=measure)]
    threads[0].start()
    working.wait(PATIENCE_S)
    threads[1].start()
    wait_for(lambda: cores._waiting)
    go_on.set()
    for thread in threads:
        thread.join()
    assert order == ["worked", "measured"]


@pytest.mark.slow
def test_closed_executors_leave_nothing_behind(settings: dict[str, Any]) -> None:
    def held() -> tuple[int, int]:
        return len(os.listdir("/proc/self/fd")), threading.active_count()

    engines = [make_executor(settings) for _ in range(20)]
    judge(engines[0], RIGHT)
    engines[0].close()
    before = held()
    for engine in engines[1:3]:
        judge(engine, RIGHT)
    for engine in engines:
        engine.close()
    assert held() == before


def test_more_descriptors_than_select_can_take(settings: dict[str, Any]) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < 2048:
        pytest.skip(f"no more than {hard} descriptors are allowed here")
    resource.setrlimit(resource.RLIMIT_NOFILE, (2048, hard))
    held = [os.open(os.devnull, os.O_RDONLY) for _ in range(1200)]
    try:
        ours, theirs = socket.socketpair()
        with ours, theirs:
            assert ours.fileno() > 1023
            wire.send(theirs, {"answer": 1})
            message, _ = wire.receive(ours, wait=Patience(os.getpid(), ours, 10.0).wait)
            assert message == {"answer": 1}
    finally:
        for handle in held:
            os.close(handle)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


# Messages, caches, quotas


def test_a_message_that_is_too_long_or_too_deep_is_refused() -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        theirs.sendall((1 << 20).to_bytes(4, "big"))
        with pytest.raises(wire.WireError, match="too long"):
            wire.receive(ours, max_bytes=1000)
        deep = b'{"a":' * 100_000
        sender = threading.Thread(target=theirs.sendall, args=(len(deep).to_bytes(4, "big") + deep,))
        sender.start()
        with pytest.raises(wire.WireError, match="not JSON"):
            wire.receive(ours)
        sender.join()


def test_a_tree_of_too_many_values_does_not_travel() -> None:
    tree: list[Any] = []
    for _ in range(60):
        tree = [tree, tree]
    with pytest.raises(TypeError, match="more than 4096 values"):
        trees.flatten(tree, [])
    assert trees.flatten([1] * 4000, [])


def _entry(folder: Path, num_bytes: int, hours: float) -> Path:
    folder.mkdir(parents=True)
    (folder / "module.so").write_bytes(bytes(num_bytes))
    (folder / "build.json").write_text(json.dumps({}))
    when = time.time() - hours * 3600
    os.utime(folder, (when, when))
    return folder


def test_caches_are_pruned_by_size_and_age(tmp_path: Path) -> None:
    cache, scratch = tmp_path / "cache", tmp_path / "scratch"
    scratch.mkdir()
    hours = {"new": 0.1, "yesterday": 24.0, "last week": 170.0, "last year": 9000.0}
    builds = {name: _entry(cache / "build" / "ab" / name, 1000, age) for name, age in hours.items()}
    headers = {name: _entry(cache / "headers" / name, 10_000, age) for name, age in hours.items()}
    prune(cache, scratch, CacheLimits(build_bytes=2500, days=90))
    assert [name for name, folder in builds.items() if folder.exists()] == ["new", "yesterday"]
    assert [name for name, folder in headers.items() if folder.exists()] == ["new", "yesterday", "last week"]
    prune(cache, scratch, CacheLimits(build_bytes=1, days=90))
    assert [name for name, folder in builds.items() if folder.exists()] == ["new"], "what is in use stays"
    assert not list(scratch.iterdir())


@pytest.mark.parametrize("version", [1, 2])
def test_limits_of_control_groups_are_believed(tmp_path: Path, version: int) -> None:
    own = tmp_path / "own"
    if version == 2:
        own.write_text("0::/kubepods/pod1\n")
        files = {"kubepods/cpu.max": "250000 100000", "kubepods/pod1/cpu.max": "max 100000"}
        files |= {"kubepods/pod1/memory.max": "1073741824", "kubepods/memory.max": "max"}
    else:
        own.write_text("4:memory:/pod1\n3:cpu,cpuacct:/pod1\n0::/\n")
        files = {"cpu,cpuacct/pod1/cpu.cfs_quota_us": "250000", "cpu,cpuacct/pod1/cpu.cfs_period_us": "100000"}
        files |= {"memory/pod1/memory.limit_in_bytes": "1073741824", "cpu,cpuacct/cpu.cfs_quota_us": "-1"}
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text + "\n")
    assert list(quota._core_limits(tmp_path, own)) == [2.5]
    assert list(quota._memory_limits(tmp_path, own)) == [1 << 30]


def test_forms_are_compared_by_what_they_hold_and_have_a_largest_size() -> None:
    tree = {"a": [1, None], "b": ("text", {2: torch.zeros(1)})}
    again = {"b": ["text", {2: torch.ones(1)}], "a": (1, None)}
    outlines = [
        trees.outline(trees.flatten(each, [])) for each in (tree, again, {"a": [1, None]}, [1, None], [None, 1])
    ]
    assert outlines[0] == outlines[1] and len(set(outlines)) == 4
    deep: Any = [0] * 100
    for _ in range(5000):
        deep = {"dict": [deep]}
    for form in (deep, {"dict": [[0] * (trees.MAX_PARTS + 1)]}):
        with pytest.raises(ValueError, match="too"):
            trees.outline(form)


def test_work_of_the_service_begins_no_other_work(tmp_path: Path) -> None:
    """Between the two a measurement may begin to wait: for the end of the first, and the second one for it."""
    cores = Cores(1, lock_file=str(tmp_path / "lock"))
    with cores.working(), pytest.raises(AssertionError, match="waits for the end"), cores.working():
        pass
    with cores.working():
        pass
