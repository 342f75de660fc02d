"""Everything that the executor promises on a GPU, tried on the one that is here.

    make gpu-check            # some four minutes; a table, and benchmarks/results/gpu-check-<device>.json

Honest GPU kernels must be accepted; cheating and broken ones must get the verdict that their first lines name, and must
not disturb the next; identical code must score 1, and a planted speedup must be found. Exits with 3 where there is no
GPU, with 1 where something is not as it must be.
"""

from __future__ import annotations

import argparse
import json
import platform
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
import triton
from rich.table import Table

from kernelrl import dialects
from kernelrl.candidate import Candidate
from kernelrl.console import make_console, track
from kernelrl.executor import Executor, Request, make_executor
from kernelrl.executor.judging.nsight import ADMINISTRATORS_ONLY, MISSING
from kernelrl.task import Task
from kernelrl.verdict import Verdict

HERE = Path(__file__).parent
TESTS = HERE.parent / "tests"
sys.path.append(str(TESTS))
from candidate_files import from_file, header  # noqa: E402

NO_GPU = 3
REPEATS = 10
"""Judgements of identical code, for each program."""
STEPS = "y = x\n        for _ in range({steps}):\n            y = {step}\n        return y"
PROGRAM = dialects.EXAMPLE_TASK.replace("1024, 1024", "2048, 2048")


def _program(steps: int, step: str) -> str:
    """A task of several operators, which take some milliseconds together."""
    return PROGRAM.replace("return torch.relu(x) * 2.0", STEPS.format(steps=steps, step=step))


PROGRAMS = {
    "elementwise": _program(200, "torch.sin(y)"),
    "softmax": _program(80, "torch.softmax(x + y, dim=-1)"),
    "matmul": _program(8, "x @ x"),
}
PLANTED = _program(260, "torch.sin(x)")
PLANTED_SPEEDUP = 260 / 200
TIMED = {"trials": 2, "distributions": (), "shapes": 0}
"""Settings under which times are looked at: whether outputs are right is looked at before."""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--results", type=Path, default=HERE / "results", help="folder of the JSON result")
    options = parser.parse_args()
    console = make_console()
    if not torch.cuda.is_available():
        console.print("gpu-check: torch sees no CUDA device here, so nothing was checked")
        return NO_GPU
    started = time.monotonic()
    result: dict[str, Any] = {"device": torch.cuda.get_device_name(0), "versions": _versions()}
    table = Table(title=f"gpu-check on {result['device']}")
    for column in ("what", "result", "as it must be"):
        table.add_column(column)
    with tempfile.TemporaryDirectory() as cache:
        settings = {"device": "cuda", "cache_dir": cache, "verdict_cache": False, "build_timeout_s": 180.0}
        with make_executor(settings) as engine:
            for kind in ("honest", "exploits"):
                files = [*TESTS.glob(f"gpu/{kind}/*.py"), *_triton(TESTS / kind)]
                result[kind] = _judge_files(engine, files, kind)
        with make_executor(settings | TIMED) as engine:
            result["timing"] = _timing(engine)
        with make_executor(settings | TIMED | {"counters": True}) as engine:
            result["counters"] = _counters(engine)
    result["seconds"] = time.monotonic() - started
    checks = {
        "honest kernels accepted": (_share(result["honest"]), not result["honest"]["wrong"]),
        "exploits and faults judged as they must be": (_share(result["exploits"]), not result["exploits"]["wrong"]),
    }
    timing = result["timing"]
    checks |= {
        "identical code: median speedup": (f"{timing['median']:.3f}", abs(timing["median"] - 1) <= 0.02),
        "identical code: interval covers 1": (f"{timing['covers_1']:.1%}", timing["covers_1"] >= 0.93),
        "identical code: lower bound above 1.05": (f"{timing['false_wins']:.1%}", timing["false_wins"] < 0.005),
        "planted 1.3x": (f"{timing['planted']:.3f}", abs(timing["planted"] / PLANTED_SPEEDUP - 1) <= 0.05),
        "counters of a kernel, if ncu is here and allowed": (
            result["counters"]["uncounted"] or f"{result['counters']['kernels']} kernel(s)",
            counted_as_promised(result["counters"]),
        ),
        "under ten minutes": (f"{result['seconds']:.0f} s", result["seconds"] < 600),
    }
    result["passed"] = {name: passed for name, (_, passed) in checks.items()}
    for name, (found, passed) in checks.items():
        table.add_row(name, found, "yes" if passed else "NO")
    console.print(table)
    for kind in ("honest", "exploits"):
        for name, said in result[kind]["wrong"].items():
            console.print(f"{kind}: {name}: {said}", highlight=False, markup=False)
    options.results.mkdir(parents=True, exist_ok=True)
    path = options.results / f"gpu-check-{result['device'].replace(' ', '-')}.json"
    path.write_text(json.dumps(result, indent=2) + "\n")
    console.print(str(path))
    return 0 if all(result["passed"].values()) else 1


