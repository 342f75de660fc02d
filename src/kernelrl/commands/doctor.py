"""`kernelrl doctor`: what this machine can do, and the line that would install what is missing.

Nothing is concluded from a version number where it can be tried: sandbox features are used in a forked child, the
compiler compiles, the GPU is asked through torch.
"""

from __future__ import annotations

import argparse
import ctypes
import errno
import importlib.metadata
import json
import os
import platform
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Literal

import psutil
from rich.table import Table
from rich.text import Text

from kernelrl import __version__, dialects
from kernelrl.console import make_console
from kernelrl.errors import InfrastructureError
from kernelrl.training.tracking import has_key

State = Literal["ok", "limited", "missing"]
MARKS: dict[State, tuple[str, str]] = {
    "ok": ("ok", "green"),
    "limited": ("limited", "yellow"),
    "missing": ("missing", "red"),
}
CPU_COUNTERS, GPU_COUNTERS = "processor's counters", "GPU's counters"
OPTIONAL = {"GPU", CPU_COUNTERS, GPU_COUNTERS, "nvcc", "ninja", "deepspeed", "Slurm", "ray", "hydra-submitit-launcher"}
"""What one can well do without."""
CLONE_NEWUSER, CLONE_NEWNET = 0x10000000, 0x40000000
SYS_LANDLOCK_CREATE_RULESET = 444
HELLO = '#include <omp.h>\n#include <cmath>\nextern "C" int hello() { return omp_get_max_threads(); }\n'


@dataclass(frozen=True)
class Finding:
    """One thing that was looked for."""

    group: str
    name: str
    state: State
    detail: str
    install: str | None = None
    """The line that would install or enable it."""


def main(arguments: list[str]) -> int:
    """Run the command; exit code 0 where a kernel of some dialect can be compiled and run, otherwise 1."""
    parser = argparse.ArgumentParser(
        prog="kernelrl doctor", description="Show what this machine can do, and what would have to be installed."
    )
    parser.add_argument("--json", action="store_true", help="print the findings as JSON and nothing else")
    options = parser.parse_args(arguments)
    findings = examine()
    if options.json:
        print(json.dumps({"kernelrl": __version__, "findings": [asdict(finding) for finding in findings]}, indent=2))
    else:
        _print_table(findings)
    return 0 if any(finding.group == "dialects" and finding.state != "missing" for finding in findings) else 1


def examine() -> list[Finding]:
    """Everything that was found, in the order of the table."""
    # the sandbox comes first: its children are forked before torch has started threads
    sandbox = list(_sandbox())
    machine, libraries, compilers = list(_machine()), list(_libraries()), list(_compilers())
    return [
        *machine,
        *libraries,
        *compilers,
        *sandbox,
        *_dialects(compilers, _gpu().state == "ok"),
        *_trackers(),
        *_cluster(),
    ]


def _sandbox() -> Iterator[Finding]:
    reason = _in_child(lambda: _unshare(CLONE_NEWUSER))
    allow = "sysctl -w kernel.unprivileged_userns_clone=1 kernel.apparmor_restrict_unprivileged_userns=0"
    yield _tried("sandbox", "user namespaces", reason, "work", allow)
    reason = _in_child(lambda: _unshare(CLONE_NEWUSER | CLONE_NEWNET))
    yield _tried("sandbox", "network namespaces", reason, "work: candidates have no network", allow)
    abi = ctypes.CDLL(None).syscall(SYS_LANDLOCK_CREATE_RULESET, None, 0, 1)
    with tempfile.TemporaryDirectory() as allowed, tempfile.TemporaryDirectory() as forbidden:
        reason = _in_child(lambda: _confine_to(allowed, forbidden)) if abi > 0 else "the kernel does not offer it"
    yield _tried(
        "sandbox", "Landlock", reason, f"ABI {abi}: candidates write to their scratch folder only", "Linux >= 5.13"
    )
    reason = _in_child(_seccomp_blocks_sockets)
    yield _tried("sandbox", "seccomp", reason, "works: system calls are filtered", "apt-get install libseccomp2")
    with tempfile.TemporaryDirectory() as folder:
        reason = _in_child(lambda: _see_only_libraries(Path(folder)))
    yield _tried("sandbox", "noexec", reason, "works: candidates execute no file but their modules", "Linux >= 5.12")
    reason = _in_child(_close_clocks)
    yield _tried("sandbox", "clock", reason, "works: candidates have no clock", "an x86-64 processor")


