"""From PyTorch's core operators to loops."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Literal

import sympy
import torch
from torch.fx import Node
from torch.utils._pytree import tree_leaves, tree_map

from kernelrl.data.teachers.template.expr import ONE, Expr, const, size
from kernelrl.data.teachers.template.loops import KINDS, Buffer, Program, Shape, Tensor, is_heavy, stored
from kernelrl.data.teachers.template.lowerings import LOWERINGS, Form
from kernelrl.data.teachers.template.trace import Traced

Fusion = Literal["none", "all"]


OURS = re.compile(
    r"([uritl]\d*|n|a_.*|.*_|out\d*|kernel|auto|bool|char|class|const|double|float|int|long|new|short|template)"
)
"""Names that kernels use themselves."""


NAMES = {
    "mm": "matmul",
    "bmm": "matmul",
    "addmm": "linear",
    "linalg_vector_norm": "norm",
    "to_copy": "cast",
    "split_with_sizes": "split",
}
"""Of operators whose own names no program has."""

MAKERS = frozenset("sym_size empty empty_permuted empty_like full full_like scalar_tensor arange zeros ones".split())
"""Operators that compute nothing from the program's values."""


class UnsupportedError(Exception):
    """An operator or dtype for which there are no loops."""


def lower(traced: Traced, fusion: Fusion, pack: bool = False) -> Program:
    """The loops that compute a traced program.

    Args:
        fusion: `none`: every operator writes its result to memory. `all`: elementwise work is read where it is needed,
            except what is costly and read by several.
        pack: copy the second operand of a product to where its rows are contiguous.

    Raises:
        UnsupportedError: names the operator.
    """
    program = Program(pack=pack)
    values: dict[Node, Any] = {}
    lazy: dict[Node, tuple[str, ...]] = {}
    names = iter(traced.names)
    for node in traced.graph.nodes:
        program.origin = _origin(node)
        program.names = tuple(dict.fromkeys((*_waiting(node, values, lazy), *_name(node))))
        match node.op:
            case "placeholder":
                values[node] = stored(_argument(program, next(names), node.meta["val"]))
            case "get_attr":
                values[node] = _constant(node)
            case "call_function":
                values[node] = _lower(program, node, values)
                lazy[node] = program.names
                if isinstance(values[node], Tensor) and node.users:
                    _settle(program, node, values[node], fusion)
            case "output":
                _finish(program, [values[leaf] for leaf in tree_leaves(node.args[0])], _results(node))
            case other:
                raise UnsupportedError(other)
    _drop_unread(program)
    return program


def _waiting(node: Node, values: dict[Node, Any], lazy: dict[Node, tuple[str, ...]]) -> Iterator[str]:
    """The operators before a node whose results are not written anywhere."""
    for source in node.all_input_nodes:
        value = values.get(source)
        if not (isinstance(value, Tensor) and value.buffer is not None):
            yield from lazy.get(source, ())


def _name(node: Node) -> tuple[str, ...]:
    """What reasoning calls a node; nothing where it computes nothing."""
    if node.op != "call_function" or not str(node.target).startswith("aten.") or _is_view(node):
        return ()
    if _origin(node) in MAKERS:
        return ()
    name = _origin(node).removeprefix("native_").removesuffix("_with_indices")
    return (NAMES.get(name, "batch_norm" if name.startswith("batch_norm") else name),)


def _constant(node: Node) -> Tensor:
    """A tensor that the program writes down, such as `torch.tensor(0.5)`: numbers alone."""
    value = getattr(node.graph.owning_module, str(node.target))
    value = getattr(value, "constant", value)
    if not isinstance(value, torch.Tensor) or value.numel() != 1:
        raise UnsupportedError("a tensor that is written down")
    number = const(value.item())
    return Tensor((ONE,) * value.dim(), _dtype(value), lambda at: number)


def _argument(program: Program, text: str, value: torch.Tensor) -> Buffer:
    if not isinstance(value, torch.Tensor):
        raise UnsupportedError(f"argument {text}, which is no tensor")
    for axis, length in enumerate(value.shape):
        if isinstance(length, torch.SymInt) and isinstance(length.node.expr, sympy.Symbol):
            program.sizes.setdefault(length.node.expr.name, f"{text}.shape[{axis}]")
            program.shown.setdefault(length.node.expr.name, int(length.node.hint))
    name = re.sub(r"\W+", "_", text.removeprefix("self.")).strip("_")
    taken = {buffer.name for buffer in program.inputs}
    while name in taken or OURS.fullmatch(name):
        name += "_in"
    if not value.is_contiguous():
        text = f"{text}.contiguous()"
    buffer = Buffer(name, _shape(value), _dtype(value), text)
    program.inputs.append(buffer)
    return buffer


