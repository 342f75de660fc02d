"""A task's program as a graph of PyTorch's core operators, without computing anything.

The model runs once on tensors without data (`make_fx` on fake tensors). What reaches the graph is functional (views and
writes in place are resolved) and decomposed into the core ATen operators. There a module, a function and a method are
the same operator, submodules and loops have vanished, and parameters, buffers and inputs are placeholders alike.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import cache
from typing import Any

import torch
from torch._decomp import core_aten_decompositions
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.func import functional_call, functionalize
from torch.fx import Graph
from torch.fx.experimental.proxy_tensor import make_fx
from torch.fx.experimental.symbolic_shapes import DimDynamic, ShapeEnv
from torch.fx.traceback import preserve_node_meta
from torch.overrides import TorchFunctionMode


@dataclass(frozen=True)
class Trace:
    """A traced program.

    Attributes:
        graph: placeholders are the weights, then the inputs. `meta["val"]` of a node is its result without data,
            `meta["original_aten"]` the operator that it is a part of.
        weights: names of the model's parameters and buffers.
        inputs: what `get_inputs` returned.
        returned: what `forward` returned.
        guarded: the graph holds for the lengths of now only, not for all that were to be symbols.
    """

    graph: Graph
    weights: list[str]
    inputs: Any
    returned: Any
    guarded: bool


def trace(source: str, symbols: Collection[str] = (), on_values: bool = False) -> Trace:
    """Trace `Model.forward` of a program in KernelBench's format. The program is run, in this process.

    Args:
        symbols: names of the module's constants that are lengths which may change.
        on_values: compute with real tensors, so that the program may look at their values.

    Raises:
        Exception: whatever the program raises.
    """
    shapes = ShapeEnv()
    mode: AbstractContextManager[Any] = nullcontext()
    if not on_values:
        mode = FakeTensorMode(allow_non_fake_inputs=True, shape_env=shapes)
    program: dict[str, Any] = {"__name__": "task"}
    returned: list[Any] = []
    names_device = "device" in source or "cuda" in source  # looking at every call of the others takes a fifth longer
    with mode, torch.no_grad(), _OnCpu() if names_device else nullcontext(), preserve_node_meta():
        exec(compile(source, "task", "exec"), program)
        program |= {name: _symbol(shapes, name, int(program[name])) for name in symbols}
        model = program["Model"](*program["get_init_inputs"]())
        inputs = program["get_inputs"]()
        weights = dict(model.named_parameters()) | dict(model.named_buffers())

        def call(weights: dict[str, torch.Tensor], inputs: Any) -> Any:
            args, kwargs = ((), dict(inputs)) if isinstance(inputs, Mapping) else (tuple(inputs), {})
            returned.append(functional_call(model, weights, args, kwargs))
            return returned[-1]

        tracer = make_fx(functionalize(call), _decompositions(), _error_on_data_dependent_ops=not on_values)
        graph = tracer(weights, inputs).graph
    return Trace(graph, list(weights), inputs, returned[-1], bool(shapes.replacements))


def attribute(path: str) -> str:
    """A parameter in Python: `self.layers[0].weight` of `layers.0.weight`."""
    return "self" + "".join(f"[{part}]" if part.isdigit() else f".{part}" for part in path.split("."))


_decompositions = cache(lambda: dict(core_aten_decompositions()))


def _symbol(shapes: ShapeEnv, name: str, hint: int) -> Any:
    from torch._dynamo.source import ConstantSource

    source = ConstantSource(name)
    symbol = shapes.create_symbol(hint, source, dynamic_dim=DimDynamic.DYNAMIC)
    return shapes.create_symintnode(symbol, hint=hint, source=source)


class _OnCpu(TorchFunctionMode):
    """Sends to the CPU what names another device, e.g. `device="cuda"` or `.cuda()`."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if func in (torch.Tensor.cuda, torch.Tensor.cpu):
            return args[0]
        if kwargs.get("device") is not None:
            kwargs = {**kwargs, "device": "cpu"}
        if func is torch.Tensor.to:
            args = tuple("cpu" if isinstance(it, str | torch.device) else it for it in args)
        return func(*args, **kwargs)
