"""Which loop nests run as one: stages that share their outer loops and pass their results within an iteration."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal

from kernelrl.data.teachers.template.expr import Expr
from kernelrl.data.teachers.template.loops import Buffer, Program, Shape, Stage, product

ENOUGH_ITERATIONS = 8
"""Shared loops with fewer iterations in all are not worth sharing: too little is left to run in parallel."""
CONTRACTIONS = frozenset({"mm", "bmm", "addmm", "convolution"})
"""Operators that sum over products: where the arithmetic is."""


@dataclass
class Group:
    """Stages under the same `depth` outer loops."""

    stages: list[Stage]
    depth: int
    local: set[str] = field(default_factory=set)
    """Buffers that live within an iteration of the shared loops."""

    @property
    def loops(self) -> tuple[tuple[Expr, Expr], ...]:
        return self.stages[0].loops[: self.depth]

    @property
    def title(self) -> str:
        """Its operators, for a comment or a sentence."""
        return ", ".join(dict.fromkeys(name for stage in self.stages for name in stage.names)) or "copy"


def sums_in_double(stage: Stage) -> bool:
    """Whether a sum or running sum is kept in double in C++: not those of products, where the arithmetic is."""
    half = any(buffer.dtype == "float16" for buffer in (stage.buffer, *(buffer for buffer, _ in stage.loads())))
    plain = stage.kind != "map" and stage.op == "sum" and stage.body.kind == "float"
    return plain and stage.origin not in CONTRACTIONS and not half  # between half and double stands a library function


Accepts = Callable[[Group, Stage, int], bool]
"""Whether a stage may join a group under that many shared loops."""


def schedule(program: Program, fuse: bool, first_depth: Callable[[Stage], int], accepts: Accepts) -> list[Group]:
    """Groups in the order in which they run.

    Args:
        fuse: False: every stage is a group.
        first_depth: how many loops of a group's first stage may be shared.
    """
    groups: list[Group] = []
    for stage in program.stages:
        depth = _shared_depth(groups[-1], stage, accepts) if fuse and groups else None
        if depth is None:
            groups.append(Group([stage], first_depth(stage)))
        else:
            groups[-1].depth = depth
            groups[-1].stages.append(stage)
    outputs = {buffer.name for buffer in program.outputs}
    for group in groups:
        others = {name for other in groups if other is not group for name in names_of(other)}
        group.local = {stage.buffer.name for stage in group.stages} - others - outputs if fuse else set()
    return groups


def why_apart(group: Group, stage: Stage, accepts: Accepts) -> Literal["whole", "few", "shape", "loops"] | None:
    """Why a stage does not join the group before it, as `schedule` decides; None: they share no data.

    `whole`: it reads what other iterations write. `few`: too few shared iterations. `shape`: not accepted by the
    dialect. `loops`: not the same loops.
    """
    if not {buffer.name for buffer, _ in stage.loads()} & {each.buffer.name for each in group.stages}:
        return None
    first = group.stages[0]
    depths = range(min(len(first.loops), len(stage.loops)), 0, -1)
    alike = [depth for depth in depths if stage.lengths[:depth] == first.lengths[:depth]]
    within = [depth for depth in alike if _passes_within(group, stage, depth)]
    if not alike:
        return "loops"
    if not within:
        return "whole"
    return "few" if any(accepts(group, stage, depth) for depth in within) else "shape"


def scratch_of(program: Program, groups: list[Group]) -> list[Buffer]:
    """Buffers that `forward` allocates beside the outputs: what groups pass to each other."""
    kept = {name for group in groups for name in group.local}
    kept |= {buffer.name for buffer in (*program.inputs, *program.outputs)}
    return list({stage.buffer.name: stage.buffer for stage in program.stages if stage.buffer.name not in kept}.values())


def names_of(group: Group) -> set[str]:
    """Buffers that a group reads or writes."""
    return {stage.buffer.name for stage in group.stages} | {
        buffer.name for stage in group.stages for buffer, _ in stage.loads()
    }


def _shared_depth(group: Group, stage: Stage, accepts: Accepts) -> int | None:
    """The number of loops that a stage can share with a group; None: it cannot join."""
    if not group.stages[0].loops and not stage.loops:
        return 0 if accepts(group, stage, 0) else None
    for depth in range(min(group.depth, len(stage.loops)), 0, -1):
        if _passes_within(group, stage, depth) and accepts(group, stage, depth):
            iterations = product([length for _, length in stage.loops[:depth]]).value
            if iterations is None or iterations >= ENOUGH_ITERATIONS or depth == len(group.stages[0].loops):
                return depth
    return None


def _passes_within(group: Group, stage: Stage, depth: int) -> bool:
    """Whether an iteration of the shared loops reads nothing that another iteration writes, and writes its own."""
    own = tuple(i for i, _ in stage.loops[:depth])
    if stage.lengths[:depth] != group.stages[0].lengths[:depth] or stage.at[:depth] != own:
        return False
    written: dict[str, Shape] = {each.buffer.name: each.buffer.shape for each in group.stages}
    if any(each.at[:depth] != own for each in group.stages):
        return False
    touched: list[tuple[Buffer, tuple[Expr, ...]]] = [*stage.loads(), (stage.buffer, stage.at)]
    return all(
        at[:depth] == own and buffer.shape[:depth] == written[buffer.name][:depth]
        for buffer, at in touched
        if buffer.name in written
    )
