"""What was told to stop stands, with every thread, before anything is measured or read."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import cast

import pytest

from kernelrl.executor.processes import standing
from kernelrl.executor.processes.cores import Cores
from kernelrl.executor.processes.process import Process
from kernelrl.executor.processes.standing import StillRuns, cpu_s, stands, wait_until_it_stands

POPULATES = """
import ctypes, mmap, threading
SIZE, POPULATE, GIVE_BACK = 1 << 26, 23, 4
libc = ctypes.CDLL(None)
memory = mmap.mmap(-1, SIZE, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
address = ctypes.c_void_p(ctypes.addressof(ctypes.c_char.from_buffer(memory)))
def work():
    while True:
        for advice in (POPULATE, GIVE_BACK):
            libc.madvise(address, ctypes.c_size_t(SIZE), advice)
for _ in range(2):
    threading.Thread(target=work, daemon=True).start()
"""
"""Threads that are nearly always within a system call, with which the kernel goes on after they were told to stop. Each
takes some hundredths of a second, which leaves a slow machine room below `STOPPING_CPU_S`."""


@contextmanager
def running(program: str) -> Iterator[int]:
    """A process, which is a group of its own, that has come to the end of its program and lives on."""
    program += "\nprint(flush=True)\nimport time\ntime.sleep(1000)"
    command = [sys.executable, "-c", program]
    with subprocess.Popen(command, stdout=subprocess.PIPE, start_new_session=True) as process:
        try:
            assert process.stdout is not None
            process.stdout.readline()
            yield process.pid
        finally:
            process.kill()


def states(pid: int) -> set[str]:
    tasks = Path(f"/proc/{pid}/task").iterdir()
    return {(task / "stat").read_text().rpartition(") ")[2][0] for task in tasks}


def test_threads_within_a_system_call_are_waited_for() -> None:
    with running(POPULATES) as pid:
        for _ in range(10):
            os.kill(pid, signal.SIGSTOP)
            wait_until_it_stands(pid, partial(stands, pid))
            assert states(pid) == {"T"}
            os.kill(pid, signal.SIGCONT)


def test_what_a_process_has_started_stands_as_well() -> None:
    with running("import subprocess; subprocess.Popen(['sleep', '1000'])") as pid:
        [child] = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        os.kill(pid, signal.SIGSTOP)
        assert not stands(pid)
        os.killpg(pid, signal.SIGSTOP)
        wait_until_it_stands(pid, partial(stands, pid))
        assert states(pid) == states(int(child)) == {"T"}
        os.killpg(pid, signal.SIGKILL)


def test_other_candidates_stand_before_one_is_measured(tmp_path: Path) -> None:
    cores = Cores(2, lock_file=str(tmp_path / "lock"))
    with running(POPULATES) as pid, cores.stoppable(lambda: pid):
        for _ in range(3):
            with cores.measuring():
                assert states(pid) == {"T"}


def test_nothing_is_measured_while_a_process_gives_back_its_memory(tmp_path: Path) -> None:
    cores = Cores(2, lock_file=str(tmp_path / "lock"))
    order: list[str] = []
    dying, gone = threading.Event(), threading.Event()

    class Ending:
        def halt(self) -> None:
            order.append("halted")

        def kill(self) -> None:
            dying.set()
            gone.wait()
            order.append("killed")

        def close(self) -> None:
            pass

    def measure() -> None:
        with cores.measuring():
            order.append("measured")

    cores.close_later(cast(Process, Ending()))
    assert order == ["halted"]
    dying.wait()
    measurement = threading.Thread(target=measure)
    measurement.start()
    while not cores._waiting:
        time.sleep(0.001)
    assert order == ["halted"]
    gone.set()
    measurement.join()
    assert order == ["halted", "killed", "measured"]


def test_what_computes_on_is_guilty_and_what_does_nothing_is_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(standing, "STOPPING_CPU_S", 0.2)
    monkeypatch.setattr(standing, "STOPPING_S", 1.0)
    with running("") as pid, pytest.raises(StillRuns) as end:  # nobody has told it to stop
        wait_until_it_stands(pid, partial(stands, pid))
    assert not end.value.final
    monkeypatch.setattr(standing, "STOPPING_S", 1000.0)
    spins = "import threading\ndef f():\n    while True: pass\nthreading.Thread(target=f).start()"
    with running(spins) as pid, pytest.raises(StillRuns) as end:
        wait_until_it_stands(pid, partial(stands, pid))
    assert end.value.final


def test_the_time_that_a_process_computes_is_counted() -> None:
    with running("import time\nwhile time.process_time() < 0.3: pass") as pid:
        before = cpu_s(pid)
        assert before >= 0.3
        os.kill(pid, signal.SIGSTOP)
        wait_until_it_stands(pid, partial(stands, pid))
        assert cpu_s(pid) == cpu_s(pid) >= before
    assert cpu_s(pid) == 0


def test_a_process_that_has_ended_stands() -> None:
    with running("") as pid:
        os.kill(pid, signal.SIGKILL)
        wait_until_it_stands(pid, partial(stands, pid))
    wait_until_it_stands(pid, partial(stands, pid))
