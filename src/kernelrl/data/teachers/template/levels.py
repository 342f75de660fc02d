"""Levels of optimisation: the same task as kernels of different speed, each with its reasoning."""

from __future__ import annotations

from dataclasses import dataclass

from kernelrl.data.construction import assemble
from kernelrl.data.teachers import Proposal
from kernelrl.data.teachers.template import module
from kernelrl.data.teachers.template.cpp import Cpp
from kernelrl.data.teachers.template.lower import Fusion, UnsupportedError, lower
from kernelrl.data.teachers.template.reasoning import Schedule, explain, traffic
from kernelrl.data.teachers.template.schedule import schedule
from kernelrl.data.teachers.template.trace import Traced, TraceError, trace
from kernelrl.data.teachers.template.triton import Blocks, Triton
from kernelrl.task import Task


@dataclass(frozen=True)
class Level:
    """What is done to the loops.

    Attributes:
        fusion: which results are written to memory; see `lower`.
        fuse: operators share their outer loops.
        tile: sums are kept in blocks, and contiguous axes vectorised.
        flags: of the C++ compiler.
        blocks: sizes of blocks in Triton.
    """

    name: str
    fusion: Fusion
    fuse: bool
    tile: bool
    flags: tuple[str, ...]
    blocks: Blocks


VECTOR_MATH = ("-fno-math-errno", "-fno-trapping-math", "-D__FAST_MATH__")
"""glibc declares its vectorised functions under `-ffast-math` only, which would break infinities and denormals too."""
LEVELS = (
    Level("tiled", "all", True, True, ("-O3", "-march=native", "-fopenmp", *VECTOR_MATH), Blocks(4096, 64, 64, 32)),
    Level("fused", "all", True, False, ("-O3", "-march=native", "-fopenmp"), Blocks(1024, 64, 32, 32)),
    Level("naive", "none", False, False, ("-O2", "-fopenmp"), Blocks(1024, 32, 32, 32)),
)
"""Fastest first."""


class UnwritableError(Exception):
    """A task that gets no kernel; says why."""


def write(task: Task, dialect: str, levels: tuple[Level, ...]) -> list[Proposal]:
    """One proposal for each level whose kernel differs from the faster ones.

    Raises:
        UnwritableError: the task does not trace, or has an operator for which there are no loops.
    """
    arguments = module.arguments_of(task)
    writer = {"cpp": _cpp, "triton": _triton}[dialect]
    try:
        traced = trace(task, arguments)
        apart = lower(traced, "none")
        moved = traffic(apart, schedule(apart, False, lambda stage: 0, lambda group, stage, depth: False))
        proposals = [writer(task, traced, arguments, level, moved) for level in levels]
    except TraceError as error:
        raise UnwritableError(f"does not trace: {error}"[:200]) from None
    except (UnsupportedError, NotImplementedError) as error:
        raise UnwritableError(f"no loops for {error}") from None
    return list({proposal.source: proposal for proposal in reversed(proposals)}.values())[::-1]


def _cpp(task: Task, traced: Traced, arguments: list[str], level: Level, apart: int | None) -> Proposal:
    program = lower(traced, level.fusion, pack=level.tile)
    writer = Cpp(program, level.fuse, level.tile)
    native = writer.source()
    passed = [buffer.text for buffer in program.inputs]
    passed += [buffer.name for buffer in (*writer.scratch, *program.outputs)] + writer.sizes
    launch = f"mod.kernel({', '.join(passed)})"
    statements, returned = module.forward(program, writer.scratch, arguments, [launch], traced.single)
    text = f'''\
import torch
from torch import nn
from tvm_ffi.cpp import load_inline

SOURCE = r"""
{native}"""
FLAGS = {list(level.flags)!r}
mod = load_inline("kernel", cpp_sources=SOURCE, functions="kernel", extra_cflags=FLAGS, extra_ldflags=["-fopenmp"])
'''
    source = assemble(text, task, arguments, statements, returned)
    reasoning = explain(task, program, Schedule(writer.groups, writer.accepts), apart, level.name, "cpp")
    return Proposal(reasoning, source, level.name)


def _triton(task: Task, traced: Traced, arguments: list[str], level: Level, apart: int | None) -> Proposal:
    program = lower(traced, level.fusion)
    writer = Triton(program, level.fuse, level.blocks)
    kernels = writer.source()
    statements, returned = module.forward(program, writer.scratch, arguments, writer.launches, traced.single)
    text = f"import torch\nimport triton\nimport triton.language as tl\nfrom torch import nn\n\n\n{kernels}"
    source = assemble(text, task, arguments, statements, returned)
    made = Schedule(writer.groups, writer.accepts, writer.chosen)
    reasoning = explain(task, program, made, apart, level.name, "triton")
    return Proposal(reasoning, source, level.name)
