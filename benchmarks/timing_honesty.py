"""Does identical code score 1? Is a true speedup found?

    python benchmarks/timing_honesty.py                # 300 judgements, 20 of a planted 1.3x
    python benchmarks/timing_honesty.py --repeats 60 --json

Every judgement times a reference against the same program under another name, so that the true speedup is 1: half of
them alone, half while kernels are being built beside them in the same executor. The planted one does the same work 10
times where the reference does it 13 times. Settings are the default ones.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import threading
from typing import Any

import numpy as np
from rich.table import Table

from kernelrl import dialects
from kernelrl.candidate import Candidate
from kernelrl.console import make_console, track
from kernelrl.executor import Executor, Request, make_executor
from kernelrl.task import Task
from kernelrl.verdict import Verdict

FALSE_WIN = 1.05
TASK = """\
import torch
import torch.nn as nn

class Model(nn.Module):
    def forward(self, {arguments}):
        {body}

def get_inputs():
    return [{inputs}]

def get_init_inputs():
    return []
"""
PROGRAMS = {
    "elementwise": TASK.format(arguments="x", body="return torch.relu(x) * 2.0", inputs="torch.randn(512, 1024)"),
    "softmax": TASK.format(arguments="x", body="return torch.softmax(x, dim=-1)", inputs="torch.randn(256, 1024)"),
    "matmul": TASK.format(arguments="x, y", body="return x @ y", inputs="torch.randn(384, 384), torch.randn(384, 384)"),
    "small": TASK.format(arguments="x", body="return x + 1.0", inputs="torch.randn(64, 64)"),
}
STEPS = "for _ in range({steps}):\n            y = torch.sin(x)\n        return y"
PLANTED = TASK.format(arguments="x", body=STEPS.format(steps=13), inputs="torch.randn(256, 1024)")
PLANTED_SPEEDUP = 1.3


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=300)
    parser.add_argument("--json", action="store_true", help="print one JSON object and nothing else")
    options = parser.parse_args()

    with (
        tempfile.TemporaryDirectory() as cache,
        make_executor({"cache_dir": cache, "verdict_cache": False}) as executor,
    ):
        half = options.repeats // 2
        alone = _judge_same(executor, half, "identical code, alone")
        stop = threading.Event()
        beside = threading.Thread(target=_keep_building, args=(executor, stop))
        beside.start()
        built = _judge_same(executor, options.repeats - half, "identical code, beside builds")
        stop.set()
        beside.join()
        faster = PLANTED.replace("range(13)", "range(10)")
        planted = [_judge(executor, PLANTED, faster, index) for index in range(max(options.repeats // 15, 1))]

    result: dict[str, Any] = _summary([*alone, *built])
    result |= {"alone": _summary(alone), "beside_builds": _summary(built)}
    result["planted"] = {
        "true": PLANTED_SPEEDUP,
        "median": float(np.median([_speedup(verdict).median for verdict in planted])),
        "runs": len(planted),
    }
    print(json.dumps(result)) if options.json else make_console().print(_table(result))


def _judge_same(executor: Executor, repeats: int, title: str) -> list[Verdict]:
    programs = list(PROGRAMS.values())
    with track(repeats, title) as progress:
        verdicts = []
        for index in range(repeats):
            source = programs[index % len(programs)]
            verdicts.append(_judge(executor, source, source, index))
            progress.advance()
    return verdicts


def _judge(executor: Executor, reference: str, candidate: str, index: int) -> Verdict:
    source = candidate.replace("class Model(", "class ModelNew(") + f"\n# {index}\n"
    task = Task(id="timing", source=reference)
    request = Request(task=task, candidate=Candidate(source=source, dialect="python"), dialect="python")
    [verdict] = executor.evaluate([request])
    if not verdict.correct:
        raise SystemExit(f"error: {verdict.status}: {verdict.feedback}")
    return verdict


def _keep_building(executor: Executor, stop: threading.Event) -> None:
    """Judge kernels that have never been built, two at a time, until told to stop."""
    task = Task(id="beside", source=dialects.EXAMPLE_TASK)
    number = 0
    while not stop.is_set():
        requests = []
        for _ in range(2):
            number += 1
            source = dialects.get("cpp").example.replace("void relu_scale", f"// {number}\nvoid relu_scale")
            requests.append(Request(task=task, candidate=Candidate(source=source, dialect="cpp"), dialect="cpp"))
        executor.evaluate(requests)


def _speedup(verdict: Verdict) -> Any:
    assert verdict.speedup is not None
    return verdict.speedup


def _summary(verdicts: list[Verdict]) -> dict[str, Any]:
    found = [_speedup(verdict) for verdict in verdicts]
    return {
        "runs": len(found),
        "median": float(np.median([each.median for each in found])),
        "covers_1": float(np.mean([each.low <= 1 <= each.high for each in found])),
        "false_wins": float(np.mean([each.low > FALSE_WIN for each in found])),
        "pairs": float(np.mean([each.pairs for each in found])),
        "width": float(np.median([each.high - each.low for each in found])),
    }


def _table(result: dict[str, Any]) -> Table:
    table = Table(title="identical code against itself")
    for column in ("", "runs", "median", "interval covers 1", f"low > {FALSE_WIN}", "pairs", "width"):
        table.add_column(column, justify="right" if column else "left")
    for name, row in (("all", result), ("alone", result["alone"]), ("beside builds", result["beside_builds"])):
        table.add_row(
            name,
            str(row["runs"]),
            f"{row['median']:.3f}",
            f"{row['covers_1']:.1%}",
            f"{row['false_wins']:.1%}",
            f"{row['pairs']:.1f}",
            f"{row['width']:.3f}",
        )
    planted = result["planted"]
    table.caption = f"planted {planted['true']}x: found {planted['median']:.3f}x (median of {planted['runs']})"
    return table


if __name__ == "__main__":
    main()
