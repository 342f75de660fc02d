"""What Inductor makes of a task: its output code, taken before anything is compiled, and its fusion decisions.

`torch.export` gives the task's graph with parameters, buffers and inputs by name; Inductor's own passes, scheduler and
code generators do the rest. Triton code is generated for a GPU that need not be there. Runs task code: for worker
processes only.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import prod
from typing import Any
from unittest import mock

import torch
import torch._inductor.config as inductor_config
import triton
from torch._decomp import get_decompositions
from torch._inductor import ir
from torch._inductor.codegen.common import PythonPrinter
from torch._inductor.compile_fx import compile_fx_inner
from torch._inductor.decomposition import select_decomp_table
from torch._inductor.graph import GraphLowering
from torch._inductor.lowering import fallback_handler, lowerings
from torch._inductor.scheduler import BaseSchedulerNode
from torch._inductor.utils import sympy_product
from torch.export import Dim, ExportedProgram
from torch.export.graph_signature import InputKind, OutputKind
from torch.utils._pytree import tree_leaves, tree_unflatten
from triton.backends.compiler import GPUTarget

from kernelrl.data.tracing import attribute
from kernelrl.task import Task

PATCHES: dict[str, Any] = {
    "fx_graph_cache": False,
    "graph_partition": False,
    "cpp.simdlen": 1,  # plain loops: explicit vectors need ATen's headers, which no candidate may include
    "cpp.dynamic_threads": True,
    "layout_optimization": False,  # channels last, which suits oneDNN and not a kernel that walks along rows
}
LIBRARIES = ("extern_kernels.", "aten.", "inductor_ops.", "torch.ops.")
aten = torch.ops.aten
SLOW_SCANS = [aten.logcumsumexp.default, aten.cummax.default, aten.cummin.default]
"""Triton's interpreter combines the elements of a scan one by one, unless it is a plain sum or product."""
DECOMPOSED: list[Any] = [aten._scaled_dot_product_flash_attention_for_cpu, aten.upsample_nearest2d.vec]
"""Operators that Inductor leaves to a library although it can generate what they consist of."""


class NotConvertible(Exception):
    """The task cannot be made a stand-alone kernel; the text is a reason that can be counted."""


@dataclass(frozen=True)
class Step:
    """One loop nest or one library call, as the scheduler left it.

    Attributes:
        operators: ATen's, in order, e.g. `relu`, `var_mean`.
        reduction: elements that each output is reduced over; 1: none.
        reads: buffers and inputs, with their bytes.
        writes: the same for what it stores.
        library: the operator of a library call, e.g. `mm`; None: a loop nest.
    """

    operators: tuple[str, ...]
    elements: str
    reduction: str
    reads: Mapping[str, int]
    writes: Mapping[str, int]
    library: str | None


@dataclass(frozen=True)
class Buffer:
    """A tensor of the wrapper.

    Attributes:
        dtype: e.g. `float32`.
        size: Python text of a tuple, which may name symbols.
        stride: the same, in elements.
        num_bytes: without gaps, in the sizes that the task shows; None where only a published text is known.
    """

    dtype: str
    size: str
    stride: str
    num_bytes: int | None


@dataclass
class Captured:
    """Inductor's output for one task.

    Attributes:
        code: the wrapper module with the kernels as strings in it.
        arguments: what each placeholder stands for in `ModelNew.forward`: an argument or `self.weight`; and once the
            wrapper is translated, for each buffer in the place of another one, that one.
        inputs: names of the arguments of `forward`.
        returned: the value of `forward` with the graph's outputs as `{0}`, `{1}`, ….
        steps: in order of execution.
        buffers: inputs and intermediate results by the wrapper's names.
        symbols: what stands for a length that may change in the wrapper, e.g. `s77`, and in `forward`: `x.shape[0]`.
        apart: bytes that the operators read and write where each runs alone.
    """

    code: str = ""
    arguments: dict[str, str] = field(default_factory=dict)
    inputs: list[str] = field(default_factory=list)
    returned: str = ""
    steps: list[Step] = field(default_factory=list)
    buffers: dict[str, Buffer] = field(default_factory=dict)
    symbols: dict[str, str] = field(default_factory=dict)
    apart: int = 0


