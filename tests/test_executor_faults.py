"""Whatever dies, hangs or fills up: every other candidate gets its verdict, and nothing is left running."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import diskcache
import psutil
import pytest

from candidate_files import EXPLOITS, HERE, from_file
from conftest import REFERENCE, RIGHT
from executor_cases import FAST, PATIENCE_S, judge, processes_of, request, service_of, wait_for
from kernelrl.errors import InfrastructureError
from kernelrl.executor import Executor, make_executor
from kernelrl.executor.engines.cache_folder import own_folder
from kernelrl.executor.engines.service import MAX_REFERENCES

pytestmark = pytest.mark.slow

BUSY = RIGHT.replace(
    "void kernel", "void toil() { for (volatile long i = 0; i < 2000000000L; ++i) {} }\nvoid kernel"
).replace("{\n  const", "{\n  toil();\n  const", 1)
ONE_CALL = {"trials": 1, "distributions": [], "timing": False}
TEMPLATES = (
    "template <int N, int M> struct Grid { static constexpr unsigned v = Grid<N - 1, M>::v + Grid<N, M - 1>::v; };\n"
    "template <int M> struct Grid<0, M> { static constexpr unsigned v = 1; };\n"
    "template <int N> struct Grid<N, 0> { static constexpr unsigned v = 1; };\n"
    "constexpr unsigned slow = Grid<400, 400>::v;\n"
)
TEMPLATE_BOMB = RIGHT.replace("void kernel", TEMPLATES + "void kernel")


@pytest.fixture(scope="module")
def settings(executor_cache: Path) -> dict[str, Any]:
    return {**FAST, "cache_dir": str(executor_cache), "verdict_cache": False}


@pytest.fixture(scope="module")
def engine(settings: dict[str, Any]) -> Iterator[Executor]:
    """One for all tests after which it has healed."""
    with make_executor(settings) as executor:
        yield executor


def test_a_killed_service_heals_and_every_candidate_gets_its_verdict(engine: Executor) -> None:
    [before] = engine.health()
    stream = engine.stream([request(RIGHT + f"\n# survivor {index}") for index in range(8)])
    verdicts = dict([next(stream)])
    os.kill(service_of(engine).pid, signal.SIGKILL)
    verdicts |= dict(stream)
    assert sorted(verdicts) == list(range(8))
    assert {verdict.status for verdict in verdicts.values()} == {"correct"}
    [health] = engine.health()
    assert health.alive and health.judged == before.judged + 8 and health.retried > before.retried
    assert health.queued == health.running == 0


def test_health_is_told_while_the_service_starts(settings: dict[str, Any]) -> None:
    with make_executor(settings) as engine, ThreadPoolExecutor(2) as threads:
        verdict = threads.submit(judge, engine, RIGHT)
        os.kill(wait_for(lambda: engine._service).pid, signal.SIGSTOP)  # type: ignore[attr-defined]
        [health] = threads.submit(engine.health).result(PATIENCE_S)
        assert health.alive and not verdict.done()
        os.kill(service_of(engine).pid, signal.SIGCONT)
        assert verdict.result().status == "correct"


def test_a_killed_forkserver_heals_too(engine: Executor) -> None:
    stream = engine.stream([request(RIGHT + f"\n# orphan {index}") for index in range(4)])
    verdicts = dict([next(stream)])
    for child in service_of(engine).children():
        child.kill()
    verdicts |= dict(stream)
    assert [verdicts[index].status for index in range(4)] == ["correct"] * 4


def test_a_contestant_killed_from_outside_is_judged_again(settings: dict[str, Any]) -> None:
    with make_executor(settings | ONE_CALL | {"run_timeout_s": 120.0}) as engine, ThreadPoolExecutor(1) as pool:
        judge(engine, RIGHT)
        killed = pool.submit(_kill_the_busy_one, engine)
        verdicts = engine.evaluate([request(BUSY), request(RIGHT + "\n# beside it")])
        assert [verdict.status for verdict in verdicts] == ["correct", "correct"]
        killed.result()


def _kill_the_busy_one(engine: Executor) -> None:
    forkserver = service_of(engine).children()[0]

    def busy() -> list[psutil.Process]:
        return [p for p in forkserver.children() if p.name() != "g++" and p.cpu_times().user > 0.3]

    max(wait_for(busy), key=lambda process: process.cpu_times().user).kill()


def test_a_reference_killed_from_outside_is_started_again(engine: Executor) -> None:
    """On a machine that is short of memory the kernel kills whoever has most of it."""
    task = REFERENCE.replace("torch.relu(x)", "(sum(range(10**6)) and torch.relu(x))")
    judge(engine, RIGHT)
    with ThreadPoolExecutor(1) as pool:
        verdict = pool.submit(judge, engine, RIGHT, task)
        _kill_the_busy_one(engine)
        assert verdict.result().status == "correct", verdict.result().feedback


def test_a_reference_that_is_always_killed_is_the_tasks_fault(engine: Executor) -> None:
    task = REFERENCE.replace("import torch\n", "import ctypes\nimport torch\n", 1)
    task = task.replace("torch.relu(x)", "(getattr(ctypes.CDLL(None), 'raise')(9) or torch.relu(x))")
    verdict = judge(engine, RIGHT, task)
    assert verdict.status == "infrastructure" and verdict.fault == "task" and "twice" in verdict.feedback


def test_a_contestant_that_always_dies_is_killed_and_the_next_one_judged(engine: Executor) -> None:
    suicide = RIGHT.replace("int64_t n", "*(volatile int*)0 = 1;\n  int64_t n")
    assert judge(engine, suicide).status == "killed"
    assert judge(engine, RIGHT + "\n# the next").status == "correct"


def test_a_killed_compiler_is_started_again(engine: Executor) -> None:
    slow = TEMPLATE_BOMB.replace("400, 400", "180, 180")
    judge(engine, RIGHT)
    results: list[Any] = []
    thread = threading.Thread(target=lambda: results.append(judge(engine, slow)))
    thread.start()
    wait_for(lambda: _kill_compilers(engine))
    thread.join()
    assert results[0].status == "correct", results[0].feedback


def _kill_compilers(engine: Executor) -> int:
    """How many were killed: one that was found may have ended by itself meanwhile."""
    killed = 0
    for process in processes_of(engine):
        with contextlib.suppress(psutil.NoSuchProcess):
            if process.name() == "cc1plus":
                process.kill()
                killed += 1
    return killed


def test_nothing_is_left_running(settings: dict[str, Any]) -> None:
    endless = next(path for path in EXPLOITS if path.stem == "world_endless")
    engine = make_executor(settings)
    stream = engine.stream([from_file(endless), request(RIGHT + "\n# beside it")])
    next(stream)
    tree = [service_of(engine), *processes_of(engine)]
    assert len(tree) >= 3
    engine.close()
    _, alive = psutil.wait_procs(tree, timeout=PATIENCE_S)
    assert not alive
    with pytest.raises(InfrastructureError, match="closed"):
        engine.evaluate([request(RIGHT)])


def test_a_killed_service_leaves_no_compiler_behind(settings: dict[str, Any]) -> None:
    engine = make_executor(settings)
    threading.Thread(target=lambda: list(engine.stream([request(TEMPLATE_BOMB)])), daemon=True).start()
    compilers = wait_for(lambda: [p for p in processes_of(engine) if p.name() == "cc1plus"])
    engine._closed = True  # type: ignore[attr-defined]  # no healing: the client is gone too
    os.kill(service_of(engine).pid, signal.SIGKILL)
    _, alive = psutil.wait_procs(compilers, timeout=PATIENCE_S)
    assert not alive


CLIENT = """
import sys
sys.path.insert(0, {tests!r})
from conftest import RIGHT
from executor_cases import request, service_of
from kernelrl.executor import make_executor
engine = make_executor({settings!r})
stream = engine.stream([request(RIGHT + f"# {{index}}") for index in range(50)])
next(stream)
print(service_of(engine).pid, flush=True)
list(stream)
"""


def test_a_killed_client_takes_everything_along(settings: dict[str, Any]) -> None:
    text = CLIENT.format(tests=str(HERE), settings=settings)
    with subprocess.Popen([sys.executable, "-c", text], stdout=subprocess.PIPE, text=True) as client:
        assert client.stdout is not None
        service = psutil.Process(int(client.stdout.readline()))
        tree = [service, *service.children(recursive=True)]
        client.kill()
    _, alive = psutil.wait_procs(tree, timeout=PATIENCE_S)
    assert not alive


def test_a_cancelled_batch_is_not_judged(settings: dict[str, Any], fresh_cache: Path) -> None:
    with make_executor(settings | {"cache_dir": str(fresh_cache), "verdict_cache": True}) as engine:
        stream = engine.stream([request(RIGHT + f"\n# cancelled {index}") for index in range(100)])
        next(stream)
        stream.close()  # type: ignore[attr-defined]
        assert judge(engine, RIGHT + "\n# after it").status == "correct"
        assert not engine._jobs  # type: ignore[attr-defined]
    with diskcache.Cache(str(own_folder(fresh_cache) / "verdicts")) as verdicts:
        assert 2 <= len(verdicts) < 50, "those that had been begun, and the one after them"


FULL_DISK = """
import pathlib, sys
sys.path.insert(0, {tests!r})
from conftest import RIGHT
from executor_cases import judge, request
from kernelrl.executor import make_executor
folder = pathlib.Path({folder!r})
with make_executor({settings!r} | {{"cache_dir": str(folder), "verdict_cache": True}}) as engine:
    print(judge(engine, RIGHT).status, flush=True)
    filler = folder / "filler"
    with open(filler, "wb", buffering=0) as file:
        try:
            while file.write(bytes(1 << 16)):
                pass
            while file.write(b"x"):
                pass
        except OSError:
            pass
    full = judge(engine, RIGHT.replace("2.0f", "1.0f * 2.0f"))
    print(full.status, full.fault, flush=True)
    filler.unlink()
    print(judge(engine, RIGHT.replace("2.0f", "2.0f * 1.0f")).status, flush=True)
