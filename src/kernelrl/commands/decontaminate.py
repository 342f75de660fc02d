"""`kernelrl decontaminate TRAIN BENCHMARK...`: training tasks that are in a benchmark, however they are written."""

from __future__ import annotations

import argparse
import json
import tempfile
from pathlib import Path

from kernelrl.commands.arguments import Parser
from kernelrl.configs import compose_config
from kernelrl.console import console, make_console, set_up_logging
from kernelrl.data import decontamination
from kernelrl.data.decontamination.report import match_table, summary_table
from kernelrl.data.tables import read_json_lines
from kernelrl.errors import UserError
from kernelrl.stage_folder import require_writable

PROGRAM = "kernelrl decontaminate"
USAGE = "kernelrl decontaminate TRAIN BENCHMARK... [key=value ...] [--output FOLDER] [--json]"
DESCRIPTION = """\
Compare training tasks with benchmarks: the same source, the same program up to names, order and dead code, the same
graph of operators, or nearly the same tokens. The tasks are run, in worker processes, on tensors without data."""
EPILOG = """\
TRAIN and BENCHMARK are files (.py, .jsonl, .parquet with programs) or folders of .py files in KernelBench's format.

main overrides:
  decontamination.drop=[exact,ast,graph]   kinds that cost a training task its place (all, also near)
  decontamination.sizes=true               the same program with other shapes and numbers is no match
  decontamination.min_operators=N          what is common-place: a match of fewer operators with other sizes (2)
  decontamination.near_threshold=X         share of token shingles from which programs are near-duplicates (0.8)

exit code: 0 nothing to drop, 1 training tasks to drop, 2 bad usage, 3 the machine failed.
The JSON is the report with the matches (docs/data-decontamination.md). --output writes the report to
FOLDER/contamination.json, the matches to FOLDER/matches.jsonl, the tasks to keep to FOLDER/tasks.jsonl and those to
drop to FOLDER/contaminated.jsonl.

examples:
  kernelrl decontaminate outputs/toy/data/tasks_train.parquet KernelBench/KernelBench
  kernelrl decontaminate mine.jsonl KernelBench/KernelBench outputs/toy/data/tasks_heldout.parquet --output clean
  kernelrl decontaminate mine.jsonl KernelBench/KernelBench --json > contamination.json"""


def main(arguments: list[str]) -> int:
    """Run the command; returns its exit code."""
    options = _parse(arguments)
    words: list[str] = options.words
    paths = [word for word in words if "=" not in word or Path(word).exists()]
    cfg = compose_config("decontaminate", [word for word in words if word not in paths]).decontamination
    set_up_logging()
    if not paths or len(paths) + len(cfg.benchmarks) < 2:
        raise UserError(
            f"training tasks and a benchmark are needed; {len(paths)} path(s) given; see `{PROGRAM} --help`"
        )
    if options.output is not None:
        require_writable(options.output, "name another folder for --output")
    tasks = decontamination.read_tasks(paths[0])
    benchmarks = [decontamination.read_benchmark(path) for path in paths[1:]]
    with tempfile.TemporaryDirectory() as nowhere:
        folder = Path(options.output or nowhere)
        dropped, report = decontamination.apply(tasks, benchmarks, cfg, folder)
        matches = [match for _, match in read_json_lines(folder / decontamination.MATCHES)]
    if options.output is not None:
        kept = [task for task in tasks if task.id not in dropped]
        decontamination.write_tasks(folder / "tasks.jsonl", kept)
        console.print(f"{len(kept)} tasks kept, {report['dropped']} dropped, in {options.output}", highlight=False)
    if options.json:
        print(json.dumps(report | {"matches": matches}, indent=2, ensure_ascii=False))
    else:
        out = make_console()
        if matches:
            out.print(match_table(matches))
        out.print(summary_table(report))
    return 1 if report["dropped"] else 0


def _parse(arguments: list[str]) -> argparse.Namespace:
    parser = Parser(prog=PROGRAM, usage=USAGE, description=DESCRIPTION, epilog=EPILOG)
    parser.add_argument("words", nargs="*", metavar="PATH | key=value", help="training tasks, benchmarks, overrides")
    parser.add_argument("--json", action="store_true", help="print the report as JSON and nothing else")
    parser.add_argument("--output", metavar="FOLDER", help="write the report and the two parts of the training set")
    return parser.parse_intermixed_args(arguments)
