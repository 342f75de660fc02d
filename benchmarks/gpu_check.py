"""Everything that the executor promises on a GPU, tried on the one that is here.

    make gpu-check            # minutes; a table, and benchmarks/results/gpu-check-<device>.json
    make gpu-check AGAIN=1    # of the last result, what was wrong or did not come to be looked at

Honest GPU kernels must be accepted; cheating and broken ones must get the verdict that their first lines name, and must
not disturb the next; identical code must score 1, and a planted speedup must be found. Exits with 3 where there is no
GPU, with 1 where something is not as it must be.
"""

from __future__ import annotations

import argparse
import json
import math
import platform
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
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
    parser.add_argument("--again", action="store_true", help="look only at what the last result has not right")
    options = parser.parse_args()
    console = make_console()
    if not torch.cuda.is_available():
        console.print("gpu-check: torch sees no CUDA device here, so nothing was checked")
        return NO_GPU
    started = time.monotonic()
    result: dict[str, Any] = {"device": torch.cuda.get_device_name(0), "versions": _versions()}
    options.results.mkdir(parents=True, exist_ok=True)
    path = options.results / f"gpu-check-{result['device'].replace(' ', '-')}.json"
    last = _read_last(path, result) if options.again else {}
    result = last | result

    def save() -> None:
        """Write what is known so far: who is stopped in between has that."""
        result["seconds"] = last.get("seconds", 0.0) + time.monotonic() - started
        result["passed"] = {name: passed for name, (_, passed) in _checks(result).items()}
        path.write_text(json.dumps(result, indent=2) + "\n")

    with tempfile.TemporaryDirectory() as cache:
        settings = {"device": "cuda", "cache_dir": cache, "verdict_cache": False, "build_timeout_s": 180.0}
        if not _all_right({"timing": last.get("timing")}):
            with make_executor(settings | TIMED) as engine:
                result["timing"] = _timing(engine)
                save()
        with make_executor(settings) as engine:
            for kind in ("exploits", "honest"):
                files = sorted([*TESTS.glob(f"gpu/{kind}/*.py"), *_triton(TESTS / kind)])
                for judged in _judge_files(engine, files, kind, _right_of(last.get(kind))):
                    result[kind] = judged
                    save()
        with make_executor(settings | TIMED | {"counters": True}) as engine:
            result["counters"] = _counters(engine)
    save()
    table = Table(title=f"gpu-check on {result['device']}")
    for column in ("what", "result", "as it must be"):
        table.add_column(column)
    for name, (found, passed) in _checks(result).items():
        table.add_row(name, found, "yes" if passed else "NO")
    console.print(table)
    for kind in ("honest", "exploits"):
        for name, said in result[kind]["wrong"].items():
            console.print(f"{kind}: {name}: {said}", highlight=False, markup=False)
    console.print(str(path))
    return 0 if all(result["passed"].values()) else 1


def _checks(result: dict[str, Any]) -> dict[str, tuple[str, bool]]:
    """What was found so far, and whether it is as it must be."""
    checks: dict[str, tuple[str, bool]] = {}
    if timing := result.get("timing"):
        median, planted = (timing[name] or math.nan for name in ("median", "planted"))
        checks |= {
            "identical code: median speedup": (f"{median:.3f}", abs(median - 1) <= 0.02),
            "identical code: interval covers 1": (f"{timing['covers_1']:.1%}", timing["covers_1"] >= 0.93),
            "identical code: lower bound above 1.05": (f"{timing['false_wins']:.1%}", timing["false_wins"] < 0.005),
            "planted 1.3x": (f"{planted:.3f}", abs(planted / PLANTED_SPEEDUP - 1) <= 0.05),
        }
    for kind, name in (
        ("exploits", "exploits and faults judged as they must be"),
        ("honest", "honest kernels accepted"),
    ):
        if judged := result.get(kind):
            right = judged["number"] - len(judged["wrong"])
            checks[name] = (f"{right} of {judged['of']}", right == judged["of"])
    if counters := result.get("counters"):
        told = counters["uncounted"] or f"{counters['kernels']} kernel(s)"
        checks["counters of a kernel, if ncu is here and allowed"] = (told, counted_as_promised(counters))
        checks["under ten minutes"] = (f"{result['seconds']:.0f} s", result["seconds"] < 600)
    return checks


def _all_right(result: dict[str, Any]) -> bool:
    checks = _checks(result).values()
    return bool(checks) and all(passed for _, passed in checks)


