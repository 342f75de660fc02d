"""The reasoning behind Inductor's kernels, told from its fusion decisions."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from kernelrl.data.teachers.inductor.capture import Captured, Step

_SYMBOL = re.compile(r"\bs\d+\b")


def explain(captured: Captured, level: str, library: Mapping[str, str]) -> str:
    """What moves through memory, which operators share a loop, and why the others do not.

    Args:
        library: by operator: why the kernel that stands in for the library's is as it is.
    """
    steps = captured.steps
    operators = list(dict.fromkeys(name for step in steps for name in step.operators))
    moved = sum(sum(step.reads.values()) + sum(step.writes.values()) for step in steps)
    packed = ", what a kernel copies for itself not counted" if any(step.library for step in steps) else ""
    lines = [
        f"The program comes down to {len(operators)} kinds of operators: {', '.join(operators)}.",
        f"Run one by one they would move {_size(captured.apart)} through memory; in {len(steps)} "
        f"step{'s' * (len(steps) != 1)} it is {_size(moved)}{packed}.",
    ]
    if level != "fused":
        lines.append("First a version that keeps the operators apart: easy to check, and the base for a faster one.")
    lines.append("Plan:")
    lines += [f"{index}. {_describe(step, captured, library)}" for index, step in enumerate(steps, start=1)]
    lines += _boundaries(captured, level)
    if captured.symbols:
        named = " and ".join(captured.symbols.values())
        lines.append(f"{named} may differ from call to call, and is read when called.")
    return "\n".join(lines)


def _describe(step: Step, captured: Captured, library: Mapping[str, str]) -> str:
    reads, writes = _named(step.reads, captured), _named(step.writes, captured)
    if step.library:
        shapes = {captured.arguments.get(name, name): captured.buffers[name].size for name in step.reads}
        operands = " and ".join(f"{name} ({_extent(shape, captured)})" for name, shape in shapes.items())
        sizes = [_extent(captured.buffers[name].size, captured) for name in step.writes]
        made = " and ".join(f"{name} ({size})" for name, size in zip(writes, sizes, strict=False))
        return f"{step.library} from {operands} to {made}, a kernel of its own: {library[step.library]}."
    over = "" if step.reduction in ("1", "()", "") else f", reducing {_extent(step.reduction, captured)} to one"
    apart = {other.library for other in captured.steps}
    operators = [name for name in step.operators if name not in apart]
    how = "in one loop" if len(operators) > 1 else "alone"
    return (
        f"{' + '.join(operators) or 'copy'} {how} over {_extent(step.elements, captured)} elements{over}: "
        f"reads {', '.join(reads) or 'nothing'}; writes {', '.join(writes)}."
    )


def _boundaries(captured: Captured, level: str) -> list[str]:
    """For each pair of neighbours: why they are two loops."""
    lines = []
    for index, (first, second) in enumerate(zip(captured.steps, captured.steps[1:], strict=False), start=1):
        shared = _named([name for name in second.reads if name in first.writes], captured)
        if shared and first.reduction not in ("1", "()", "") and first.elements != second.elements:
            lines.append(
                f"{index} and {index + 1} stay apart: {index} makes {' and '.join(shared)} by a reduction, whole only "
                f"when all of {index} has run."
            )
        elif shared and (first.library or second.library):
            lines.append(
                f"{index} and {index + 1} stay apart: {', '.join(shared)} goes through memory, for the blocks of "
                f"{first.library or second.library} are not those of an elementwise loop."
            )
        elif shared:
            stay = "stay apart" if level == "fused" else "are kept apart at this level"
            lines.append(f"{index} and {index + 1} {stay}: {', '.join(shared)} goes through memory.")
        elif not set(first.reads) & set(second.reads):
            lines.append(f"{index} and {index + 1} stay apart: they share no data.")
    return lines


def _named(names: Iterable[str], captured: Captured) -> list[str]:
    """As the kernel calls them: a buffer in the place of another one has that one's name."""
    return list(dict.fromkeys(captured.arguments.get(name, name) for name in names))


def _extent(text: str, captured: Captured) -> str:
    """`(512, s77)` as `512 x x.shape[0]`."""
    parts = [part.strip() for part in text.strip("()").split(",") if part.strip()]
    return _SYMBOL.sub(lambda found: captured.symbols.get(found[0], found[0]), " x ".join(parts)) or "1"


def _size(num_bytes: int) -> str:
    return f"{num_bytes / 1e6:.1f} MB" if num_bytes >= 1e6 else f"{num_bytes / 1e3:.1f} kB"
