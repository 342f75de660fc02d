"""A fresh fork becomes a contestant: confined before it sees untrusted text, then driven over one socket."""

from __future__ import annotations

import contextlib
import faulthandler
import os
import signal
import socket
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import torch

from kernelrl.executor import wire
from kernelrl.executor.confinement.sandbox import Limits, clock_pages, confine, name_process, tie_to_parent
from kernelrl.executor.contest.closed_pages import Helper
from kernelrl.executor.contest.contestant import Contestant
from kernelrl.executor.contest.descriptors import keep_only
from kernelrl.executor.contest.gpu import Gpu
from kernelrl.executor.contest.state import read_settings
from kernelrl.executor.legality.reading import DIALECTS, read
from kernelrl.executor.processes.note import Note
from kernelrl.executor.processes.warming import OF_CUDA

FOLDERS = ("HOME", "TMPDIR", "TRITON_CACHE_DIR", "TORCHINDUCTOR_CACHE_DIR", "XDG_CACHE_HOME")
"""Environment variables that name the scratch folder."""


def become_contestant(sock: socket.socket, log: int, note_fd: int, spec: dict[str, Any]) -> None:
    """Confine this process and serve the referee until it hangs up. Never returns normally.

    Args:
        sock: the referee's end is the only thing that this process is connected to.
        log: file that takes standard output and standard error.
        note_fd: memory that tells the referee what the process has died of.
        spec: `scratch` (folder), `modules` (folder of what the builder makes for it), `helper` (file), `memory_bytes`,
            `file_bytes`, `threads`, `device` (`cpu` or `cuda`), `may_exec` for what needs a compiler, as Triton does on
            a GPU, `filtered` unless it is trusted text, `candidate` for untrusted text on the CPU, and `sealed` where
            that, or C++ on a GPU, may not have the library compute (see `confine`).
    """
    tie_to_parent()
    name_process("contestant")
    note, helper = Note(note_fd), Helper(spec["helper"])
    sock_fd = keep_only(sock, log)
    sock = socket.socket(fileno=sock_fd)
    scratch, modules = Path(spec["scratch"]), Path(spec["modules"])
    path, cuda = os.environ.get("PATH", os.defpath), spec["device"] == "cuda"
    of_cuda = {name: os.environ[name] for name in OF_CUDA if cuda and name in os.environ}
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    spin_count = os.environ["GOMP_SPINCOUNT"]
    os.environ.clear()
    os.environ.update({name: str(scratch) for name in FOLDERS})
    tempfile.tempdir = str(scratch)  # the forkserver may have looked for one already
    if spec["may_exec"]:
        os.environ["PATH"] = path
    if cuda:
        os.environ.update(of_cuda | ({} if visible is None else {"CUDA_VISIBLE_DEVICES": visible}))
    else:
        os.environ["TRITON_INTERPRET"] = "1"
    # for OpenMP runtimes that the candidate brings along; torch's has read the forkserver's environment
    os.environ["OMP_NUM_THREADS"], os.environ["GOMP_SPINCOUNT"] = str(spec["threads"]), spin_count
    limits = Limits(memory_bytes=spec["memory_bytes"], file_bytes=spec["file_bytes"])
    gpu: Gpu | None = None

    def open_device() -> None:
        nonlocal gpu
        gpu = Gpu(jit=spec["may_exec"])

    layers = confine(
        scratch,
        limits,
        (str(modules), *folders_of_cuda(of_cuda)),
        may_exec=spec["may_exec"],
        filtered=spec["filtered"],
        bounded=spec["filtered"],
        cuda=cuda,
        open_device=open_device if cuda else None,
        modules=modules if spec["candidate"] or (cuda and spec["sealed"]) else None,
        sealed=spec["sealed"],
    )
    if torch.get_num_threads() != spec["threads"]:  # to set it starts threads that nobody uses, and that must stop too
        torch.set_num_threads(spec["threads"])
    if spec["sealed"]:  # oneDNN makes code while it runs, which this process cannot; PyTorch has its own without it
        torch.backends.mkldnn.set_flags(False)  # type: ignore[no-untyped-call]
    os.chdir(scratch)
    served = Contestant(sock, scratch, gpu, note, helper)
    with torch.no_grad():
        served.rehearse()
        if spec["sealed"]:
            read(f"{DIALECTS['triton'].example}\n", "triton", static_rules=True)  # another text than in `rehearse`
        if spec["candidate"] or cuda:
            signal.signal(signal.SIGSEGV, signal.SIG_DFL)  # instead of a handler of tvm-ffi's
            faulthandler.enable(all_threads=False)  # the log says in which line a process dies
            faulthandler.register(signal.SIGTRAP, all_threads=False, chain=True)
            faulthandler.register(signal.SIGSYS, all_threads=False)
            helper.report_faults(note.address, clock_pages(), libraries_compute=not spec["sealed"])
        wire.send(sock, {"ready": layers, "settings": read_settings()})
        served.serve()


def folders_of_cuda(variables: Mapping[str, str]) -> Iterator[str]:
    """The folders and files of the driver and the toolkit that environment variables name."""
    for name, value in variables.items():
        for path in filter(os.path.exists, value.split(os.pathsep)):
            if name != "LD_LIBRARY_PATH" or any(Path(path).glob("libcuda.so*")):
                yield path


def rehearse() -> None:
    """Do in this process, which is to be forked, what each fork does first: what is cached here is cached there."""
    with torch.no_grad(), socket.socket() as nobody, contextlib.closing(Note()) as note:
        Contestant(nobody, Path(), None, note, Helper(None)).rehearse()
    for name, dialect in DIALECTS.items():
        read(dialect.example, name, static_rules=True)
