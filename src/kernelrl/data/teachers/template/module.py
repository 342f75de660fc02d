"""The Python around a kernel: arguments, allocation and launches in `ModelNew.forward`."""

from __future__ import annotations

from kernelrl.data.rewriting import find_forward
from kernelrl.data.teachers.template.expr import Expr, walk
from kernelrl.data.teachers.template.loops import Buffer, Program
from kernelrl.task import Task


def arguments_of(task: Task) -> list[str]:
    """Names of the arguments of `Model.forward`; empty where it is not written plainly."""
    forward = find_forward(task.source)
    if forward is None or forward.args.vararg or forward.args.kwonlyargs or forward.args.kwarg:
        return []
    return [argument.arg for argument in forward.args.args[1:]]


def forward(
    program: Program, scratch: list[Buffer], arguments: list[str], launches: list[str], single: bool
) -> tuple[list[str], str]:
    """The statements of `ModelNew.forward`, which allocate and launch, and what it returns.

    Args:
        scratch: buffers that kernels pass to each other.
        single: return a tensor rather than a tuple.
    """
    lines = []
    used = {node.args[0] for buffer in (*scratch, *program.outputs) for n in buffer.shape for node in walk(n)}
    text = " ".join(launches)
    for name, length in sorted(program.sizes.items()):
        if name in used or name in text:
            lines.append(f"{name} = {length}")
    for buffer in (*scratch, *program.outputs):
        keyword = "" if buffer.dtype == "float32" else f", dtype=torch.{buffer.dtype}"
        device = f", device={arguments[0]}.device" if arguments else ""
        shape = ", ".join(map(length_text, buffer.shape)) + ("," if len(buffer.shape) == 1 else "")
        lines.append(f"{buffer.name} = torch.empty(({shape}){keyword}{device})")
    results = ", ".join(buffer.name for buffer in program.outputs)
    return [*lines, *launches], results if single else f"({results},)"


def length_text(length: Expr) -> str:
    """A length in Python."""
    parts = [length_text(operand) for operand in length.operands]
    signs = {"add": "+", "sub": "-", "mul": "*", "floordiv": "//", "mod": "%"}
    return f"({parts[0]} {signs[length.op]} {parts[1]})" if parts else str(length.args[0])