def _in_child(attempt: Callable[[], None]) -> str | None:
    """Call it in a forked child; None where it came back, otherwise why not."""
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            attempt()
        except BaseException as error:
            os.write(write, f"{type(error).__name__}: {error}".encode()[:500])
            os._exit(1)
        os._exit(0)
    os.close(write)
    with open(read, "rb") as pipe:
        reason = pipe.read().decode(errors="replace")
    status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    return None if status == 0 else reason or f"exit status {status}"


def _unshare(flags: int) -> None:
    if ctypes.CDLL(None, use_errno=True).unshare(flags) != 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))


def _confine_to(allowed: str, forbidden: str) -> None:
    import landlock

    rules = landlock.Ruleset()
    rules.allow(allowed)
    rules.apply()
    Path(allowed, "file").touch()
    try:
        Path(forbidden, "file").touch()
    except PermissionError:
        return
    raise RuntimeError("a forbidden folder was written to")


def _seccomp_blocks_sockets() -> None:
    import pyseccomp

    rules = pyseccomp.SyscallFilter(defaction=pyseccomp.ALLOW)
    rules.add_rule(pyseccomp.ERRNO(errno.EPERM), "socket")
    rules.load()
    try:
        socket.socket().close()
    except PermissionError:
        return
    raise RuntimeError("a forbidden system call went through")


def _see_only_libraries(folder: Path) -> None:
    from kernelrl.executor.confinement import namespaces, sandbox

    scratch, modules = folder / "scratch", folder / "modules"
    scratch.mkdir()
    modules.mkdir()
    namespaces.leave_network()
    if "noexec" not in sandbox.confine(scratch, sandbox.Limits(1 << 30, 1 << 20), (str(modules),), modules=modules):
        raise RuntimeError("the kernel does not let a process see a few read-only folders alone")


def _close_clocks() -> None:
    from kernelrl.executor.confinement import sandbox

    if not sandbox.close_shown_clocks():
        raise RuntimeError("the kernel does not close the time-stamp counter and the vDSO's clocks")


def _tried(group: str, name: str, reason: str | None, works: str, install: str) -> Finding:
    if reason is None:
        return Finding(group, name, "ok", works)
    return Finding(group, name, "missing", reason, install)


def _machine() -> Iterator[Finding]:
    from kernelrl.executor.machine import processor
    from kernelrl.executor.quota import num_cores

    yield Finding("machine", "processor", "ok", f"{processor()}, {num_cores()} cores")
    memory = psutil.virtual_memory()
    yield Finding(
        "machine", "memory", _enough(memory.available, 4), f"{_gib(memory.available)} free of {_gib(memory.total)}"
    )
    for name, folder in (
        ("disk here", Path.cwd()),
        ("disk of the cache", Path.home()),
        ("shared memory", Path("/dev/shm")),
    ):
        if folder.exists():
            usage = shutil.disk_usage(folder)
            needed = 0.0625 if name == "shared memory" else 4
            yield Finding("machine", name, _enough(usage.free, needed), f"{_gib(usage.free)} free, {folder}")
    gpu = _gpu()
    yield gpu
    yield from _counters(gpu.state != "missing")


def _counters(on_gpu: bool) -> Iterator[Finding]:
    """Whether `executor.counters` has something to read."""
    from kernelrl.executor.processes.counters import NoCounters, try_counters

    try:
        try_counters()
    except NoCounters as error:
        yield Finding("machine", CPU_COUNTERS, "missing", f"{error} (executor.counters)", error.way_out)
    else:
        yield Finding("machine", CPU_COUNTERS, "ok", "a kernel's process is counted from outside (executor.counters)")
    if on_gpu:
        yield _nsight()


