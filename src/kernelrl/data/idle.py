"""Operators that do nothing: a task that has one teaches that an operator may be left out."""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from copy import deepcopy
from types import MethodType
from typing import Any

import torch
from torch.utils._pytree import tree_leaves

from kernelrl.data.rewriting import find_forward, stored_names

MOST = 16
"""Statements of one program that are tried, the first ones: synthesised programs have fewer."""
FREE = frozenset("view reshape flatten squeeze unsqueeze expand contiguous clone detach to float".split())
"""Calls that compute nothing, whatever they are given."""


def find_idle(
    program: dict[str, Any],
    source: str,
    model: torch.nn.Module,
    inputs: Sequence[Any],
    equal: Callable[[torch.Tensor, torch.Tensor], bool],
) -> str | None:
    """A statement of `Model.forward` without which its outputs are the same, e.g. `torch.relu(v1)`; None: none is so.

    Of each statement in turn the first operand stands for the result. Parameters and buffers are changed before, since
    a bias of zeros or running statistics as they begin would be idle by accident. Not seen: an operator inside a larger
    expression.

    Args:
        program: the module's names, as `source` made them.
        equal: whether two outputs are the same, to within what the caller tolerates.
    """
    forward = find_forward(source)
    if forward is None:
        return None
    forward.returns, forward.decorator_list = None, []
    for argument in ast.walk(forward.args):  # without annotations: their names may be anything
        if isinstance(argument, ast.arg):
            argument.annotation = None
    torch.manual_seed(2)
    for each in (*model.parameters(), *model.buffers()):
        if each.is_floating_point():
            each.mul_(0.5 + torch.rand_like(each)).add_(0.1 * torch.rand_like(each))
    outputs = _tensors(model(*inputs))
    for index, operand in list(_removable(forward).items())[:MOST]:
        less = deepcopy(forward)
        statement = less.body[index]
        assert isinstance(statement, ast.Assign | ast.Return)
        removed, statement.value = statement.value, ast.copy_location(ast.Name(operand, ast.Load()), statement)
        names: dict[str, Any] = {}
        exec(compile(ast.Module([less], []), "without an operator", "exec"), program, names)
        try:
            without = _tensors(MethodType(names["forward"], model)(*inputs))
        except (RuntimeError, TypeError, ValueError, IndexError, AttributeError):  # it cannot do without
            continue
        if len(without) == len(outputs) and all(equal(*pair) for pair in zip(outputs, without, strict=True)):
            return ast.unparse(removed) if removed else None
    return None


def _removable(forward: ast.FunctionDef) -> dict[int, str]:
    """Positions of the statements that compute a value, each with the first local name that it reads."""
    local = {argument.arg for argument in forward.args.args} - {"self"}
    found = {}
    for index, statement in enumerate(forward.body):
        if isinstance(statement, ast.Assign | ast.Return) and statement.value is not None:
            read = [node for node in ast.walk(statement.value) if isinstance(node, ast.Name) and node.id in local]
            computes = isinstance(statement.value, ast.BinOp) or (
                isinstance(statement.value, ast.Call)
                and not (isinstance(statement.value.func, ast.Attribute) and statement.value.func.attr in FREE)
            )
            if read and computes:
                found[index] = min(read, key=lambda name: (name.lineno, name.col_offset)).id
        if isinstance(statement, ast.Assign):
            local |= {name for target in statement.targets for name in stored_names(target)}
    return found


def _tensors(outputs: Any) -> list[torch.Tensor]:
    return [leaf for leaf in tree_leaves(outputs) if isinstance(leaf, torch.Tensor)]
