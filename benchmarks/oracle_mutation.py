"""Does the executor notice broken kernels? Mutates every honest kernel and counts the mutants that pass.

    python benchmarks/oracle_mutation.py                 # half an hour on two cores
    python benchmarks/oracle_mutation.py --most 4 --json
    python benchmarks/oracle_mutation.py --part 1/6      # the first sixth of the kernels
    python benchmarks/oracle_mutation.py --unsanitized
    python benchmarks/oracle_mutation.py --of tasks      # ten minutes; with --folder of files of tasks of your own

A mutant is an honest kernel of `tests/honest` with one change in its native code: a boundary, an operator, a
constant, a dropped term, an axis, an initial value, a lost synchronisation, a narrower accumulator, a swapped function.
With `--of tasks` it is a task's own program with one change of an expression (`task_changes.py`), as a candidate of
`dialect=python`: what survives says which parts of a task no tried input decides, or seldom.
Mutants that do not build or load are not counted. A mutant that passes the default protocol is tried on far more inputs
(several seeds, five times the trials, every distribution, more hidden shapes); if it passes there too, it is held to be
equivalent. `score` is the share of the others that the default protocol catches.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.table import Table
from task_changes import changes as task_changes

from kernelrl.console import make_console, track
from kernelrl.data.mutation import changes
from kernelrl.executor import Request, make_executor
from kernelrl.task import Task
from kernelrl.verdict import Verdict

TESTS = Path(__file__).parent.parent / "tests"
if not TESTS.is_dir():
    sys.exit(
        f"error: {TESTS}: no such folder; this script reads the kernels of the tests, so it needs a whole checkout"
    )
sys.path.append(str(TESTS))
from candidate_files import HONEST, TASKS, header, request  # noqa: E402

SETTINGS = {"timing": False, "sanitize": True, "run_timeout_s": 5.0, "build_timeout_s": 60.0, "memory_mb": 2048}
THOROUGH = {"trials": 25, "shapes": 10}
THOROUGH_SEEDS = (101, 102, 103)
NOT_REAL = ("compile_error", "illegal", "infrastructure")


@dataclass(frozen=True)
class Mutant:
    """An honest kernel, or a task's own program, with one change."""

    of: str
    rule: str
    line: str
    source: str
    request: Request


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--of", choices=("kernels", "tasks"), default="kernels")
    parser.add_argument("--folder", type=Path, help="with --of tasks: of other tasks than those of the tests")
    parser.add_argument("--most", type=int, default=12, help="mutants of one kernel or task at most")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", action="store_true", help="print one JSON object and nothing else")
    parser.add_argument("--part", default="1/1", help="of the kernels or tasks, e.g. 1/6 and so on to 6/6")
    parser.add_argument("--unsanitized", action="store_true", help="executor.sanitize=false")
    options = parser.parse_args()
    part, num_parts = map(int, options.part.split("/"))
    some = slice(part - 1, None, num_parts)
    if options.of == "tasks":
        folder = options.folder or TESTS / "tasks"
        mutants = list(_mutants_of_tasks(sorted(folder.glob("*.py"))[some], options.most, options.seed))
    else:
        mutants = list(_mutants(HONEST[some], options.most, options.seed))
    with tempfile.TemporaryDirectory() as cache:
        settings = SETTINGS | {"cache_dir": cache, "sanitize": not options.unsanitized}
        found = _judge(mutants, settings, "judging mutants")
        real = [
            (mutant, verdict) for mutant, verdict in zip(mutants, found, strict=True) if verdict.status not in NOT_REAL
        ]
        passed = [mutant for mutant, verdict in real if verdict.correct]
        wrong: dict[Mutant, str] = {}
        for seed in THOROUGH_SEEDS:
            left = [mutant for mutant in passed if mutant not in wrong]
            verdicts = _judge(left, settings | THOROUGH | {"seed": seed}, "trying the survivors on more inputs")
            for mutant, verdict in zip(left, verdicts, strict=True):
                if not verdict.correct and verdict.status != "infrastructure":
                    wrong[mutant] = verdict.feedback
    caught = len(real) - len(passed)
    result = {
        "score": caught / max(caught + len(wrong), 1),
        "mutants": len(real),
        "caught": caught,
        "equivalent": len(passed) - len(wrong),
        "survivors": [
            {"of": mutant.of, "rule": mutant.rule, "line": mutant.line, "feedback": why}
            for mutant, why in wrong.items()
        ],
        "by_rule": _by_rule(real, wrong),
        "caught_by": dict(Counter(_inputs(verdict) for _, verdict in real if not verdict.correct)),
        "not_built": len(mutants) - len(real),
    }
    print(json.dumps(result)) if options.json else _print(result)


def _mutants(kernels: list[Path], most: int, seed: int) -> Iterator[Mutant]:
    for path in kernels:
        chooser = random.Random(f"{path.stem} {seed}")  # the same mutants, however the kernels are parted
        text, dialect = path.read_text(), header(path)["dialect"]
        if "torch.utils.cpp_extension" in text:
            continue  # twenty seconds a build
        choices = list(changes(text, dialect))
        chooser.shuffle(choices)
        for change in choices[:most]:
            asked = request(change.source, TASKS[header(path)["task"]], dialect)
            yield Mutant(path.stem, change.rule, change.after, change.source, asked)


def _mutants_of_tasks(paths: list[Path], most: int, seed: int) -> Iterator[Mutant]:
    for path in paths:
        task = Task.from_file(path)
        choices = list(task_changes(task.source))
        random.Random(f"{path.stem} {seed}").shuffle(choices)
        for change in choices[:most]:
            asked = request(change.source, task, "python")
            yield Mutant(path.stem, change.rule, f"{change.before} -> {change.after}", change.source, asked)


def _judge(mutants: list[Mutant], settings: dict[str, Any], title: str) -> list[Verdict]:
    verdicts: dict[int, Verdict] = {}
    with make_executor(settings) as executor, track(len(mutants), title) as progress:
        for index, verdict in executor.stream([mutant.request for mutant in mutants]):
            verdicts[index] = verdict
            progress.advance()
    return [verdicts[index] for index in range(len(mutants))]


def _inputs(verdict: Verdict) -> str:
    """On which inputs a mutant was first seen to be wrong."""
    return verdict.errors[0].inputs if verdict.errors else verdict.status


def _by_rule(real: list[tuple[Mutant, Verdict]], wrong: dict[Mutant, str]) -> dict[str, dict[str, int]]:
    table: dict[str, dict[str, int]] = {}
    for mutant, verdict in real:
        row = table.setdefault(mutant.rule, {"mutants": 0, "caught": 0, "equivalent": 0, "survived": 0})
        row["mutants"] += 1
        row["survived" if mutant in wrong else "equivalent" if verdict.correct else "caught"] += 1
    return table


def _print(result: dict[str, Any]) -> None:
    table = Table(title=f"oracle mutation score {result['score']:.2%} of {result['mutants']} mutants")
    for column in ("rule", "mutants", "caught", "equivalent", "survived"):
        table.add_column(column, justify="left" if column == "rule" else "right")
    for rule, row in result["by_rule"].items():
        table.add_row(rule, *(str(row[name]) for name in ("mutants", "caught", "equivalent", "survived")))
    console = make_console()
    console.print(table)
    for survivor in result["survivors"]:
        console.print(f"survived: {survivor['of']}, {survivor['rule']}: {survivor['line']}", highlight=False)


if __name__ == "__main__":
    main()