def _read_last(path: Path, here: dict[str, Any]) -> dict[str, Any]:
    """The last result, if it is of this machine."""
    if not path.exists():
        sys.exit(f"error: there is no {path}: run `make gpu-check` without AGAIN first")
    last: dict[str, Any] = json.loads(path.read_text())
    if differing := [name for name, value in here.items() if last.get(name) != value]:
        sys.exit(f"error: {path} is of other {', '.join(differing)}: run `make gpu-check` without AGAIN")
    return last


def _right_of(judged: dict[str, Any] | None) -> tuple[Counter[str], dict[str, float | None]]:
    """Of files judged the last time: how often each status was right, and the coverage of those that were right."""
    if judged is None:
        return Counter(), {}
    wrong = Counter(said.partition(":")[0] for said in judged["wrong"].values())
    coverage = {name: share for name, share in judged["coverage"].items() if name not in judged["wrong"]}
    return Counter(judged["statuses"]) - wrong, coverage


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


def _judge_files(
    engine: Executor, files: list[Path], what: str, right: tuple[Counter[str], dict[str, float | None]]
) -> Iterator[dict[str, Any]]:
    """After each verdict, those so far against what they must be on a GPU: `correct`, or what a file's first lines
    name. Those that were right are not judged again."""
    (statuses, rows), wrong = right, dict[str, str]()
    paths = [path for path in files if path.name not in rows]
    yield {"number": len(rows), "of": len(files), "statuses": statuses, "wrong": wrong, "coverage": rows}
    for index, verdict in _judge(engine, [from_file(path) for path in paths], what):
        name, first_lines = paths[index].name, header(paths[index])
        statuses[verdict.status] += 1
        rows[name] = verdict.coverage
        if not is_expected(verdict, first_lines.get("on a GPU", first_lines.get("expect", "correct"))):
            wrong[name] = f"{verdict.status}: {verdict.feedback}"
        yield {"number": len(rows), "of": len(files), "statuses": statuses, "wrong": wrong, "coverage": rows}


def _judge(engine: Executor, requests: list[Request], what: str) -> Iterator[tuple[int, Verdict]]:
    """Verdicts as they are made; progress is shown."""
    with track(len(requests), what) as progress:
        for index, verdict in engine.stream(requests):
            yield index, verdict
            progress.advance()


def is_expected(verdict: Verdict, expect: str) -> bool:
    """Whether the status, and the rule where one is named, are among the words of an `# expect:` line."""
    words = expect.split()
    rules = {violation.rule for violation in verdict.violations}
    named = [word for word in words if "_" in word and word not in ("compile_error", "runtime_error")]
    return verdict.status in words and (verdict.status != "illegal" or not named or bool(rules & set(named)))


def _timing(engine: Executor) -> dict[str, Any]:
    requests = [_identical(source, number) for source in PROGRAMS.values() for number in range(REPEATS)]
    told = dict(_judge(engine, requests, "identical code"))
    verdicts = [told[index] for index in range(len(requests))]
    speedups = [verdict.speedup for verdict in verdicts if verdict.speedup is not None]
    requests = [_identical(PLANTED, number, "range(200)") for number in range(REPEATS // 2)]
    planted = _judge(engine, requests, "planted speedup")
    found = [verdict.speedup.median for _, verdict in planted if verdict.speedup is not None]
    overheads = [verdict.conditions.overhead_ms for verdict in verdicts if verdict.conditions is not None]
    of_each = [verdicts[first : first + REPEATS] for first in range(0, len(verdicts), REPEATS)]
    return {
        "judged": len(verdicts),
        "timed": len(speedups),
        "median": _median([each.median for each in speedups]),
        "covers_1": sum(each.low <= 1 <= each.high for each in speedups) / len(verdicts),
        "false_wins": sum(each.low > 1.05 for each in speedups) / len(verdicts),
        "planted": _median(found),
        "overhead_ms": _median(overheads),
        "programs": {name: _times(some) for name, some in zip(PROGRAMS, of_each, strict=True)},
    }


def _median(values: list[float]) -> float | None:
    """None: nothing was timed."""
    return float(np.median(values)) if values else None


def _times(verdicts: list[Verdict]) -> dict[str, float | None]:
    """Of judgements of one program: the median time of a call, and of the width of the speedup's interval."""
    timed = [verdict for verdict in verdicts if verdict.speedup is not None and verdict.reference_ms is not None]
    widths = [verdict.speedup.high - verdict.speedup.low for verdict in timed if verdict.speedup is not None]
    times = [verdict.reference_ms for verdict in timed if verdict.reference_ms is not None]
    return {"timed": len(timed), "ms": _median(times), "width": _median(widths)}


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


if __name__ == "__main__":
    sys.exit(main())
