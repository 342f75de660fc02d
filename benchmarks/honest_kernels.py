"""Does chance refuse honest kernels? Judges each of `tests/honest` several times, with inputs of its own each time.

    python benchmarks/honest_kernels.py                    # three rounds, about ten minutes on two cores
    python benchmarks/honest_kernels.py --rounds 20 --only layer_norm

The tests draw the same inputs in every run; here a kernel meets others in each round, as it does in training. A kernel
that is refused in any round is printed with its verdict and the name of its draws, by which it can be judged again.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from pathlib import Path

from rich.table import Table

from kernelrl.console import make_console, track
from kernelrl.executor import make_executor

sys.path.append(str(Path(__file__).parent.parent / "tests"))
from candidate_files import HONEST, from_file  # noqa: E402

SETTINGS = {"timing": False, "verdict_cache": False, "memory_mb": 2048, "build_timeout_s": 300.0}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3, metavar="N", help="times that each kernel is judged")
    parser.add_argument("--only", default="", metavar="TEXT", help="kernels whose file name has this in it")
    parser.add_argument("--cache", metavar="FOLDER", help="build cache to use; default: a new one")
    parser.add_argument("--json", action="store_true", help="print JSON")
    arguments = parser.parse_args()

    files = [path for path in HONEST if arguments.only in path.name]
    refused: list[dict[str, str | int | None]] = []
    with tempfile.TemporaryDirectory() as folder:
        settings = {**SETTINGS, "cache_dir": arguments.cache or folder}
        for number in range(arguments.rounds):
            with make_executor(settings) as executor, track(len(files), f"round {number + 1}") as tracker:
                for index, verdict in executor.stream([from_file(path) for path in files]):
                    tracker.advance()
                    if not verdict.correct:
                        kernel = files[index].stem
                        told = {"status": verdict.status, "feedback": verdict.feedback, "draws": verdict.draws}
                        refused.append({"round": number + 1, "kernel": kernel, **told})
    result = {"kernels": len(files), "rounds": arguments.rounds, "refused": refused}
    if arguments.json:
        print(json.dumps(result, indent=2))
        return bool(refused)
    table = Table("round", "kernel", "status", "draws", "feedback")
    for row in refused:
        table.add_row(*(str(row[key]) for key in ("round", "kernel", "status", "draws", "feedback")))
    console = make_console()
    if refused:
        console.print(table)
    console.print(
        f"{len(refused)} of {arguments.rounds * len(files)} verdicts on {len(files)} honest kernels refuse them"
    )
    return bool(refused)


if __name__ == "__main__":
    sys.exit(main())
