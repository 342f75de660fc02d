"""How fast is a verdict, beside the way it is usually made?

    python benchmarks/executor_throughput.py           # ten minutes; most of it is the usual way's load_inline
    python benchmarks/executor_throughput.py --kinds python triton --json

The usual way is a fresh Python process per candidate that imports torch, builds with the candidate's own loader, checks
five times with `allclose` and times a hundred calls; as many at once as there are cores. Both judge the same distinct
candidates in one run, the executor with its default settings and empty caches, but warm (its service and the loaders'
precompiled headers are there, as after the first minute of a training run). `ratio` is the usual way's time over ours.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import psutil
from rich.table import Table

from kernelrl import dialects
from kernelrl.candidate import Candidate
from kernelrl.console import console, make_console
from kernelrl.executor import Executor, Request, make_executor
from kernelrl.task import Task

TASK = Task(id="relu_scale", source=dialects.EXAMPLE_TASK.replace("1024, 1024", "256, 1024"))
TORCH_EXAMPLE = '''\
import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

SOURCE = """
torch::Tensor relu_scale(torch::Tensor x) {
  auto out = torch::empty_like(x);
  const float* a = x.data_ptr<float>();
  float* o = out.data_ptr<float>();
  const int64_t n = x.numel();
  #pragma omp parallel for
  for (int64_t i = 0; i < n; ++i) o[i] = (a[i] > 0.0f ? a[i] : 0.0f) * 2.0f;
  return out;
}
"""
module = load_inline(name="relu_scale", cpp_sources=SOURCE, functions="relu_scale", extra_cflags=["-O3", "-fopenmp"])

class ModelNew(nn.Module):
    def forward(self, x):
        return module.relu_scale(x)
'''
KINDS = {
    "python": ("python", dialects.get("python").example, 32),
    "triton": ("triton", dialects.get("triton").example, 16),
    "tvm_ffi": ("cpp", dialects.get("cpp").example, 16),
    "load_inline": ("cpp", TORCH_EXAMPLE, 4),
}
"""Kind of candidate: its dialect, its text, and how many distinct ones are judged."""
USUAL = """\
import importlib.util, sys, time, torch

