"""What Inductor leaves to libraries (`extern_kernels.mm`, `torch.ops.aten.cumsum`), as calls of kernels that a
candidate has in its own source."""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from kernelrl.data.teachers.inductor.capture import Captured, NotConvertible, operator_of

Number = int | float

TENSORS: Mapping[str, tuple[str, ...]] = {
    "mm": ("a", "b"),
    "bmm": ("a", "b"),
    "addmm": ("bias", "a", "b"),
    "baddbmm": ("bias", "a", "b"),
    "convolution": ("x", "weight", "bias"),
    "cumsum": ("x",),
    "cumprod": ("x",),
    "logcumsumexp": ("x",),
    "cummax": ("x",),
    "cummin": ("x",),
}
"""By operator: its tensors, in the order in which they are given."""
OUTPUTS: Mapping[str, tuple[str, ...]] = {"cummax": ("values", "indices"), "cummin": ("values", "indices")}
"""Of operators with more than one."""


@dataclass(frozen=True)
class Call:
    """One call of a library.

    Attributes:
        tensors: by name: the expression that it is in `forward`; an optional one that is not given is left out.
        options: everything else that it is given, as Python values.
        outputs: by name: the buffer; one that nobody reads is left out.
        dtypes: of the tensors and outputs by name, e.g. `float32`.
        sizes: of them, as text.
    """

    operator: str
    tensors: Mapping[str, str]
    options: Mapping[str, Any]
    outputs: Mapping[str, str]
    dtypes: Mapping[str, str]
    sizes: Mapping[str, str]

    def number(self, name: str, default: Number) -> Number:
        value: Number = self.options.get(name, default)
        return value


class Library(Protocol):
    """A language's kernels for these calls; it remembers which a candidate needs."""

    reasons: Mapping[str, str]
    """By operator: why its kernel is as it is, to follow `mm: `."""

    @property
    def functions(self) -> dict[str, str]:
        """Text of the functions that a candidate needs, by name, each after those that it uses."""
        ...

    def launch(self, call: Call) -> str:
        """The statement that computes the call into its outputs, which are allocated.

        Raises:
            NotConvertible: there is no kernel for this operator or its types.
        """
        ...


def called(node: ast.stmt) -> str | None:
    """The operator of a statement that calls a library, e.g. `mm`, or None."""
    value = node.value if isinstance(node, ast.Expr | ast.Assign) else None
    if not isinstance(value, ast.Call):
        return None
    return operator_of(ast.unparse(value.func))


def read_call(node: ast.stmt, body: Sequence[ast.stmt], captured: Captured, rewrite: Callable[[ast.expr], str]) -> Call:
    """The call that a statement makes.

    Args:
        node: a statement for which `called` names an operator; its expressions still have Inductor's names.
        body: the function that it stands in, which says what its results are called.
        rewrite: gives the expression that a tensor is in `forward`.

    Raises:
        NotConvertible: the operator is not known, or is given something that no kernel here takes.
    """
    operator = called(node)
    assert operator is not None and isinstance(node, ast.Expr | ast.Assign) and isinstance(node.value, ast.Call)
    if operator not in TENSORS:
        raise NotConvertible(f"extern kernel: {operator}")
    names = TENSORS[operator]
    given = dict(zip(names, node.value.args, strict=False))
    options = {option.arg: option.value for option in node.value.keywords if option.arg}
    if len(node.value.args) > len(names):
        (options["dim"],) = node.value.args[len(names) :]
    out = options.pop("out", None)
    tensors = given | {name: options.pop(name) for name in names if name in options}
    tensors = {name: value for name, value in tensors.items() if ast.unparse(value) != "None"}
    results = {"out": out} if out is not None else _results(node, body, operator, captured)
    try:
        literals = {name: ast.literal_eval(value) for name, value in options.items()}
        buffers = {name: captured.buffers[_buffer(value)] for name, value in (tensors | results).items()}
    except (ValueError, KeyError) as error:
        raise NotConvertible(f"extern kernel: {operator} of an unforeseen form") from error
    inputs = {name: rewrite(value) for name, value in tensors.items()}
    outputs = {name: rewrite(value) for name, value in results.items()}
    dtypes = {name: buffer.dtype for name, buffer in buffers.items()}
    sizes = {name: buffer.size for name, buffer in buffers.items()}
    return Call(operator, inputs, literals, outputs, dtypes, sizes)


def triple(values: Sequence[int], missing: int) -> tuple[int, int, int]:
    """A setting of each of one to three axes as one of three, the last one last."""
    first, second, third = [missing] * (3 - len(values)) + list(values)
    return first, second, third


def _results(node: ast.stmt, body: Sequence[ast.stmt], operator: str, captured: Captured) -> dict[str, ast.expr]:
    """The buffers that hold what a call returns: `buf0 = aten.…`, or then `buf1 = buf0`, or `buf1 = buf0[0]`."""
    assert isinstance(node, ast.Assign)
    made = ast.unparse(node.targets[0])
    if made in captured.buffers:
        return {"out": node.targets[0]}
    results = {ast.unparse(item.value): item.targets[0] for item in body if isinstance(item, ast.Assign)}
    if operator not in OUTPUTS:
        return {"out": results[made]}
    places = {name: f"{made}[{index}]" for index, name in enumerate(OUTPUTS[operator])}
    return {name: results[place] for name, place in places.items() if place in results}


def _buffer(node: ast.expr) -> str:
    """The buffer behind `reinterpret_tensor(buf, …)`."""
    return ast.unparse(node.args[0]) if isinstance(node, ast.Call) else ast.unparse(node)
