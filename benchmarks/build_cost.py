"""What does building one kernel cost, beside the loader that it was written for?

    python benchmarks/build_cost.py              # tvm-ffi, a minute
    python benchmarks/build_cost.py --torch      # torch's load_inline too, several minutes

Processor time (user and system) of the compilers of one ten-line kernel, in turn: the stock loader in a folder of its
own, then the executor's builder, whose headers are there, as after the first minute of a run. `ratio` is the builder's
time over the stock loader's, and its promise is at most 0.35.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import psutil
from executor_throughput import _source

from kernelrl.executor.api import ExecutorSettings
from kernelrl.executor.building.builder import Builder
from kernelrl.executor.processes.cores import Cores
from kernelrl.executor.processes.forking import ForkServer
from kernelrl.executor.processes.warming import forkserver_environment, start_forkserver

STOCK = """\
import resource, runpy, sys
runpy.run_path(sys.argv[1])
used = resource.getrusage(resource.RUSAGE_CHILDREN)
print(used.ru_utime + used.ru_stime)
"""
LOADERS = {"tvm_ffi": "tvm_ffi", "torch": "load_inline"}
"""By loader: the kind of candidate that uses it."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--torch", action="store_true", help="torch's load_inline too")
    parser.add_argument("--turns", type=int, default=7)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        build, compilers = _builder(folder)
        for loader in ("tvm_ffi", "torch") if options.torch else ("tvm_ffi",):
            kind = LOADERS[loader]
            build(loader, _source(kind, -1))  # the header
            stock, own = [], []
            for turn in range(options.turns if loader == "tvm_ffi" else min(options.turns, 3)):
                source = _source(kind, turn)
                stock.append(_stock(source, folder / f"{loader}{turn}"))
                before = _children_s(compilers)
                build(loader, source)
                own.append(_children_s(compilers) - before)
            ratio = float(np.median(own) / np.median(stock))
            print(f"{loader}: stock {np.median(stock):.2f} s, here {np.median(own):.2f} s of CPU, ratio {ratio:.2f}")


def _builder(folder: Path) -> tuple[Callable[[str, str], None], psutil.Process]:
    """The executor's builder, and the process whose children its compilers are."""
    scratch = folder / "scratch"
    scratch.mkdir()
    warming = start_forkserver(forkserver_environment(ExecutorSettings()))
    forkserver = ForkServer(warming, on_death=lambda: os._exit(1))
    builder = Builder(folder / "cache", scratch, forkserver, Cores(1), timeout=600.0)

    def build(loader: str, source: str) -> None:
        unit = {"loader": loader, "name": "relu_scale", "functions": ["relu_scale"], "cpp": [_native(source)]}
        built = builder.build(unit | {"cuda": [], "cflags": [], "cuda_cflags": [], "ldflags": []})
        if not built.ok or built.violations:
            raise SystemExit(f"error: {loader}: {built.log} {built.violations}")

    return build, psutil.Process(warming.pid)


def _native(source: str) -> str:
    return source.partition('SOURCE = """')[2].partition('"""')[0]


def _stock(source: str, folder: Path) -> float:
    """Processor time of the compilers that the stock loader starts (in seconds)."""
    folder.mkdir()
    (folder / "stock.py").write_text(STOCK)
    (folder / "candidate.py").write_text(source)
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    own = {"TVM_FFI_CACHE_DIR": str(folder), "TORCH_EXTENSIONS_DIR": str(folder), "PATH": path}
    command = [sys.executable, str(folder / "stock.py"), str(folder / "candidate.py")]
    result = subprocess.run(command, env=os.environ | own, check=True, capture_output=True, text=True)
    return float(result.stdout.splitlines()[-1])


def _children_s(process: psutil.Process) -> float:
    times = process.cpu_times()
    return times.children_user + times.children_system


if __name__ == "__main__":
    main()