def load(path, name):
    spec = importlib.util.spec_from_file_location(name, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module

reference, candidate = load(sys.argv[1], "reference"), load(sys.argv[2], "candidate")
torch.manual_seed(42)
ours, theirs = reference.Model(), candidate.ModelNew()
for seed in range(5):
    torch.manual_seed(seed)
    inputs = reference.get_inputs()
    assert torch.allclose(ours(*inputs), theirs(*inputs), rtol=1e-4, atol=1e-4)
if sys.argv[3] == "time":
    for model in (ours, theirs):
        for _ in range(100):
            started = time.perf_counter()
            model(*inputs)
            time.perf_counter() - started
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kinds", nargs="+", choices=KINDS, default=list(KINDS))
    parser.add_argument("--warm", type=int, default=200, help="warm evaluations for the overhead")
    parser.add_argument("--json", action="store_true", help="print one JSON object and nothing else")
    options = parser.parse_args()
    result: dict[str, Any] = {"cores": len(os.sched_getaffinity(0)), "ratio": {}, "ratio_seen": {}, "seconds": {}}
    result["wakeup_us"] = _wakeup()
    with tempfile.TemporaryDirectory() as cache:
        with make_executor({"cache_dir": cache, "build_timeout_s": 300.0}) as executor:
            for kind in options.kinds:
                console.print(f"{kind}: ours", highlight=False)
                executor.evaluate(_requests(kind, [-1]))  # the loader's header, the reference
                numbers = list(range(KINDS[kind][2]))
                ours = _timed(executor, kind, numbers)
                again = _timed(executor, kind, numbers)
                console.print(
                    f"{kind}: {ours:.2f} s each, {again:.4f} s when seen before; the usual way", highlight=False
                )
                usual = _usual_way(kind, numbers)
                result["ratio"][kind] = usual / ours
                result["ratio_seen"][kind] = usual / again
                result["seconds"][kind] = {"ours": ours, "seen": again, "usual": usual}
        started = time.perf_counter()
        with make_executor({"cache_dir": cache}) as executor:
            executor.evaluate(_requests("python", [-3]))
            result["start_s"] = time.perf_counter() - started
            result["overhead_ms"] = _overhead(executor, options.warm, group="one")
            result["alone_ms"] = _overhead(executor, max(1, options.warm // 4), group=None)
            result["build_cpu_s"] = _build_cpu(executor)
            result["idle_worker_mb"] = _idle_workers(executor)
    print(json.dumps(result)) if options.json else make_console().print(_table(result))


def _wakeup() -> float:
    """Time in which one process wakes another on this machine (in microseconds): a verdict takes some 200 of them."""
    microseconds = []
    with subprocess.Popen(["cat"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0) as echo:
        assert echo.stdin is not None and echo.stdout is not None
        for _ in range(5000):
            started = time.perf_counter()
            echo.stdin.write(b"x")
            echo.stdout.read(1)
            microseconds.append((time.perf_counter() - started) / 2 * 1e6)
    return float(np.median(microseconds))


def _source(kind: str, number: int) -> str:
    """A candidate that differs from every other, in its native code too."""
    text = KINDS[kind][1].replace('SOURCE = """', f'SOURCE = """// {number}')
    return f"{text}# {number}\n"


def _requests(kind: str, numbers: list[int]) -> list[Request]:
    dialect = KINDS[kind][0]
    candidates = [Candidate(source=_source(kind, number), dialect=dialect) for number in numbers]
    return [Request(task=TASK, candidate=candidate, dialect=dialect) for candidate in candidates]


def _timed(executor: Executor, kind: str, numbers: list[int]) -> float:
    """Time of one verdict in a batch (in seconds)."""
    started = time.perf_counter()
    for verdict in executor.evaluate(_requests(kind, numbers)):
        if not verdict.correct:
            raise SystemExit(f"error: {kind}: {verdict.status}: {verdict.feedback}")
    return (time.perf_counter() - started) / len(numbers)


def _usual_way(kind: str, numbers: list[int]) -> float:
    """Time of one judgement in processes of their own (in seconds)."""
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "usual.py").write_text(USUAL)
        (Path(folder) / "reference.py").write_text(TASK.source)

        def judge(number: int) -> None:
            home = Path(folder) / str(number)
            home.mkdir()
            (home / "candidate.py").write_text(_source(kind, number))
            environment = os.environ | {
                "TVM_FFI_CACHE_DIR": str(home),
                "TORCH_EXTENSIONS_DIR": str(home),
                "TRITON_INTERPRET": "1",
                "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
            }
            timed = "check" if kind == "triton" else "time"  # the interpreter's time is nobody's
            command = [sys.executable, f"{folder}/usual.py", f"{folder}/reference.py", f"{home}/candidate.py", timed]
            subprocess.run(command, check=True, capture_output=True, env=environment)

        started = time.perf_counter()
        with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
            list(pool.map(judge, numbers))
        return (time.perf_counter() - started) / len(numbers)


def _overhead(executor: Executor, repeats: int, group: str | None) -> dict[str, float]:
    """Time of a warm evaluation beyond the candidate's own calls (in milliseconds): built before, judged anew.

    Candidates of one `group` were written before any of their verdicts was known, and share inputs. Without one, each
    is judged after somebody has seen the last verdict, and so meets inputs of its own, which are made for it.
    """
    source = _source("tvm_ffi", -2)
    milliseconds = []
    for number in range(-5, repeats):
        candidate = Candidate(source=f"{source}# warm {number} {group}\n", dialect="cpp")
        started = time.perf_counter()
        [verdict] = executor.evaluate([Request(task=TASK, candidate=candidate, dialect="cpp", group=group)])
        wall = (time.perf_counter() - started) * 1e3
        assert verdict.candidate_ms is not None and verdict.build is not None
        if number >= 0:
            milliseconds.append(wall - verdict.trials * verdict.candidate_ms - verdict.build.seconds * 1e3)
    return {f"p{q}": float(np.percentile(milliseconds, q)) for q in (50, 90, 99)}


def _build_cpu(executor: Executor) -> float:
    """Processor time of building one ten-line kernel (in seconds), median of five."""
    seconds = []
    for number in range(100, 105):
        before = _cpu_of_children(executor)
        executor.evaluate([request] if (request := _requests("tvm_ffi", [number])[0]) else [])
        building = _cpu_of_children(executor) - before
        before = _cpu_of_children(executor)
        again = Candidate(source=_source("tvm_ffi", number) + "# the same build\n", dialect="cpp")
        executor.evaluate([Request(task=TASK, candidate=again, dialect="cpp")])
        seconds.append(building - (_cpu_of_children(executor) - before))
    return float(np.median(seconds))


def _tree(executor: Executor) -> list[psutil.Process]:
    service = psutil.Process(executor._service.pid)  # type: ignore[attr-defined]
    return [service, *service.children(recursive=True)]


def _cpu_of_children(executor: Executor) -> float:
    """Processor time of the forkserver's children that have ended (in seconds)."""
    return sum(times.children_user + times.children_system for times in (p.cpu_times() for p in _tree(executor)[1:2]))


def _idle_workers(executor: Executor) -> float:
    """Proportional memory of the forkserver and the references that wait beside it, each (in MiB)."""
    time.sleep(2.0)  # until the last candidates' processes are gone
    processes = _tree(executor)[1:]
    return sum(process.memory_full_info().pss for process in processes) / len(processes) / (1 << 20)


def _table(result: dict[str, Any]) -> Table:
    table = Table(title=f"time per verdict on {result['cores']} cores (s)")
    for column in ("candidates", "usual way", "kernelrl", "ratio", "seen before", "ratio"):
        table.add_column(column, justify="right" if column != "candidates" else "left")
    for kind, seconds in result["seconds"].items():
        table.add_row(
            kind,
            f"{seconds['usual']:.2f}",
            f"{seconds['ours']:.3f}",
            f"{result['ratio'][kind]:.1f}x",
            f"{seconds['seen']:.4f}",
            f"{result['ratio_seen'][kind]:.0f}x",
        )
    overhead, alone = result["overhead_ms"], result["alone_ms"]
    table.caption = (
        f"overhead of a warm evaluation: p50 {overhead['p50']:.0f} ms, p99 {overhead['p99']:.0f} ms in a group, "
        f"p50 {alone['p50']:.0f} ms on inputs of its own; build of a "
        f"ten-line kernel {result['build_cpu_s']:.2f} s of CPU; idle worker {result['idle_worker_mb']:.0f} MiB; "
        f"first verdict of a new executor {result['start_s']:.1f} s; one process wakes another in "
        f"{result['wakeup_us']:.0f} µs"
    )
    return table


if __name__ == "__main__":
    main()
