"""The candidate around the kernels: `ModelNew` with the task's own `__init__`, and a `forward` that launches them."""

from __future__ import annotations

import ast
import textwrap

from kernelrl.candidate import ENTRY_POINT
from kernelrl.data.rewriting import without_class_in_super
from kernelrl.task import Task


def assemble(module_text: str, task: Task, inputs: list[str], statements: list[str], returned: str) -> str:
    """Source of the candidate.

    Args:
        module_text: imports and kernels.
        inputs: names of the arguments of `forward`.
        statements: body of `forward`; it may read what the task's `__init__` made.
        returned: expression that `forward` returns.
    """
    lines = "\n".join([*statements, f"return {returned}"])
    own, init = _construction(task.source)
    forward = f"    def forward({', '.join(['self', *inputs])}):\n{textwrap.indent(lines, ' ' * 8)}\n"
    return f"{module_text}{own}\n\nclass {ENTRY_POINT}(nn.Module):\n{init}{forward}"


def _construction(source: str) -> tuple[str, str]:
    """What `Model.__init__` needs of the task's program, and the method itself; both empty where it makes nothing."""
    tree = ast.parse(source)
    classes = {node.name: node for node in tree.body if isinstance(node, ast.ClassDef)}
    model = classes.pop("Model")
    kept = without_class_in_super(_constructing(model))
    if not kept.body:
        return "", ""
    needed: list[ast.stmt] = []
    wanted = _names(kept)
    for node in reversed(tree.body):  # what is used is defined above
        if isinstance(node, ast.Import | ast.ImportFrom):
            continue
        defined = {part.id for part in ast.walk(node) if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Store)}
        if isinstance(node, ast.ClassDef | ast.FunctionDef):
            defined = {node.name}
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.Assign) and defined & wanted and node is not model:
            part = _constructing(node) if isinstance(node, ast.ClassDef) else node
            needed.insert(0, part)
            wanted |= _names(part)
    imports = [node for node in tree.body if isinstance(node, ast.Import | ast.ImportFrom) and _binds(node) & wanted]
    have = {"torch", "nn"}
    imports = [node for node in imports if not _binds(node) <= have]
    above = "".join(f"{ast.unparse(node)}\n" for node in imports)
    above += "".join(f"\n\n{ast.unparse(node)}\n" for node in needed)
    return above, "".join(textwrap.indent(ast.unparse(node), "    ") + "\n\n" for node in kept.body)


def _constructing(node: ast.ClassDef) -> ast.ClassDef:
    """The class with nothing but `__init__` and the methods that it calls."""
    methods = {item.name: item for item in node.body if isinstance(item, ast.FunctionDef)}
    wanted, found = {"__init__"}, set[str]()
    while pending := (wanted & methods.keys()) - found:
        found |= pending
        wanted |= {part.attr for name in pending for part in ast.walk(methods[name]) if isinstance(part, ast.Attribute)}
    found.discard("forward")
    body: list[ast.stmt] = [
        item
        for item in node.body
        if (isinstance(item, ast.FunctionDef) and item.name in found) or isinstance(item, ast.Assign | ast.AnnAssign)
    ]
    if not body and node.name != "Model":
        body = [ast.Pass()]
    return ast.ClassDef(node.name, node.bases, [], body, [])


def _names(node: ast.AST) -> set[str]:
    return {part.id for part in ast.walk(node) if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Load)}


def _binds(node: ast.Import | ast.ImportFrom) -> set[str]:
    return {alias.asname or alias.name.split(".")[0] for alias in node.names}