def capture(task: Task, dialect: str, patches: Mapping[str, Any]) -> Captured:
    """Run Inductor on the task as far as its output code.

    Args:
        patches: settings of `torch._inductor.config` beside `PATCHES`, e.g. `{"max_fusion_size": 1}`.

    Raises:
        NotConvertible: the graph cannot be exported, or changes its inputs.
    """
    program = _export(task)
    captured = Captured()
    _name_arguments(program, captured)
    _name_outputs(program, captured)
    graph = program.graph_module
    examples = [node.meta["val"] for node in graph.graph.nodes if node.op == "placeholder"]
    if dialect == "triton":
        triton.runtime.driver.set_active(_NamedTarget())

    def stop(lowering: GraphLowering) -> None:
        wrapper, _ = lowering.codegen()
        captured.buffers = dict(_buffers(lowering, examples))
        captured.symbols = dict(_symbols(lowering, captured.arguments))
        captured.apart = _bytes_apart(lowering)
        captured.steps = [
            _describe(lowering, node, captured.buffers)
            for node in lowering.scheduler.nodes
            if not isinstance(node.node, ir.MultiOutput)
        ]
        captured.code = wrapper.value
        raise _Stop

    settings = {**PATCHES, "cpu_backend": dialect, **patches}
    fallbacks = {operator: fallback_handler(operator) for operator in SLOW_SCANS}  # type: ignore[no-untyped-call]
    with (
        mock.patch.dict(lowerings, fallbacks),
        mock.patch.object(GraphLowering, "compile_to_module", stop),
        inductor_config.patch(settings),
        torch.no_grad(),
    ):
        try:
            compile_fx_inner(graph, examples)
        except Exception as error:
            if not captured.code:
                raise NotConvertible(f"inductor: {type(error).__name__}") from error
    if not captured.code:
        raise NotConvertible("nothing to compute")
    return captured


pexpr = PythonPrinter().doprint


def operator_of(path: str) -> str | None:
    """The operator of a library's function, e.g. `mm` of `extern_kernels.mm`; None: it is none of a library."""
    return path.removeprefix("torch.ops.").split(".")[1] if path.startswith(LIBRARIES) else None


class _Stop(Exception):
    """The code is known: Inductor need not go on."""


class _NamedTarget:
    """A Triton driver that only names the GPU which code is generated for."""

    def get_current_target(self) -> GPUTarget:
        return GPUTarget("cuda", 90, 32)

    def get_current_device(self) -> int:
        return 0


def _export(task: Task) -> ExportedProgram:
    program: dict[str, Any] = {}
    exec(compile(task.source, "task", "exec"), program)
    torch.manual_seed(0)
    model = program["Model"](*program["get_init_inputs"]())
    inputs = tuple(program["get_inputs"]())
    if not all(isinstance(item, torch.Tensor | int | float | bool | None) for item in inputs):
        raise NotConvertible("inputs that are no tensors or numbers")
    table = {**select_decomp_table(), **get_decompositions(DECOMPOSED)}
    try:
        with torch.no_grad():
            exported = torch.export.export(model, inputs, dynamic_shapes=_dynamic_shapes(task, program, inputs))
            decomposed: ExportedProgram = exported.run_decompositions(table)
            return decomposed
    except NotConvertible:
        raise
    except Exception as error:
        raise NotConvertible(f"torch.export: {type(error).__name__}") from error


def _dynamic_shapes(task: Task, program: dict[str, Any], inputs: tuple[Any, ...]) -> tuple[Any, ...] | None:
    """Which dimensions of the inputs change with the constants of `SHAPE_RANGES`."""
    if not task.shape_ranges:
        return None
    shown = {name: program[name] for name in task.shape_ranges}
    arguments = program["get_init_inputs"]()
    others = []
    for name, (low, high) in task.shape_ranges.items():
        for size in {low, high} - {shown[name]}:
            program[name] = size
            if program["get_init_inputs"]() != arguments:
                raise NotConvertible("parameters whose shape is hidden")
            others.append(tuple(program["get_inputs"]()))
            program[name] = shown[name]
    return tuple(
        {
            axis: Dim.AUTO
            for axis in range(item.dim())
            if any(other[index].shape[axis] != item.shape[axis] for other in others)
        }
        if isinstance(item, torch.Tensor)
        else None
        for index, item in enumerate(inputs)
    )


def _name_arguments(program: ExportedProgram, captured: Captured) -> None:
    for spec in program.graph_signature.input_specs:
        name = spec.arg.name
        if spec.kind == InputKind.USER_INPUT:
            captured.arguments[name] = name
            captured.inputs.append(name)
        elif spec.kind in (InputKind.PARAMETER, InputKind.BUFFER):
            captured.arguments[name] = attribute(str(spec.target))
        else:
            raise NotConvertible("a tensor constant")


def _name_outputs(program: ExportedProgram, captured: Captured) -> None:
    """Keep what the task returns: running statistics and the like are no part of its answer."""
    specs = program.graph_signature.output_specs
    if any(spec.kind == OutputKind.USER_INPUT_MUTATION for spec in specs):
        raise NotConvertible("a changed input")
    graph = program.graph_module.graph
    (output,) = graph.find_nodes(op="output")
    kept = [node for node, spec in zip(output.args[0], specs, strict=True) if spec.kind == OutputKind.USER_OUTPUT]
    if not all(isinstance(node, torch.fx.Node) for node in kept):
        raise NotConvertible("outputs that are no tensors")
    output.args = (tuple(kept),)
    graph.eliminate_dead_code()
    program.graph_module.recompile()
    tree = program.call_spec.out_spec
    assert tree is not None
    captured.returned = _render(tree_unflatten([f"{{{index}}}" for index in range(len(kept))], tree))


