"""robust-kbench (arXiv 2509.14279): kernels that hold for several initialisations and shapes, forward and backward.

Each configuration of a task folder, in each direction, is a task here. A policy is asked once for a folder's direction,
with its first configuration, and that kernel is judged in every one.
"""

from __future__ import annotations

from collections.abc import Sequence

from kernelrl.eval.figure import Figure, Settings, mean, program_of, share_of_programs
from kernelrl.records import Record
from kernelrl.task import Task

DIRECTIONS = ("forward", "backward")


def accepts(task: Task) -> bool:
    """Whether it is `robust_kbench/FUNCTION/DIRECTION/CONFIGURATION`, as `tasks=robust_kbench` names it."""
    parts = task.id.split("/")
    return len(parts) == 4 and parts[0] == "robust_kbench" and parts[2] in DIRECTIONS


def figures(samples_T: Sequence[Sequence[Record]], tasks: Sequence[Task], settings: Settings) -> dict[str, Figure]:
    """- `robust`: share of functions (a folder's forward, or its backward) that are right in every configuration.
    - `forward`, `backward`: share of correct samples of that direction.
    """
    directions = [task.id.split("/")[-2] for task in tasks]
    right_T = [[record.verdict.correct for record in samples] for samples in samples_T]
    programs = [program_of(task) for task in tasks]
    right_of = {
        wanted: [right if direction == wanted else [] for right, direction in zip(right_T, directions, strict=True)]
        for wanted in DIRECTIONS
    }
    return {"robust": share_of_programs(programs, samples_T, lambda verdict: verdict.correct)} | {
        direction: mean(values_T, share=True) for direction, values_T in right_of.items()
    }
