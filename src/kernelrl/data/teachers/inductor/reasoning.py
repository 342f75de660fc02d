"""The reasoning behind Inductor's kernels, told from its fusion decisions."""

from __future__ import annotations

from collections.abc import Mapping

from kernelrl.data.teachers.inductor.capture import Captured, Step


def explain(captured: Captured, level: str, library: Mapping[str, str]) -> str:
    """What moves through memory, which operators share a loop, and why the others do not.

    Args:
        library: by operator: why the kernel that stands in for the library's is as it is.
    """
    steps = captured.steps
    operators = list(dict.fromkeys(name for step in steps for name in step.operators))
    unfused = _traffic(steps, fused=False)
    fused = _traffic(steps, fused=True)
    lines = [f"The program comes down to {len(operators)} kinds of operators: {', '.join(operators)}."]
    if fused is not None and unfused is not None:
        lines.append(
            f"Run one by one they would move at least {_size(unfused)} through memory; in {len(steps)} "
            f"step{'s' * (len(steps) != 1)} it is {_size(fused)}."
        )
    if level != "fused":
        lines.append("First a version that keeps the operators apart: easy to check, and the base for a faster one.")
    lines.append("Plan:")
    lines += [f"{index}. {_describe(step, captured, library)}" for index, step in enumerate(steps, start=1)]
    lines += _boundaries(captured)
    return "\n".join(lines)


def _describe(step: Step, captured: Captured, library: Mapping[str, str]) -> str:
    reads = [captured.arguments.get(name, name) for name in step.reads]
    writes = list(step.writes)
    if step.library:
        shapes = {captured.arguments.get(name, name): captured.buffers[name].size for name in step.reads}
        operands = " and ".join(f"{name} ({_extent(shape)})" for name, shape in shapes.items())
        made = " and ".join(f"{name} ({_extent(captured.buffers[name].size)})" for name in writes)
        return f"{step.library} from {operands} to {made}, a kernel of its own: {library[step.library]}."
    over = "" if step.reduction in ("1", "()", "") else f", reducing {_extent(step.reduction)} to one"
    apart = {other.library for other in captured.steps}
    operators = [name for name in step.operators if name not in apart]
    how = "in one loop" if len(operators) > 1 else "alone"
    return (
        f"{' + '.join(operators) or 'copy'} {how} over {_extent(step.elements)} elements{over}: "
        f"reads {', '.join(reads) or 'nothing'}; writes {', '.join(writes)}."
    )


def _boundaries(captured: Captured) -> list[str]:
    """For each pair of neighbours that share a buffer: why they are two loops."""
    lines = []
    for index, (first, second) in enumerate(zip(captured.steps, captured.steps[1:], strict=False), start=1):
        shared = [name for name in second.reads if name in first.writes]
        if shared and first.reduction not in ("1", "()", "") and first.elements != second.elements:
            lines.append(
                f"{index} and {index + 1} stay apart: {', '.join(shared)} is the result of a reduction, whole only "
                f"when all of {index} has run."
            )
        elif shared and (first.library or second.library):
            lines.append(
                f"{index} and {index + 1} stay apart: {', '.join(shared)} goes through memory, for the blocks of "
                f"{first.library or second.library} are not those of an elementwise loop."
            )
        elif shared:
            lines.append(f"{index} and {index + 1} stay apart: they walk {', '.join(shared)} in different shapes.")
        elif not set(first.reads) & set(second.reads):
            lines.append(f"{index} and {index + 1} stay apart: they share no data.")
    return lines


def _traffic(steps: list[Step], fused: bool) -> int | None:
    """Bytes read and written; without fusion each operator of a step reads and writes its largest array once more."""
    total = 0
    for step in steps:
        sizes = [*step.reads.values(), *step.writes.values()]
        known = [size for size in sizes if size is not None]
        if len(known) < len(sizes):
            return None
        total += sum(known)
        if not fused:
            total += 2 * max(known, default=0) * max(0, len(step.operators) - 1)
    return total


def _extent(text: str) -> str:
    """`(512, 256)` as `512 x 256`."""
    parts = [part.strip() for part in text.strip("()").split(",") if part.strip()]
    return " x ".join(parts) or "1"


def _size(num_bytes: int) -> str:
    return f"{num_bytes / 1e6:.1f} MB" if num_bytes >= 1e5 else f"{num_bytes / 1e3:.1f} kB"
