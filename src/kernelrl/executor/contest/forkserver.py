"""The forkserver: a warm, single-threaded process that forks contestants and compilers.

Everything that a contestant needs is imported here once, so that a fork starts with it (10 ms instead of seconds). It
must stay single-threaded and must never run a parallel region: threads do not survive a fork.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import math
import os
import resource
import selectors
import socket
import sys
import traceback
from pathlib import Path
from typing import Any

from kernelrl.executor.confinement.files import system_paths
from kernelrl.executor.confinement.namespaces import enter_namespaces_of_a_profiler, leave_network
from kernelrl.executor.confinement.sandbox import (
    Limits,
    clock_pages,
    confine,
    confine_profiler,
    name_process,
    tie_to_parent,
)
from kernelrl.executor.confinement.system_calls import filter_profiler

if __name__ == "__main__":
    leave_network()  # which only a process of one thread can: importing torch starts another
    gc.disable()  # it would look at what is imported again and again, and all of that stays

import torch.backends.cpu  # noqa: E402
import torch.utils.cpp_extension  # noqa: E402
import triton.language  # noqa: E402
import tvm_ffi.cpp  # noqa: E402, F401

from kernelrl.executor import wire  # noqa: E402
from kernelrl.executor.contest.starting import become_contestant, folders_of_cuda, rehearse  # noqa: E402
from kernelrl.executor.processes.warming import OF_CUDA, Warming  # noqa: E402

COLLAPSE_AT = 16
"""The fork before which this process's memory is put into huge pages.

A fork copies the table of every page and an exit drops it; with one entry for 512 of them both take half the time. But
it takes a third of a second, too long for an executor that judges a candidate or two.
"""
REHEARSALS = 10
"""Python adapts its code to what it meets, after eight runs at the latest: a fork that does so copies each page."""
RUNTIME_OF_MODULES = ("libgomp.so.1", "libmvec.so.1", "libatomic.so.1")
"""Libraries that compiled modules need; a candidate's process cannot load any that is not loaded already."""
OF_A_PROGRAM = ("CUDA_VISIBLE_DEVICES", "PYTHONPATH", *OF_CUDA)
"""Environment variables that a profiled program needs: which device it may use, and where kernelrl and CUDA are."""
_HUGE_PAGE = 2 << 20
_MADV_COLLAPSE = 25
_LIBC = ctypes.CDLL(None)


def fork(*others: int) -> Warming:
    """Start a forkserver as a fork of this process, so that both import torch once.

    Args:
        others: descriptors of this process that are none of the forkserver's.
    """
    control, other_end = socket.socketpair()
    pid = os.fork()
    if pid == 0:
        try:
            os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
            for fd in (control.detach(), *others):
                os.close(fd)
            leave_network()
            main(other_end)
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(1)
    other_end.close()
    return Warming(pid, control)


def main(control: socket.socket) -> None:
    """Serve fork requests until the service hangs up.

    A request is `{"spawn": token, "kind": "contestant" | "compiler", …}` with its descriptors; the replies
    are `{"spawned": token, "pid": pid}` and, later, `{"exited": pid, "status": wait status}`.
    """
    tie_to_parent()
    name_process("forkserver")
    sys.dont_write_bytecode = True
    _warm_up()
    gc.collect()
    gc.freeze()
    gc.enable()
    wire.send(control, {"ready": True})
    news = selectors.DefaultSelector()  # children by pidfd: SIGCHLD would come whenever a child is stopped, too
    news.register(control, selectors.EVENT_READ)
    while True:
        readable = [key for key, _ in news.select()]
        for key in readable:
            if (pid := key.data) is not None:
                news.unregister(key.fd)
                os.close(key.fd)
                wire.send(control, {"exited": pid, "status": os.waitpid(pid, 0)[1]})
        if any(key.data is None for key in readable):
            try:
                request, fds = wire.receive(control, max_fds=3)
            except wire.WireError:
                os._exit(0)
            token = request.pop("spawn")
            if token == COLLAPSE_AT and "ASAN_OPTIONS" not in os.environ:  # its map of memory would become real
                _collapse_memory()
            pid = os.fork()
            if pid == 0:
                _become(request, fds)
            news.register(os.pidfd_open(pid), selectors.EVENT_READ, data=pid)
            for fd in fds:
                os.close(fd)
            wire.send(control, {"spawned": token, "pid": pid})


