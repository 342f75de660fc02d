"""Make the fingerprints of well-known benchmarks that come with kernelrl, from local copies.

    python benchmarks/fingerprint_known.py --kernelbench KernelBench --multikernelbench MultiKernelBench \\
        --tritonbench TritonBench --robust_kbench robust-kbench/tasks

It writes src/kernelrl/data/decontamination/known.jsonl.gz: hashes of programs, operator graphs, MinHash signatures, and
no program. Tasks whose graph was not found in time are in it by their text only; their number is printed.
"""

from __future__ import annotations

import argparse
from collections import Counter
from importlib import import_module

import torch

from kernelrl.configs import compose_config
from kernelrl.data.decontamination import Settings
from kernelrl.data.decontamination.fingerprint import VERSION, fingerprint_all
from kernelrl.data.decontamination.known import FILE, write_known
from kernelrl.task import Task

NAMES = {
    "kernelbench": "KernelBench",
    "multikernelbench": "MultiKernelBench",
    "tritonbench": "TritonBench",
    "robust_kbench": "robust-kbench",
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in NAMES:
        parser.add_argument(f"--{name}", required=True, metavar="FOLDER")
    parser.add_argument("--timeout", type=float, default=60.0, help="seconds of processor time for one graph")
    options = parser.parse_args()
    tasks: list[tuple[str, Task]] = []
    for source, name in NAMES.items():
        config = compose_config("curate", [f"tasks={source}", f"tasks.path={getattr(options, source)}"])
        split = import_module(f"kernelrl.data.sources.{source}").load(config.tasks)
        tasks += [(name, task) for task in sorted([*split.train, *split.heldout], key=lambda task: task.id)]
    settings = Settings(timeout_s=options.timeout)
    found = [fingerprint for _, fingerprint in fingerprint_all([task for _, task in tasks], settings, "fingerprints")]
    revisions = {name: task.revision for name, task in tasks}
    header = {"version": VERSION, "torch": torch.__version__, "revisions": revisions}
    header |= {"shingle": settings.shingle, "permutations": settings.permutations}
    write_known(FILE, header, [(name, task, each) for (name, task), each in zip(tasks, found, strict=True)])
    untraced = Counter(name for (name, _), each in zip(tasks, found, strict=True) if each.traced is None)
    print(f"{FILE}: {len(tasks)} tasks, {FILE.stat().st_size / 1e3:.0f} kB; without a graph: {dict(untraced)}")


if __name__ == "__main__":
    main()
