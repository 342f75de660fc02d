"""Smaller sizes for a task, so that a benchmark made for a large GPU can be used on a CPU."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from math import prod

from kernelrl.data.rewriting import find_function, loaded_names, replace_expressions
from kernelrl.task import SHAPE_RANGES, Task

SIZE = 64
"""A module-level integer from here on is a size; below it, it may be a stride, a number of heads, a kernel's width."""
SMALLEST = 16
"""No size gets smaller than this."""
_ARITHMETIC = (ast.BinOp, ast.Constant, ast.Add, ast.Sub, ast.Mult, ast.FloorDiv)


def scale(task: Task, factor: float) -> Task:
    """The task with its largest sizes halved until its inputs have shrunk to `factor`.

    Sizes are the module's integer constants from 64 on. Equal ones stay equal, because all of one value shrink alike;
    halving keeps them divisible. Inputs have shrunk to `factor` when the product of the sizes that `get_inputs()` names
    has. A task without such sizes stays as it is; one that has changed says so in its first line and in its id.

    Args:
        factor: between 0 and 1.
    """
    tree = ast.parse(task.source)
    places = list(_sizes(tree))
    used = [value for name, value, _ in places if name in _read_by_inputs(tree)]
    smaller = {value: value for _, value, _ in places}
    while smaller and prod(smaller[value] / value for value in used) > factor:
        largest = max(smaller, key=lambda value: smaller[value])
        if smaller[largest] <= SMALLEST:
            break
        smaller[largest] = -(-smaller[largest] // 2)
    changed = {value: new for value, new in sorted(smaller.items()) if new != value}
    if not changed:
        return task
    texts = {node: str(smaller[value]) for _, value, node in places}
    note = ", ".join(f"{value} -> {new}" for value, new in changed.items())
    text = f"# Sizes of the original, scaled by {factor:g}: {note}\n{replace_expressions(task.source, texts)}"
    return task.model_copy(update={"id": f"{task.id}@{factor:g}", "source": text})


def _sizes(tree: ast.Module) -> Iterator[tuple[str, int, ast.expr]]:
    """Name, value and expression of every size among the module's constants, also of those inside tuples and lists."""
    for node in tree.body:
        if not isinstance(node, ast.Assign):
            continue
        for target in node.targets:
            yield from _pairs(target, node.value)


def _pairs(target: ast.expr, value: ast.expr) -> Iterator[tuple[str, int, ast.expr]]:
    if isinstance(value, ast.Tuple | ast.List):
        together = isinstance(target, ast.Tuple | ast.List) and len(target.elts) == len(value.elts)
        targets = target.elts if together and isinstance(target, ast.Tuple | ast.List) else [target] * len(value.elts)
        for part, element in zip(targets, value.elts, strict=True):
            yield from _pairs(part, element)
    elif isinstance(target, ast.Name) and target.id != SHAPE_RANGES and (size := _evaluate(value)) is not None:
        yield target.id, size, value


def _evaluate(node: ast.expr) -> int | None:
    """The value of integer arithmetic such as `1024 * 2`, if it is a size."""
    if not all(isinstance(part, _ARITHMETIC) for part in ast.walk(node)):
        return None
    try:
        value = eval(compile(ast.Expression(node), "size", "eval"), {"__builtins__": {}})
    except (ArithmeticError, ValueError, TypeError):
        return None
    return value if type(value) is int and value >= SIZE else None


def _read_by_inputs(tree: ast.Module) -> set[str]:
    draw = find_function(tree.body, "get_inputs")
    return loaded_names(draw) if draw else set()
