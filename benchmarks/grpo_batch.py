"""How long does a batch of GRPO wait for its verdicts?

    python benchmarks/grpo_batch.py                              # a minute or two
    python benchmarks/grpo_batch.py --against ../other/checkout  # in turn with another version, each with its own .venv

A batch is what `make demo` asks for at each step: 12 tasks (chains of elementwise operators) with 8 samples each, of
which half are duplicates and a third are wrong, under the demo's settings. No batch has a kernel of an earlier one.
Printed are the seconds of a batch, the share of the cores that the executor keeps busy, the share of the time in which
one candidate has the cores alone (exclusive), and how much of that is the timed calls themselves.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import psutil
from rich.console import Console
from rich.table import Table

from kernelrl.candidate import Candidate
from kernelrl.executor import Executor, Request, make_executor
from kernelrl.task import Task

SETTINGS = {"trials": 3, "distributions": ["ties", "negative"], "min_pairs": 6, "max_pairs": 9}
OPERATORS = {
    "torch.relu(x)": "v > 0.0f ? v : 0.0f",
    "torch.sigmoid(x)": "1.0f / (1.0f + std::exp(-v))",
    "torch.tanh(x)": "std::tanh(v)",
    "torch.abs(x)": "std::abs(v)",
}
"""In PyTorch, and in C++ for a float `v`."""
TASK = """\
import torch
import torch.nn as nn

class Model(nn.Module):
    def forward(self, x):
        x = {first}
        x = {second}
        return x * 0.5

def get_inputs():
    return [torch.randn(512, 1024)]

def get_init_inputs():
    return []
"""
KERNEL = '''\
import torch
import torch.nn as nn
from tvm_ffi.cpp import load_inline

SOURCE = """
#include <cmath>
// {salt}
void chain(tvm::ffi::TensorView x, tvm::ffi::TensorView out) {{
  const float* a = static_cast<const float*>(x.data_ptr());
  float* o = static_cast<float*>(out.data_ptr());
  int64_t n = x.numel();
  #pragma omp parallel for
  for (int64_t i = 0; i < n; ++i) {{
    float v = a[i];
    v = {first};
    v = {second};
    o[i] = v * {scale};
  }}
}}
"""
mod = load_inline(name="chain", cpp_sources=SOURCE, functions="chain", extra_cflags=["-O3", "-fopenmp"])

class ModelNew(nn.Module):
    def forward(self, x):
        out = torch.empty_like(x)
        mod.chain(x, out)
        return out
'''
COPIES = (3, 2, 2, 1)
"""How often each of a task's four distinct samples comes: the last is always wrong, the third in ten of the tasks."""
WRONG_THIRDS = 10


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--batches", type=int, default=3, help="batches of each version and turn")
    parser.add_argument("--against", type=Path, help="another checkout, measured in turn with this one")
    parser.add_argument("--turns", type=int, default=2, help="with --against: turns of both")
    parser.add_argument("--json", action="store_true", help="print one JSON object and nothing else")
    options = parser.parse_args()
    if options.against is None:
        result = measure(options.batches)
        print(json.dumps(result)) if options.json else Console().print(table({"kernelrl": result}))
        return
    interpreters = {"this": Path(sys.executable), "other": options.against / ".venv" / "bin" / "python"}
    found: dict[str, list[dict[str, Any]]] = {name: [] for name in interpreters}
    for _ in range(options.turns):
        for name, interpreter in interpreters.items():
            command = [str(interpreter), __file__, "--json", "--batches", str(options.batches)]
            done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
            found[name].append(json.loads(done.stdout.splitlines()[-1]))
    result = {name: {key: _median([run[key] for run in runs]) for key in runs[0]} for name, runs in found.items()}
    result["ratio"] = result["other"]["seconds"] / result["this"]["seconds"]
    print(json.dumps(result)) if options.json else Console().print(table(result))


def batch(number: int) -> list[Request]:
    """96 requests, the samples of one task together; in each batch with a text of their own."""
    chains = [(first, second) for first in OPERATORS for second in OPERATORS if first != second]
    requests = []
    for index, (first, second) in enumerate(chains):
        task = Task(id=f"chain-{index}", source=TASK.format(first=first, second=second))
        for sample, copies in enumerate(COPIES):
            wrong = sample == 3 or (sample == 2 and index < WRONG_THIRDS)
            source = KERNEL.format(
                salt=f"{number} {index} {sample}",
                first=OPERATORS[first],
                second=OPERATORS[second],
                scale="0.75f" if wrong else "0.5f",
            )
            if wrong and sample == 3 and index % 2:
                source = source.replace("float v = a[i];", "float v = a[i]")  # does not compile
            candidate = Candidate(source=source, dialect="cpp")
            requests += [Request(task=task, candidate=candidate, dialect="cpp")] * copies
    return requests


def measure(num_batches: int) -> dict[str, float | None]:
    """Medians over some batches of an executor that is warm."""
    runs = []
    with (
        tempfile.TemporaryDirectory() as cache,
        make_executor({**SETTINGS, "cache_dir": cache, "build_timeout_s": 300.0}) as executor,
    ):
        executor.evaluate(batch(-1)[:8])  # starts the service and makes the loader's header
        for number in range(num_batches):
            requests = batch(number)
            busy, started = _processor_time(executor), time.perf_counter()
            verdicts = executor.evaluate(requests)
            seconds = time.perf_counter() - started
            busy = _processor_time(executor) - busy
            spent = [verdict.spent for verdict in verdicts if verdict.spent and not verdict.cached]
            num_right = sum(verdict.correct for verdict in verdicts)
            if num_right != 96 - 12 - COPIES[2] * WRONG_THIRDS:
                raise SystemExit(f"error: {num_right} of 96 are correct")
            exclusive = sum(each.timed for each in spent)
            calls = sum(getattr(each, "calls", 0.0) for each in spent)  # an earlier version does not tell
            runs.append(
                {
                    "seconds": seconds,
                    "busy": busy / seconds / len(os.sched_getaffinity(0)),
                    "exclusive": exclusive / seconds,
                    "calls": calls / exclusive if calls else None,
                }
            )
    return {key: _median([run[key] for run in runs]) for key in runs[0]}


def table(result: dict[str, Any]) -> Table:
    """One line for each version."""
    shown = Table(title="a batch of 96 samples, 48 of them distinct")
    for column in ("version", "seconds", "cores busy", "exclusive", "of that calls"):
        shown.add_column(column, justify="left" if column == "version" else "right")
    for name, row in result.items():
        if isinstance(row, dict):
            calls = "—" if row["calls"] is None else f"{row['calls']:.0%}"
            shown.add_row(name, f"{row['seconds']:.1f}", f"{row['busy']:.0%}", f"{row['exclusive']:.0%}", calls)
    if "ratio" in result:
        shown.caption = f"this one is {result['ratio']:.2f} times as fast"
    return shown


def _processor_time(executor: Executor) -> float:
    """Processor time of the service, of what it has started and of what has ended of that (in seconds)."""
    service = psutil.Process(executor._service.pid)  # type: ignore[attr-defined]
    total = 0.0
    for process in (service, *service.children(recursive=True)):
        try:
            total += sum(process.cpu_times()[:4])
        except psutil.NoSuchProcess:
            continue
    return total


def _median(values: list[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return float(np.median(known)) if known else None


if __name__ == "__main__":
    main()
