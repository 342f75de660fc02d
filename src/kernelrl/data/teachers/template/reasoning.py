"""The reasoning that goes with a kernel, told from its schedule.

It says what moves through memory with and without fusion, what each step does, why steps stay apart, which blocks fit
where, and what to mind about rounding. Every number is counted on the loops that were written; the same task is told in
the same words.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby

from kernelrl.data.teachers.template.expr import ONE, Expr
from kernelrl.data.teachers.template.loops import Buffer, Program, Stage, product
from kernelrl.data.teachers.template.module import length_text
from kernelrl.data.teachers.template.schedule import CONTRACTIONS, Accepts, Group, sums_in_double, why_apart
from kernelrl.data.teachers.template.tiles import block_of
from kernelrl.data.teachers.template.writer import unwrapped
from kernelrl.task import Task

NUMERICS = {
    "softmax": "softmax subtracts the row's maximum before exp, so that nothing overflows.",
    "log_softmax": "log_softmax is x - max - log(sum(exp(x - max))): it never takes the log of a small quotient.",
    "native_layer_norm": "The variance is a second pass over x - mean: a difference of squares would lose digits.",
    "native_group_norm": "The variance is a second pass over x - mean of each group.",
    "logcumsumexp": "The running value is max + log1p(exp(-|difference|)).",
    "cumsum": "The running sum is kept in double: its errors would add up along the row.",
}
"""What to mind about an operator's rounding."""
BYTES = {"float32": 4, "float16": 2, "bfloat16": 2, "int64": 8, "int32": 4, "bool": 1}
L1, L2 = 32 << 10, 1 << 20
"""Bytes of a core's caches, as small as current CPUs have them."""
COMBINED = {"sum": "sum", "prod": "product", "max": "maximum", "min": "minimum", "logaddexp": "log-sum-exp"}
APART = {
    "whole": (
        "it needs results of step {0} that other iterations make",
        "what it reads of step {0} is whole only when all of {0} has run",
        "an iteration of it reads what several iterations of step {0} write",
    ),
    "few": (
        "the loops that it shares with step {0} would leave too few iterations to run in parallel",
        "joined with step {0} there would be too few parallel iterations",
    ),
    "shape": (
        "its block has another shape than that of step {0}",
        "step {0} holds other rows in registers than it needs",
        "one block cannot suit both it and step {0}",
    ),
    "loops": ("it runs over other loops than step {0}", "its loops are not those of step {0}"),
}


@dataclass(frozen=True)
class Schedule:
    """What a writer decided.

    Attributes:
        accepts: which groups it could have made.
        blocks: of Triton's kernels, the sizes of their blocks, group by group; empty in C++.
    """

    groups: list[Group]
    accepts: Accepts
    blocks: Sequence[Mapping[str, object]] = ()


def explain(task: Task, program: Program, schedule: Schedule, apart: int | None, level: str, dialect: str) -> str:
    """The reasoning for a kernel.

    Args:
        apart: bytes that the same program moves with an operator a loop nest; None: sizes are not known.
    """
    say = random.Random(f"{task.digest}/{level}/{dialect}")
    steps = _steps(program, schedule, level, dialect, say)
    return "\n".join(
        [
            _what(task, program, say),
            *_bound(program, say),
            *_memory(program, schedule.groups, apart, level, say),
            *steps,
            *_care(program, dialect),
        ]
    )


def traffic(program: Program, groups: Sequence[Group]) -> int | None:
    """Bytes that have to move: each group reads and writes each array once that outlives it. None: sizes unknown."""
    total = 0
    for group in groups:
        stages = group.stages
        touched = {buffer.name: buffer for stage in stages for buffer, _ in stage.loads()}
        touched |= {stage.buffer.name: stage.buffer for stage in stages}
        for name, buffer in touched.items():
            size = num_bytes(program, buffer)
            if size is None:
                return None
            total += 0 if name in group.local else size
    return total


def num_bytes(program: Program, buffer: Buffer) -> int | None:
    """Size of an array, at the lengths that the task shows."""
    count = _value(program, product(buffer.shape))
    return None if count is None else count * BYTES[buffer.dtype]