def _nsight() -> Finding:
    from kernelrl.executor.judging.nsight import ADMINISTRATORS_ONLY, ALLOW, MISSING, is_restricted

    version = _first_line("ncu", "--version", keyword="Version")
    if version is None:
        return Finding("machine", GPU_COUNTERS, "missing", MISSING, "NVIDIA's Nsight Compute")
    if is_restricted():
        return Finding("machine", GPU_COUNTERS, "limited", f"{version}; {ADMINISTRATORS_ONLY}", ALLOW)
    return Finding("machine", GPU_COUNTERS, "ok", version)


def _gib(num_bytes: float) -> str:
    return f"{num_bytes / 2**30:.1f} GiB"


def _enough(num_bytes: float, gib: float) -> State:
    return "ok" if num_bytes >= gib * 2**30 else "limited"


def _gpu() -> Finding:
    import torch

    if torch.cuda.is_available():
        names = [torch.cuda.get_device_name(index) for index in range(torch.cuda.device_count())]
        return Finding("machine", "GPU", "ok", f"{', '.join(names)} (CUDA {torch.version.cuda})")
    if shutil.which("nvidia-smi"):
        return Finding(
            "machine",
            "GPU",
            "limited",
            f"there is a driver, but torch {torch.__version__} cannot use it",
            "pip install torch",
        )
    return Finding("machine", "GPU", "missing", "none: kernels run and are timed on the CPU")


def _libraries() -> Iterator[Finding]:
    yield Finding("libraries", "python", "ok", platform.python_version())
    for name, install in (
        ("torch", "pip install torch"),
        ("transformers", "pip install transformers"),
        ("trl", "pip install trl"),
        ("triton", "pip install triton"),
        ("apache-tvm-ffi", "pip install apache-tvm-ffi"),
        ("deepspeed", "pip install 'kernelrl[gpu]'"),
    ):
        yield _package("libraries", name, install)


def _package(group: str, name: str, install: str) -> Finding:
    try:
        return Finding(group, name, "ok", importlib.metadata.version(name))
    except importlib.metadata.PackageNotFoundError:
        return Finding(group, name, "missing", "not installed", install)


def _compilers() -> Iterator[Finding]:
    from kernelrl.executor.processes.helpers import sanitizers

    version = _first_line("g++", "--version")
    if version is None:
        yield Finding("compilers", "g++", "missing", "not on PATH", "apt-get install g++")
    else:
        reason = _compile_hello()
        state: State = "ok" if reason is None else "limited"
        yield Finding(
            "compilers", "g++", state, reason or f"{version}; OpenMP works", "apt-get install g++" if reason else None
        )
        try:
            sanitizers()
        except InfrastructureError as error:
            yield Finding("compilers", "sanitizers", "limited", str(error), "apt-get install g++")
        else:
            yield Finding("compilers", "sanitizers", "ok", "right kernels can be looked at again (executor.sanitize)")
    nvcc = _first_line("nvcc", "--version", keyword="release")
    yield _program("nvcc", nvcc, "apt-get install nvidia-cuda-toolkit, or NVIDIA's CUDA toolkit")
    yield _program("ninja", _first_line("ninja", "--version"), "pip install ninja (torch's load_inline needs it)")


def _first_line(program: str, *arguments: str, keyword: str = "") -> str | None:
    """The first line of its output that holds the keyword; None where the program is not there or fails."""
    if shutil.which(program) is None:
        return None
    result = subprocess.run([program, *arguments], capture_output=True, text=True)
    lines = [line.strip() for line in result.stdout.splitlines() if keyword in line]
    return lines[0] if result.returncode == 0 and lines else None


