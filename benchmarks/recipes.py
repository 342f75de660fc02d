"""Every published system's recipe at `scale=toy`, to its end: how long it takes, and what it made.

    python benchmarks/recipes.py                       # all: some twenty minutes on two cores
    python benchmarks/recipes.py kevin mtmc            # some

A recipe that trains goes through the whole pipeline; one that searches, from curation over SFT to the search by the SFT
policy; ConCuR's is curation alone. Each stage is a command of its own, as a user would give it, and its time holds the
start of Python. A tiny model learns nothing in two steps: this shows that every part of a recipe runs, and is no
result of the system. Runs go to FOLDER/RECIPE anew; FOLDER/recipes.json holds the table.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
import time
from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
from rich.table import Table

from kernelrl import __version__
from kernelrl.configs import compose_config
from kernelrl.console import make_console
from kernelrl.data.tables import PROPOSALS
from kernelrl.records import Ledger, write_json
from kernelrl.runs.stages import PIPELINE

SEARCH = ("curate", "sft", "search")
RECIPES = {
    "autotriton": PIPELINE,
    "concur": ("curate",),
    "cuda_agent": PIPELINE,
    "cuda_l1": PIPELINE,
    "cuda_llm": SEARCH,
    "cudaforge": SEARCH,
    "drkernel": PIPELINE,
    "kernelrl": PIPELINE,
    "kevin": PIPELINE,
    "mtmc": (*PIPELINE, "search"),
    "robust_kbench": SEARCH,
    "tritonrl": PIPELINE,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("recipes", nargs="*", metavar="RECIPE", help=f"of {', '.join(RECIPES)}; none: all")
    parser.add_argument("--folder", type=Path, default=Path("outputs/recipes"))
    arguments = parser.parse_args()
    if unknown := set(arguments.recipes) - set(RECIPES):
        parser.error(f"no recipe of a system: {', '.join(sorted(unknown))}; there are {', '.join(RECIPES)}")
    found = {name: run(name, arguments.folder / name) for name in arguments.recipes or RECIPES}
    write_json(arguments.folder / "recipes.json", {"version": __version__, "recipes": found})
    table = Table(
        "recipe", "stages", "time", "proposals", "examples", "completions", "kernels", "right", title="scale=toy"
    )
    for name, each in found.items():
        counts = [each[name] for name in ("proposals", "examples", "completions", "kernels", "right")]
        time_taken = timedelta(seconds=round(sum(each["seconds"].values())))
        table.add_row(name, ", ".join(each["seconds"]), str(time_taken), *map(str, counts))
    make_console().print(table)


def run(recipe: str, folder: Path) -> dict[str, Any]:
    """All stages of a recipe. Returns the seconds of each, and what came of them."""
    shutil.rmtree(folder, ignore_errors=True)
    words = [f"recipe={recipe}", "scale=toy", f"output_dir={folder}", "tracker=none"]
    cfg = compose_config("pipeline", words)
    seconds = {}
    for stage in RECIPES[recipe]:
        more = [f"policy.model={cfg.sft.folder}/final"] if stage == "search" and RECIPES[recipe] == SEARCH else []
        started = time.perf_counter()
        subprocess.run([sys.executable, "-m", "kernelrl.cli", stage, *words, *more], check=True)
        seconds[stage] = round(time.perf_counter() - started, 1)
    records = [
        record
        for stage in (cfg.grpo.folder, cfg.eval.folder, folder / "search")
        for path in sorted(Path(stage).rglob("records"))
        for record in Ledger(path)
    ]
    return {
        "seconds": seconds,
        "proposals": pq.read_metadata(Path(cfg.curate.verified) / PROPOSALS).num_rows,
        "examples": pq.read_metadata(Path(cfg.curate.folder) / "sft_train.parquet").num_rows,
        "completions": len(records),
        "kernels": sum(record.verdict.candidate is not None for record in records),
        "right": sum(record.verdict.correct for record in records),
    }


if __name__ == "__main__":
    main()