def _lower(program: Program, node: Node, values: dict[Node, Any]) -> Any:
    target = str(node.target)
    if target == "<built-in function getitem>":
        source, position = node.args
        assert isinstance(source, Node) and isinstance(position, int)
        return values[source][position]
    out = node.meta["val"]
    if isinstance(out, int | torch.SymInt):
        return _length(out)
    unknown = any(values[source] is None for source in node.all_input_nodes)
    if target.startswith("aten.empty") or (unknown and "full_like" not in target):
        return None  # what an operator returns beside its result, or memory that is not written yet
    in_place = target.split(".")[1].endswith("_")
    target = target.replace("_.", ".") if in_place else target
    if target not in LOWERINGS:
        raise UnsupportedError(target)
    first = out[0] if isinstance(out, tuple | list) else out
    form = Form(_shape(first), _dtype(first)) if isinstance(first, torch.Tensor) else Form((), "float32")
    args, kwargs = tree_map(lambda leaf: _value(leaf, values), (node.args, node.kwargs))
    result = LOWERINGS[target](program, form, *args, **kwargs)
    if in_place:
        values[node.all_input_nodes[0]] = result
    return result


def _value(leaf: object, values: dict[Node, Any]) -> Any:
    if isinstance(leaf, Node):
        return values.get(leaf, leaf)
    return _length(leaf) if isinstance(leaf, torch.SymInt) else leaf


def _settle(program: Program, node: Node, value: Tensor, fusion: Fusion) -> None:
    """Write a value to memory, where that is better than computing it at every read."""
    if value.buffer is not None or not value.shape or _is_view(node):
        return
    element = value.read(tuple(const(0) for _ in value.shape))
    if element.op == "const":
        return
    if fusion == "none" or (len(node.users) > 1 and is_heavy(element)):
        program.realise(value)


def _is_view(node: Node) -> bool:
    name = str(node.target).split(".")[1] if "." in str(node.target) else ""
    return name in ("view", "permute", "expand", "unsqueeze", "squeeze", "slice", "select", "alias", "clone", "full")


def _finish(program: Program, results: list[Tensor | None], forms: list[tuple[Shape, str]]) -> None:
    """Name the outputs: the buffers that hold them already, where they can, and copies of the others."""
    for tensor, (shape, dtype) in zip(results, forms, strict=True):
        if tensor is None:
            raise UnsupportedError("an output that is not computed")
        buffer = tensor.buffer
        taken = {other.name for other in (*program.inputs, *program.outputs)}
        read = {other.name for stage in program.stages for other, _ in stage.loads()}
        if buffer is None or buffer.name in taken or (buffer.dtype != dtype and buffer.name in read):
            buffer = Buffer(program.allocate(shape, dtype).name, shape, dtype)
            program.write(buffer, tensor)
        elif buffer.dtype != dtype:
            program.retype(buffer.name, dtype)
        program.outputs.append(Buffer(buffer.name, shape, dtype))


def _drop_unread(program: Program) -> None:
    """Stages whose results nobody reads, such as the statistics that a normalisation returns beside its result, and
    inputs that no stage reads."""
    while True:
        read = {buffer.name for stage in program.stages for buffer, _ in stage.loads()}
        read |= {buffer.name for buffer in program.outputs}
        kept = [stage for stage in program.stages if stage.buffer.name in read]
        if len(kept) == len(program.stages):
            program.inputs = [buffer for buffer in program.inputs if buffer.name in read]
            return
        program.stages = kept


def _results(node: Node) -> list[tuple[Shape, str]]:
    return [(_shape(leaf.meta["val"]), _dtype(leaf.meta["val"])) for leaf in tree_leaves(node.args[0])]


def _shape(value: torch.Tensor) -> Shape:
    return tuple(map(_length, value.shape))


def _length(length: Any) -> Expr:
    return const(length) if isinstance(length, int) else _sympy(length.node.expr)


def _sympy(expression: sympy.Expr) -> Expr:
    """A length that depends on sizes."""
    if expression.is_Integer:
        return const(int(expression))
    if expression.is_Symbol:
        return size(expression.name)
    if expression.is_Mul or expression.is_Add:
        total = _sympy(expression.args[0])
        for part in map(_sympy, expression.args[1:]):
            total = total * part if expression.is_Mul else total + part
        return total
    if expression.is_Pow and expression.args[1].is_Integer and int(expression.args[1]) > 0:
        base, total = _sympy(expression.args[0]), ONE
        for _ in range(int(expression.args[1])):
            total = total * base
        return total
    raise UnsupportedError(f"length {expression}")


def _dtype(value: torch.Tensor) -> str:
    name = str(value.dtype).removeprefix("torch.")
    if name not in KINDS:
        raise UnsupportedError(f"dtype {name}")
    return name


def _origin(node: Node) -> str:
    return str(node.target).split(".")[1].strip("_") if str(node.target).startswith("aten.") else node.name