def _versions() -> dict[str, str]:
    nvcc = subprocess.run(["nvcc", "--version"], capture_output=True, text=True, check=False).stdout.splitlines()
    driver = ["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"]
    return {
        "python": platform.python_version(),
        "torch": torch.__version__,
        "triton": triton.__version__,
        "nvcc": nvcc[-1] if nvcc else "",
        "driver": subprocess.run(driver, capture_output=True, text=True, check=False).stdout.strip(),
    }


def _triton(folder: Path) -> list[Path]:
    return [path for path in sorted(folder.glob("*.py")) if header(path)["dialect"] == "triton"]


def _judge(engine: Executor, requests: list[Request], what: str) -> list[Verdict]:
    """Verdicts in the order of the requests; progress is shown."""
    verdicts = {}
    with track(len(requests), what) as progress:
        for index, verdict in engine.stream(requests):
            verdicts[index] = verdict
            progress.advance()
    return [verdicts[index] for index in range(len(requests))]


def _judge_files(engine: Executor, paths: list[Path], what: str) -> dict[str, Any]:
    """Verdicts of candidate files against what they must be on a GPU: `correct`, or what their first lines name."""
    paths = sorted(paths)
    wrong = {}
    statuses: dict[str, int] = {}
    for path, verdict in zip(paths, _judge(engine, [from_file(path) for path in paths], what), strict=True):
        statuses[verdict.status] = statuses.get(verdict.status, 0) + 1
        first_lines = header(path)
        if not is_expected(verdict, first_lines.get("on a GPU", first_lines.get("expect", "correct"))):
            wrong[path.name] = f"{verdict.status}: {verdict.feedback}"
    return {"number": len(paths), "statuses": statuses, "wrong": wrong}


def is_expected(verdict: Verdict, expect: str) -> bool:
    """Whether the status, and the rule where one is named, are among the words of an `# expect:` line."""
    words = expect.split()
    rules = {violation.rule for violation in verdict.violations}
    named = [word for word in words if "_" in word and word not in ("compile_error", "runtime_error")]
    return verdict.status in words and (verdict.status != "illegal" or not named or bool(rules & set(named)))


def _timing(engine: Executor) -> dict[str, Any]:
    requests = [_identical(source, number) for source in PROGRAMS.values() for number in range(REPEATS)]
    verdicts = _judge(engine, requests, "identical code")
    speedups = [verdict.speedup for verdict in verdicts if verdict.speedup is not None]
    requests = [_identical(PLANTED, number, "range(200)") for number in range(REPEATS // 2)]
    planted = _judge(engine, requests, "planted speedup")
    found = [verdict.speedup.median for verdict in planted if verdict.speedup is not None]
    overheads = [verdict.conditions.overhead_ms for verdict in verdicts if verdict.conditions is not None]
    of_each = [verdicts[first : first + REPEATS] for first in range(0, len(verdicts), REPEATS)]
    return {
        "judged": len(verdicts),
        "timed": len(speedups),
        "median": float(np.median([each.median for each in speedups])),
        "covers_1": float(np.mean([each.low <= 1 <= each.high for each in speedups])),
        "false_wins": float(np.mean([each.low > 1.05 for each in speedups])),
        "planted": float(np.median(found)),
        "overhead_ms": float(np.median(overheads)),
        "programs": {name: _times(some) for name, some in zip(PROGRAMS, of_each, strict=True)},
    }


def _times(verdicts: list[Verdict]) -> dict[str, float | int]:
    """Of judgements of one program: the median time of a call, and of the width of the speedup's interval."""
    timed = [verdict for verdict in verdicts if verdict.speedup is not None and verdict.reference_ms is not None]
    widths = [verdict.speedup.high - verdict.speedup.low for verdict in timed if verdict.speedup is not None]
    times = [verdict.reference_ms for verdict in timed if verdict.reference_ms is not None]
    return {"timed": len(timed), "ms": float(np.median(times)), "width": float(np.median(widths))}


def _counters(engine: Executor) -> dict[str, Any]:
    """What Nsight Compute says of one kernel in its confinement."""
    (verdict,) = engine.evaluate([_identical(PROGRAMS["elementwise"], 0)])
    told = [counters.model_dump() for counters in verdict.gpu_counters]
    return {"kernels": len(told), "counters": told, "uncounted": verdict.uncounted}


def counted_as_promised(told: dict[str, Any]) -> bool:
    """Whether there are counters of a kernel, or a reason that no kernelrl can do away with."""
    return bool(told["kernels"]) or told["uncounted"].startswith((MISSING, ADMINISTRATORS_ONLY))


def _identical(source: str, number: int, steps: str = "range(260)") -> Request:
    """The reference under another name; `steps` replaces its loop's of 260."""
    text = source.replace("class Model(", "class ModelNew(").replace("range(260)", steps)
    candidate = Candidate(source=f"{text}# {number}\n", dialect="python")
    return Request(task=Task(id="identical", source=source), candidate=candidate, dialect="python")


def _share(judged: dict[str, Any]) -> str:
    return f"{judged['number'] - len(judged['wrong'])} of {judged['number']}"


if __name__ == "__main__":
    sys.exit(main())