def _value(program: Program, length: Expr) -> int | None:
    """A length as a number, at the lengths that the task shows."""
    if length.value is not None:
        return length.value
    if length.op == "size":
        return program.shown.get(str(length.args[0]))
    values = [_value(program, operand) for operand in length.operands]
    if len(values) != 2 or None in values:
        return None
    a, b = values
    assert a is not None and b is not None
    return {"add": a + b, "sub": a - b, "mul": a * b, "floordiv": a // max(b, 1), "mod": a % max(b, 1)}.get(length.op)


def _what(task: Task, program: Program, say: random.Random) -> str:
    inputs = ", ".join(f"{buffer.text} ({_shape(program, buffer.shape)})" for buffer in program.inputs) or "nothing"
    outputs = " and ".join(f"{buffer.dtype} ({_shape(program, buffer.shape)})" for buffer in program.outputs)
    core = dict.fromkeys(name for stage in program.stages for name in stage.names)
    steps = " -> ".join(task.ops) or ", ".join(core) or "a copy"  # the core operators are not in the program's order
    forms = (
        f"The program is {steps}: from {inputs} to {outputs}.",
        f"To write: {steps}, from {inputs} to {outputs}.",
        f"It makes {outputs} of {inputs}, by {steps}.",
        f"This is {steps}; it takes {inputs} and gives {outputs}.",
    )
    known = set(core) <= set(task.ops or core)
    return say.choice(forms) + ("" if known else " The steps below name the core operators that this comes down to.")


def _bound(program: Program, say: random.Random) -> list[str]:
    """Arithmetic against memory, where there are products to sum."""
    heavy = [stage for stage in program.stages if stage.origin in CONTRACTIONS and stage.kind == "reduce"]
    counts = [_value(program, product([n for _, n in (*stage.loops, *stage.inner)])) for stage in heavy]
    if not heavy or None in counts:
        return []
    flops = _number(2 * sum(count for count in counts if count is not None))
    forms = (
        f"{_names(heavy)} takes {flops} operations: there, what is loaded must be used often.",
        f"Most arithmetic is in {_names(heavy)}, {flops} operations; that loop must reuse its data.",
        f"The work is {flops} operations of {_names(heavy)}.",
    )
    return [say.choice(forms)]


def _memory(program: Program, groups: Sequence[Group], apart: int | None, level: str, say: random.Random) -> list[str]:
    """What goes through memory, operator by operator and as it is done here."""
    moved = traffic(program, groups)
    if moved is None or apart is None:
        return []
    forms: tuple[str, ...]
    if level == "naive":
        forms = (
            f"A first version that is right: a loop for each operator, {_size(moved)} through memory in all.",
            f"Keep it simple: each operator a loop of its own. That moves {_size(moved)}; fusion can come later.",
            f"No fusion yet, so that each step can be checked: {len(groups)} loops, which move {_size(moved)}.",
        )
    elif _size(moved) == _size(apart):
        forms = (
            f"Fusion saves next to nothing here: {_size(moved)} through memory either way.",
            f"It moves {_size(moved)} through memory, as much as a loop for each operator would.",
        )
    elif moved < apart:
        forms = (
            f"One loop for each operator would move {_size(apart)} through memory; here it is {_size(moved)}.",
            f"Operator by operator that is {_size(apart)} of traffic. Fused as below: {_size(moved)}.",
            f"With a loop for each operator {_size(apart)} go through memory, where {_size(moved)} will do.",
            f"Fusion cuts the traffic from {_size(apart)} to {_size(moved)}.",
        )
    else:
        forms = (
            f"It moves {_size(moved)} through memory, {_size(moved - apart)} more than a loop for each operator would: "
            "some data is copied first, as it will be read.",
        )
    return [say.choice(forms)]


def _steps(program: Program, schedule: Schedule, level: str, dialect: str, say: random.Random) -> list[str]:
    """One line for each group; where nothing is fused, neighbours that walk the same elements share a line."""
    groups, lines = schedule.groups, []
    texts = [_step(program, group, level, dialect, say) for group in groups]
    if level == "naive":
        start = 1
        for over, some in groupby(texts, key=lambda text: text[1]):
            names = [title for title, _ in some]
            numbers = str(start) if len(names) == 1 else f"{start}-{start + len(names) - 1}"
            lines.append(f"{numbers}. {', '.join(dict.fromkeys(names))}: {over}.")
            start += len(names)
        return lines
    for number, (group, (title, over)) in enumerate(zip(groups, texts, strict=True)):
        if number and title == texts[number - 1][0]:
            title = f"the rest of {title.rpartition(', ')[2]}"
        line = f"{number + 1}. {title}: {over}"
        if schedule.blocks and level == "tiled":
            line += _program_block(schedule.blocks[number], say)
        if number and (why := why_apart(groups[number - 1], group.stages[0], schedule.accepts)):
            line += f"; {say.choice(APART[why]).format(number)}"
        lines.append(line + ".")
    return lines


def _step(program: Program, group: Group, level: str, dialect: str, say: random.Random) -> tuple[str, str]:
    """The operators of a group, and how it runs them."""
    stages = group.stages
    first = stages[0]
    loops = group.loops if len(stages) > 1 else first.loops
    lengths = tuple(n for _, n in loops if n != ONE)
    text = f"over {_shape(program, lengths)}" if lengths else "to a single number"
    reductions = [stage for stage in stages if stage.kind == "reduce"]
    neighbours = tuple(n for _, n in reductions[0].loops[len(loops) :] if n != ONE) if reductions else ()
    each = f"for each of {_shape(program, neighbours)} neighbours" if neighbours else "each"
    if first.origin in CONTRACTIONS and reductions:
        text += f", summing {_shape(program, tuple(n for _, n in first.inner))} products {each}"
        text += _sums(first, level, dialect)
    elif reductions:
        kinds = " and ".join(dict.fromkeys(COMBINED.get(stage.op, stage.op) for stage in reductions))
        text += f", the {kinds} of {_shape(program, tuple(n for _, n in reductions[0].inner))} {each}"
    elif first.kind == "scan":
        text += f", step by step along {_shape(program, (first.inner[0][1],))}"
    elif any(stage.kind == "scatter" for stage in stages):
        text += ", adding where the index says; rows are apart, so no two threads meet"
    elif len(stages) == 1 and first.body.op in ("load", "masked_load") and first.buffer not in program.outputs:
        text += (
            ", a copy with its padding" if first.body.op == "masked_load" else ", a copy in the order of later reads"
        )
    if group.local:
        text += _kept(program, group, dialect, say)
    return group.title, text


def _sums(stage: Stage, level: str, dialect: str) -> str:
    """The block of sums that C++ keeps, and where it fits."""
    if dialect != "cpp" or level != "tiled" or not stage.loops:
        return ""
    block = block_of(stage.loops[-1][1])
    return f"; {block} neighbouring sums at a time take {4 * block} bytes, which registers and L1 hold"


def _program_block(sizes: Mapping[str, object], say: random.Random) -> str:
    """What one Triton program takes, and what it holds."""
    m, n, k, rows, row = (sizes.get(name) for name in "MNKXR")
    if isinstance(m, int) and isinstance(n, int) and isinstance(k, int):
        held = _size(4 * (m + n) * k)
        return f"; tl.dot in tiles of {m} x {n} sums, {k} products at a time: {held} of operands for shared memory"
    if isinstance(rows, int) and isinstance(row, int):
        held = _size(4 * rows * row)
        return say.choice((f"; blocks of {rows} x {row}, {held} in registers", f"; a program holds {rows} x {row}"))
    return say.choice((f"; {rows} elements a program", f"; blocks of {rows}"))


def _kept(program: Program, group: Group, dialect: str, say: random.Random) -> str:
    """What never goes through memory, and which cache holds it."""
    made = {stage.buffer.name: stage for stage in group.stages if stage.buffer.name in group.local}
    sizes = [_value(program, product(stage.buffer.shape[group.depth :])) for stage in made.values()]
    widths = [BYTES[stage.buffer.dtype] for stage in made.values()]
    what = f"{len(made)} intermediate result{'s' * (len(made) > 1)}"
    stay, never = ("stay", "never reach") if len(made) > 1 else ("stays", "never reaches")
    if dialect == "triton" or None in sizes:
        return say.choice((f"; {what} {stay} in registers", f"; {what} {never} memory"))
    size = sum(count * width for count, width in zip(sizes, widths, strict=True) if count is not None)
    place = "registers" if size <= 64 else "L1" if size <= L1 else "L2" if size <= L2 else "memory: too long a row"
    return say.choice(
        (
            f"; an iteration keeps {what}, {_size(size)}, in {place}",
            f"; {what} ({_size(size)} an iteration) {stay} in {place}",
        )
    )


def _care(program: Program, dialect: str) -> list[str]:
    in_double = [stage for stage in program.stages if sums_in_double(stage)] if dialect == "cpp" else []
    single = {"cumsum"} if dialect == "cpp" and not any(stage.kind == "scan" for stage in in_double) else set()
    origins = dict.fromkeys(stage.origin for stage in program.stages)
    notes = [NUMERICS[name] for name in origins if name in NUMERICS and name not in single]
    if any(stage.kind == "reduce" for stage in in_double):
        notes.append("Sums of anything but products are kept in double.")
    if any(buffer.dtype in ("float16", "bfloat16") for buffer in program.inputs):
        notes.append("16-bit values are widened when read and rounded once, when written.")
    if program.sizes:
        notes.append(f"{' and '.join(program.sizes.values())} may differ from call to call, and is read when called.")
    return notes


def _names(stages: Sequence[Stage]) -> str:
    return ", ".join(dict.fromkeys(name for stage in stages for name in stage.names)) or "copy"


def _shape(program: Program, shape: tuple[Expr, ...]) -> str:
    """Lengths as the program has them: `64 x 32`, with `x.shape[0]` for one that may change."""
    texts = [unwrapped(length_text(length)) for length in shape]
    for name, expression in program.sizes.items():
        texts = [text.replace(name, expression) for text in texts]
    return " x ".join(texts) or "a number"


def _number(count: int) -> str:
    unit, name = (10**6, "million") if count >= 10**6 else (10**3, "thousand")
    return f"{count / unit:.0f} {name}" if count >= 10 * unit else f"{count / unit:.2g} {name}"


def _size(count: int) -> str:
    return f"{count / 1e6:.1f} MB" if count >= 1e6 else f"{count / 1e3:.1f} kB" if count >= 1000 else f"{count} bytes"
