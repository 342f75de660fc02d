"""The program that Nsight Compute profiles: one call of a kernel, on inputs as the task shows them.

A program of its own, because ncu must have started the process that it looks at. It is confined, with the device
(`sandbox.confine_profiler`), before a line of it runs.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import torch

from kernelrl.candidate import ENTRY_POINT
from kernelrl.executor import trees
from kernelrl.executor.contest import compiled_kernels
from kernelrl.executor.contest.builds import route_builds
from kernelrl.executor.contest.text_module import import_text

REQUEST = "request.json"
WARM_UP = 2
"""Calls before the one that is profiled: in the first, Triton compiles and tries its configurations."""


def main(given: Path, folder: Path) -> None:
    """Call the kernel that a request names (`task`, `candidate`, `device`).

    Args:
        given: holds the request and the modules that were built for the kernel (`0.so`, …), and is only read.
        folder: an empty one.
    """
    request = json.loads((given / REQUEST).read_text())
    device, taken = request["device"], list[Path]()

    def take(unit: dict[str, Any]) -> None:
        """The next of the modules that were built for it before, under the name that it gives."""
        path = folder / str(len(taken)) / f"{unit['name']}.so"
        path.parent.mkdir()
        path.symlink_to(given / f"{len(taken)}.so")
        taken.append(path)

    def to_device(tensor: torch.Tensor) -> torch.Tensor:
        return tensor.to(device)

    route_builds(take, lambda: taken)
    compiled_kernels.install()
    torch.manual_seed(0)
    task = import_text(request["task"], folder)
    init, inputs = task.get_init_inputs(), task.get_inputs()
    candidate = import_text(request["candidate"], folder, request["unreached"])
    with torch.no_grad():
        model = getattr(candidate, ENTRY_POINT)(*init).to(device)
        arguments = trees.map_tensors(tuple(inputs), to_device)
        for _ in range(WARM_UP):
            model(*arguments)
        if device == "cuda":
            torch.cuda.synchronize()
            torch.cuda.profiler.start()  # type: ignore[no-untyped-call]
        model(*arguments)
        if device == "cuda":
            torch.cuda.synchronize()
            torch.cuda.profiler.stop()  # type: ignore[no-untyped-call]


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path.cwd())