def _render(value: object) -> str:
    """Python text for a nest of lists, tuples and dictionaries with text at its leaves."""
    if isinstance(value, str):
        return value
    if type(value) is tuple:
        return f"({', '.join(map(_render, value))},)" if len(value) == 1 else f"({', '.join(map(_render, value))})"
    if type(value) is list:
        return f"[{', '.join(map(_render, value))}]"
    if type(value) is dict:
        return "{{" + ", ".join(f"{key!r}: {_render(item)}" for key, item in value.items()) + "}}"
    raise NotConvertible(f"outputs in a {type(value).__name__}")


def _buffers(lowering: GraphLowering, examples: Sequence[Any]) -> Iterator[tuple[str, Buffer]]:
    lengths: list[Any] = [length for each in examples if isinstance(each, torch.Tensor) for length in each.shape]
    shown = {length.node.expr: length.node.hint for length in lengths if isinstance(length, torch.SymInt)}
    for name, item in {**lowering.graph_inputs, **lowering.name_to_buffer}.items():
        if isinstance(item, ir.IRNode) and isinstance(layout := item.maybe_get_layout(), ir.Layout):
            size, stride = (
                f"({''.join(f'{pexpr(part)}, ' for part in parts)})" for parts in (layout.size, layout.stride)
            )
            num_bytes = int(sympy_product(layout.size).subs(shown)) * layout.dtype.itemsize
            yield name, Buffer(str(layout.dtype).removeprefix("torch."), size, stride, num_bytes)


def _symbols(lowering: GraphLowering, arguments: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    for name, item in lowering.graph_inputs.items():
        if isinstance(item, ir.IRNode) and isinstance(layout := item.maybe_get_layout(), ir.Layout):
            for axis, length in enumerate(layout.size):
                if str(length).isidentifier():
                    yield str(length), f"{arguments.get(name, name)}.shape[{axis}]"


def _bytes_apart(lowering: GraphLowering) -> int:
    """What all operators read and write, in the sizes that the task shows; a view moves nothing."""
    total = 0
    for node in lowering.graph.nodes:
        returns = node.target._schema.returns if isinstance(node.target, torch._ops.OpOverload) else ()
        if any(value.alias_info is None for value in returns):
            values = [leaf for part in (*node.all_input_nodes, node) for leaf in tree_leaves(part.meta["val"])]
            total += sum(_num_bytes(value) for value in values if isinstance(value, torch.Tensor))
    return total


def _num_bytes(value: torch.Tensor) -> int:
    """Of what is stored: along an axis that is expanded there is one element."""
    lengths = [length for length, stride in zip(value.shape, value.stride(), strict=True) if stride != 0]
    shown = (length.node.hint if isinstance(length, torch.SymInt) else length for length in lengths)
    return prod(shown) * value.dtype.itemsize


def _computed(lowering: GraphLowering, part: BaseSchedulerNode) -> set[torch.fx.Node]:
    """The operators whose work one loop does: those that its result comes from, without what it reads as a buffer."""
    if part.node is None:
        return set()
    origins = set(part.node.get_origins())
    read = [lowering.name_to_buffer.get(dep.name) for dep in part.read_writes.reads]
    done = {buffer.get_origin_node() for buffer in read if buffer is not None}
    pending, found = [part.node.get_origin_node()], set[torch.fx.Node]()
    while pending:
        node = pending.pop()
        if node is not None and node not in found and node not in done:
            found.add(node)
            pending += node.all_input_nodes
    return origins & found or origins


def _describe(lowering: GraphLowering, node: BaseSchedulerNode, buffers: Mapping[str, Buffer]) -> Step:
    group = node.group[1] if getattr(node, "group", None) else ("", "1")
    sizes = [str(size) for size in group] if isinstance(group, tuple) and len(group) == 2 else ["", "1"]
    order = {origin: index for index, origin in enumerate(lowering.graph.nodes)}
    origins = {origin for part in node.get_nodes() for origin in _computed(lowering, part)}
    computing = [origin for origin in sorted(origins, key=lambda it: order.get(it, 0)) if origin.op == "call_function"]
    targets: list[Any] = [getattr(it.target, "overloadpacket", it.target) for it in computing]
    operators = dict.fromkeys(target.__name__ for target in targets)
    parts = [user.node for out in node.get_outputs() for user in out.users]
    taken = [part for part in parts if isinstance(part, BaseSchedulerNode) and isinstance(part.node, ir.MultiOutput)]
    written = {dep.name for writer in taken or [node] for dep in writer.read_writes.writes} - lowering.removed_buffers
    read = {dep.name for dep in node.read_writes.reads} - written - lowering.removed_buffers
    sizes_of = {name: buffer.num_bytes for name, buffer in buffers.items() if buffer.num_bytes is not None}
    return Step(
        tuple(operators),
        sizes[0],
        sizes[1],
        {name: sizes_of[name] for name in sorted(read & sizes_of.keys())},
        {name: sizes_of[name] for name in sorted(written & sizes_of.keys())},
        operator_of(node.node.python_kernel_name or "") if isinstance(node.node, ir.ExternKernel) else None,
    )