"""


@pytest.mark.skipif(shutil.which("unshare") is None, reason="util-linux's unshare mounts the small disk")
def test_a_full_disk_is_nobodys_wrong_answer(settings: dict[str, Any], tmp_path: Path) -> None:
    text = FULL_DISK.format(tests=str(HERE), settings=settings, folder=str(tmp_path))
    mount = f'mount -t tmpfs -o size=96m none {tmp_path} && exec "$0" "$@"'
    command = ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c", mount, sys.executable, "-c", text]
    result = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S)
    assert result.stdout.splitlines() == ["correct", "infrastructure executor", "correct"], result.stderr


JUMPING = """
import random, time
real = time.time
time.time = lambda: real() + random.choice((-86400.0, 0.0, 86400.0))
"""


def test_a_clock_that_jumps_changes_nothing(
    executor_cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "sitecustomize.py").write_text(JUMPING)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    with make_executor({**FAST, "cache_dir": str(executor_cache), "verdict_cache": False}) as engine:
        jumps = subprocess.run(
            [sys.executable, "-c", "import time; print(len({round(time.time(), -4) for _ in range(99)}))"],
            capture_output=True,
            text=True,
        )
        assert int(jumps.stdout) >= 3, "the clock of new processes does not jump"
        verdicts = engine.evaluate([request(RIGHT + f"\n# jump {index}") for index in range(4)])
        assert [verdict.status for verdict in verdicts] == ["correct"] * 4
        assert all(0 < verdict.seconds < 86400 / 2 for verdict in verdicts)


def test_nothing_leaks_in_hundreds_of_evaluations(settings: dict[str, Any], fresh_cache: Path) -> None:
    with make_executor(settings | {"cache_dir": str(fresh_cache), "timing": False, "distributions": []}) as engine:
        engine.evaluate([request(RIGHT + f"\n# first {index}") for index in range(50)])
        before = _footprint(engine)
        for block in range(2):
            verdicts = engine.evaluate([request(RIGHT + f"\n# {block} {index}") for index in range(100)])
            assert {verdict.status for verdict in verdicts} == {"correct"}
        most = {"processes": 1, "descriptors": 4, "files": 2, "megabytes": 50}
        # the last candidates' processes and folders go after their verdicts
        wait_for(lambda: all(now <= before[name] + most[name] for name, now in _footprint(engine).items()))


def test_references_that_nobody_needs_leave_no_memory_behind(executor_cache: Path) -> None:
    """Each has inputs, outputs and bounds of many calls: a training meets thousands of tasks."""
    tasks = [REFERENCE.replace("256,", f"{rows},") for rows in range(40, 80)]
    with make_executor({**FAST, "cache_dir": str(executor_cache), "timing": False}) as engine:
        verdicts = engine.evaluate([request(RIGHT, task) for task in tasks])
        maps = Path(f"/proc/{service_of(engine).pid}/maps")
        wait_for(lambda: maps.read_text().count("memfd:kernelrl-inputs") <= MAX_REFERENCES)
    assert {verdict.status for verdict in verdicts} == {"correct"}


def _footprint(engine: Executor) -> dict[str, float]:
    service = service_of(engine)
    cache = Path(engine.settings.cache_dir)  # type: ignore[attr-defined]
    return {
        "processes": len(processes_of(engine)),
        "descriptors": service.num_fds(),
        "files": sum(len(names) for _, _, names in os.walk(cache)),
        "megabytes": service.memory_info().rss / (1 << 20),
    }
