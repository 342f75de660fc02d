"""Trying somebody's module on inputs, in a process of its own that may crash, hang or eat memory."""

from __future__ import annotations

import os
import resource
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import Any, Literal

from kernelrl.data.workers import forkserver_context

Failure = Literal["does_not_load", "no_inputs_fit", "crashed", "too_slow"]


@dataclass(frozen=True)
class Limits:
    """What one class may use, all tries together."""

    timeout_s: float
    memory_mb: int
    """Beyond what the process has when it starts."""


def first_that_fits(source: str, candidates: Sequence[Sequence[str]], limits: Limits) -> int | Failure:
    """Which inputs a program runs on.

    Args:
        source: a program with `Model` and `get_init_inputs()`.
        candidates: expressions for the inputs of `forward`.

    Returns:
        The index of the first candidate for which the outputs are finite tensors; or why there is none.
    """
    context = forkserver_context()
    receiver, sender = context.Pipe(duplex=False)
    process = context.Process(target=_try_all, args=(source, candidates, limits.memory_mb, sender), daemon=True)
    process.start()
    sender.close()
    try:
        answer: int | Failure = receiver.recv() if receiver.poll(limits.timeout_s) else "too_slow"
    except EOFError:
        answer = "crashed"
    process.kill()
    process.join()
    return answer


def _try_all(source: str, candidates: Sequence[Sequence[str]], memory_mb: int, sender: Connection) -> None:
    _restrict(memory_mb)
    import torch

    torch.set_num_threads(1)
    program: dict[str, Any] = {"__name__": "mined"}
    try:
        exec(compile(source, "mined", "exec"), program)
        torch.manual_seed(0)
        model = program["Model"](*program["get_init_inputs"]())
    except (Exception, SystemExit):  # whatever it raises, it is not usable
        sender.send("does_not_load")
        return
    for index, expressions in enumerate(candidates):
        if _fits(model, expressions):
            sender.send(index)
            return
    sender.send("no_inputs_fit")


def _fits(model: Any, expressions: Sequence[str]) -> bool:
    import torch
    from torch.utils._pytree import tree_leaves

    try:
        with torch.no_grad():
            outputs = tree_leaves(model(*(eval(text, {"torch": torch}) for text in expressions)))
    except (Exception, SystemExit):
        return False
    tensors = [output for output in outputs if isinstance(output, torch.Tensor)]
    return bool(tensors) and all(bool(torch.isfinite(tensor).all()) and tensor.numel() > 0 for tensor in tensors)


def _restrict(memory_mb: int) -> None:
    """No output, a folder of its own, a limit to memory."""
    silent = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):
        os.dup2(silent, stream)
    os.chdir(tempfile.gettempdir())
    with open("/proc/self/statm") as file:
        used = int(file.read().split()[0]) * resource.getpagesize()
    limit = used + memory_mb * 2**20
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
