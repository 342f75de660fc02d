"""The Python around a kernel: `ModelNew`, with the reference's own `__init__`."""

from __future__ import annotations

import ast

from kernelrl.data.rewriting import without_class_in_super
from kernelrl.data.teachers.template.expr import Expr, walk
from kernelrl.data.teachers.template.loops import Buffer, Program
from kernelrl.task import Task


def arguments_of(task: Task) -> list[str]:
    """Names of the arguments of `Model.forward`; empty where it is not written plainly."""
    forward = _method(_model(ast.parse(task.source)), "forward")
    if forward is None or forward.args.vararg or forward.args.kwonlyargs or forward.args.kwarg:
        return []
    return [argument.arg for argument in forward.args.args[1:]]


def definitions(task: Task) -> tuple[str, str]:
    """What `ModelNew.__init__` needs at the top of the file (constants, helper classes), and the method itself."""
    tree = ast.parse(task.source)
    model = _model(tree)
    init = _method(model, "__init__")
    if init is None:
        return "", ""
    needed = {node.id for node in ast.walk(init) if isinstance(node, ast.Name)}
    kept: list[str] = []
    for node in reversed(tree.body):
        if isinstance(node, ast.ClassDef) and node is not model and node.name in needed:
            node.body = [each for each in node.body if isinstance(each, ast.FunctionDef) and each.name == "__init__"]
            needed |= {each.id for each in ast.walk(node) if isinstance(each, ast.Name)}
        elif not (isinstance(node, ast.Assign) and {ast.unparse(target) for target in node.targets} & needed):
            continue
        kept.insert(0, ast.unparse(node))
    method = "\n".join(f"    {line}" for line in ast.unparse(without_class_in_super(init)).splitlines())
    return "".join(f"\n{text}\n" for text in kept), f"{method}\n\n"


def forward(program: Program, scratch: list[Buffer], arguments: list[str], launches: list[str], single: bool) -> str:
    """`ModelNew.forward`: allocate, launch, return.

    Args:
        scratch: buffers that kernels pass to each other.
        single: return a tensor rather than a tuple.
    """
    lines = [f"    def forward({', '.join(['self', *arguments])}):"]
    used = {node.args[0] for buffer in (*scratch, *program.outputs) for n in buffer.shape for node in walk(n)}
    text = " ".join(launches)
    for name, length in sorted(program.sizes.items()):
        if name in used or name in text:
            lines.append(f"        {name} = {length}")
    for buffer in (*scratch, *program.outputs):
        keyword = "" if buffer.dtype == "float32" else f", dtype=torch.{buffer.dtype}"
        device = f", device={arguments[0]}.device" if arguments else ""
        shape = ", ".join(map(length_text, buffer.shape)) + ("," if len(buffer.shape) == 1 else "")
        lines.append(f"        {buffer.name} = torch.empty(({shape}){keyword}{device})")
    lines += [f"        {launch}" for launch in launches]
    results = ", ".join(buffer.name for buffer in program.outputs)
    lines.append(f"        return {results if single else f'({results},)'}")
    return "\n".join(lines) + "\n"


def length_text(length: Expr) -> str:
    """A length in Python."""
    parts = [length_text(operand) for operand in length.operands]
    signs = {"add": "+", "sub": "-", "mul": "*", "floordiv": "//", "mod": "%"}
    return f"({parts[0]} {signs[length.op]} {parts[1]})" if parts else str(length.args[0])


def _model(tree: ast.Module) -> ast.ClassDef:
    return next(node for node in tree.body if isinstance(node, ast.ClassDef) and node.name == "Model")


def _method(model: ast.ClassDef, name: str) -> ast.FunctionDef | None:
    return next((node for node in model.body if isinstance(node, ast.FunctionDef) and node.name == name), None)
