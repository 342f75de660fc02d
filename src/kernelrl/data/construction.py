"""The candidate around a teacher's kernels: the task's own `__init__`, and a `forward` that launches them."""

from __future__ import annotations

import ast
import textwrap
from collections.abc import Mapping

from kernelrl.candidate import ENTRY_POINT
from kernelrl.data.rewriting import bound_names, find_class, loaded_names
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
    model = find_class(tree, "Model")
    assert model is not None
    kept = _constructing(model)
    if not kept.body:
        return "", ""
    _write_classes_in(kept, {node.name: node for node in tree.body if isinstance(node, ast.ClassDef)})
    needed: list[ast.stmt] = []
    wanted = loaded_names(kept)
    for node in reversed(tree.body):  # what is used is defined above
        if isinstance(node, ast.Import | ast.ImportFrom):
            continue
        is_plain = isinstance(node, ast.ClassDef | ast.FunctionDef | ast.Assign) and node is not model
        if is_plain and wanted.intersection(bound_names(node)):
            part = _constructing(node) if isinstance(node, ast.ClassDef) else node
            needed.insert(0, part)
            wanted |= loaded_names(part)
    above = ""
    for node in tree.body:
        bound = set(bound_names(node)) if isinstance(node, ast.Import | ast.ImportFrom) else set[str]()
        if bound & wanted and not bound <= {"torch", "nn"}:
            above += f"{ast.unparse(node)}\n"
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
    for call in (part for item in body for part in ast.walk(item) if isinstance(part, ast.Call)):
        if ast.unparse(call.func) == "super":
            call.args = []  # `super(Model, self)` would not hold in another class
    return ast.ClassDef(node.name, node.bases, [], body, [])


def _write_classes_in(model: ast.ClassDef, classes: Mapping[str, ast.ClassDef]) -> None:
    """Name the class that all calls of a method give it, as in `self._make_layer(Block, 64)`, in the method itself, and
    write down the numbers that are read from classes, as in `Block.expansion`.

    A candidate constructs what it names: a class that arrives as an argument might be constructed anywhere.
    """
    calls = [node for node in ast.walk(model) if isinstance(node, ast.Call)]
    for method in (item for item in model.body if isinstance(item, ast.FunctionDef) and item.name != "__init__"):
        own = [call for call in calls if ast.unparse(call.func) == f"self.{method.name}"]
        for place, argument in reversed([*enumerate(method.args.args[1:])]):
            given = {ast.unparse(call.args[place]) if place < len(call.args) else "" for call in own}
            if len(given) == 1 and given <= classes.keys():
                for node in ast.walk(method):
                    if isinstance(node, ast.Name) and node.id == argument.arg:
                        node.id = next(iter(given))
                for call in own:
                    del call.args[place]
                method.args.args.remove(argument)
    numbers = {
        f"{name}.{target.id}": item.value
        for name, node in classes.items()
        for item in node.body
        if isinstance(item, ast.Assign) and isinstance(item.value, ast.Constant)
        for target in item.targets
        if isinstance(target, ast.Name)
    }
    _Written(numbers).visit(model)


class _Written(ast.NodeTransformer):
    """Puts constants in the place of attributes."""

    def __init__(self, constants: Mapping[str, ast.Constant]):
        self._constants = constants

    def visit_Attribute(self, node: ast.Attribute) -> ast.expr:
        self.generic_visit(node)
        return self._constants.get(ast.unparse(node), node) if isinstance(node.ctx, ast.Load) else node