def _compile_hello() -> str | None:
    """Compile and load a few lines of C++ with OpenMP; None where that works, otherwise why not."""
    with tempfile.TemporaryDirectory() as folder:
        library = Path(folder, "hello.so")
        command = ["g++", "-x", "c++", "-O3", "-march=native", "-fopenmp", "-shared", "-fPIC", "-o", str(library), "-"]
        result = subprocess.run(command, input=HELLO, capture_output=True, text=True)
        if result.returncode != 0:
            return f"cannot compile C++ with OpenMP: {result.stderr.strip().splitlines()[0]}"
        return _in_child(lambda: ctypes.CDLL(str(library)).hello())


def _program(name: str, version: str | None, install: str) -> Finding:
    if version is None:
        return Finding("compilers", name, "missing", "not on PATH", install)
    return Finding("compilers", name, "ok", version)


def _dialects(compilers: list[Finding], gpu: bool) -> Iterator[Finding]:
    working = {finding.name for finding in compilers if finding.state == "ok"}
    for name in dialects.names():
        if name == "cpp":
            works = "g++" in working and find_spec("tvm_ffi") is not None
            detail = "compiled, run and timed on the CPU" if works else "needs g++ and apache-tvm-ffi"
            yield Finding(
                "dialects", name, "ok" if works else "missing", detail, None if works else "apt-get install g++"
            )
        elif name == "triton" and find_spec("triton") is None:
            yield Finding("dialects", name, "missing", "needs triton", "pip install triton")
        elif name == "triton" and gpu:
            yield Finding("dialects", name, "ok", "compiled, run and timed on the GPU (executor.device=cuda)")
        elif name == "triton":
            detail = "run in Triton's interpreter, not timed; compiled for a named GPU (executor.gpu_arch)"
            yield Finding("dialects", name, "limited", detail)
        elif name == "cuda" and gpu and "nvcc" in working:
            yield Finding("dialects", name, "ok", "compiled, run and timed on the GPU (executor.device=cuda)")
        elif name == "cuda":
            works = "nvcc" in working
            detail = "compiled for a named GPU (executor.gpu_arch), not run" if works else "needs nvcc"
            yield Finding(
                "dialects",
                name,
                "limited" if works else "missing",
                detail,
                None if works else "pip install nvidia-cuda-nvcc, or NVIDIA's CUDA toolkit",
            )
        else:
            yield Finding("dialects", name, "ok", "run and timed on the CPU")


def _trackers() -> Iterator[Finding]:
    package = _package("trackers", "wandb", "pip install wandb")
    if package.state == "ok":
        detail = f"{package.detail}, online" if has_key() else f"{package.detail}, offline: no key"
        yield Finding("trackers", "wandb", "ok", detail, None if has_key() else "wandb login (for online runs)")
    else:
        yield package


def _cluster() -> Iterator[Finding]:
    if shutil.which("sbatch") is None:
        yield Finding("cluster", "Slurm", "missing", "sbatch is not on PATH", "apt-get install slurm-wlm munge")
    elif (slurm := _first_line("sbatch", "--version")) is None:
        yield Finding("cluster", "Slurm", "limited", "installed, not configured: sbatch --version fails")
    else:
        nodes = _first_line("sinfo", "--noheader", "--format=%D nodes, partition %P")
        yield Finding("cluster", "Slurm", "ok" if nodes else "limited", f"{slurm}, {nodes or 'no controller answers'}")
    yield _package("cluster", "ray", "pip install 'kernelrl[ray]'")
    yield _package("cluster", "hydra-submitit-launcher", "pip install 'kernelrl[slurm]'")


def _print_table(findings: list[Finding]) -> None:
    table = Table(title=f"kernelrl {__version__} on {platform.node()}", title_justify="left", header_style="bold")
    for column in ("", "what", "state", "found", "to install"):
        table.add_column(column, overflow="fold")
    group = ""
    for finding in findings:
        if finding.group != group and group:
            table.add_section()
        label, style = MARKS[finding.state]
        if finding.name in OPTIONAL:
            style = style.replace("red", "yellow")
        table.add_row(
            "" if finding.group == group else finding.group,
            finding.name,
            Text(label, style=style),
            Text(finding.detail),
            Text(finding.install or ""),
        )
        group = finding.group
    make_console().print(table)