def _warm_up() -> None:
    triton.runtime.jit.mangle_type(0)  # its first use imports much
    if "TRITON_INTERPRET" in os.environ:
        from kernelrl.executor.contest import interpreted, programs

        interpreted.install()
        programs.install(in_any_order=lambda: os.urandom(1)[0] % 2 == 0)
    else:
        from kernelrl.executor.contest import compiled_kernels

        compiled_kernels.install()
    system_paths(), clock_pages()  # found once for all that are forked
    torch.backends.cpu.get_cpu_capability()  # found in files that a candidate does not see
    for _ in range(REHEARSALS):
        rehearse()
    driver = () if "TRITON_INTERPRET" in os.environ else ("libcuda.so.1",)  # its files are found by it
    for library in (*RUNTIME_OF_MODULES, *driver):
        with contextlib.suppress(OSError):  # it is not on every machine
            ctypes.CDLL(library)


def _collapse_memory() -> None:
    """Put this process's own memory into huge pages. Kernels before 6.1 leave it as it is."""
    for line in Path("/proc/self/maps").read_text().splitlines():
        ends, access, _, _, _, *name = line.split()
        if access == "rw-p" and name in ([], ["[heap]"]):
            low, high = (int(end, 16) for end in ends.split("-"))
            low, high = -(-low // _HUGE_PAGE) * _HUGE_PAGE, high // _HUGE_PAGE * _HUGE_PAGE
            if low < high:
                _LIBC.madvise(ctypes.c_void_p(low), ctypes.c_size_t(high - low), _MADV_COLLAPSE)


def _become(request: dict[str, Any], fds: list[int]) -> None:
    """Turn this fresh child into what was asked for."""
    try:
        os.setsid()
        match request.pop("kind"):
            case "contestant":
                become_contestant(socket.socket(fileno=fds[0]), fds[1], fds[2], request)
            case "compiler":
                _compile(fds[0], **request)
    except BaseException as error:
        os.write(2, f"{type(error).__name__}: {error}\n".encode())
    finally:
        os._exit(1)


def _compile(
    log: int,
    command: list[str],
    folder: str,
    readable: list[str],
    memory_bytes: int,
    file_bytes: int,
    cpu_s: float,
    profiled: bool,
) -> None:
    """Run a compiler on untrusted text: it may read headers and write to its own folder, and nothing else.

    A profiler, which runs the text's kernels, has the device too, and a root of its own (`confine_profiler`), an empty
    folder in memory, a network that reaches nobody else, and a filter of system calls; where that cannot be had it does
    not run.
    """
    tie_to_parent()
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.dup2(log, 1)
    os.dup2(log, 2)
    os.closerange(3, 4096)
    limits = Limits(memory_bytes, file_bytes)
    if profiled:
        enter_namespaces_of_a_profiler(Path(folder), file_bytes)
    else:
        confine(
            Path(folder),
            limits,
            tuple(readable),
            may_exec=True,
            own_processes=True,
            filtered=False,
            bounded=False,
        )
    os.chdir(folder)
    cpu_limit = math.ceil(cpu_s)
    resource.setrlimit(resource.RLIMIT_CPU, (cpu_limit, cpu_limit + 5))  # of each of its processes
    compiler = os.fork()
    if compiler:
        os._exit(os.waitstatus_to_exitcode(os.waitpid(compiler, 0)[1]) & 0xFF)
    tie_to_parent()
    environment = {"PATH": os.environ.get("PATH", os.defpath), "TMPDIR": folder, "HOME": folder, "LC_ALL": "C"}
    if profiled:
        of_program = {name: os.environ[name] for name in OF_A_PROGRAM if name in os.environ}
        confine_profiler(Path(folder), limits, (*readable, *folders_of_cuda(of_program)))
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)  # by the one from outside it could change that file's mode
        if not filter_profiler():
            raise RuntimeError("system calls are not filtered")
        environment |= of_program
    os.execvpe(command[0], command, environment)


if __name__ == "__main__":
    main(socket.socket(fileno=int(sys.argv[1])))
