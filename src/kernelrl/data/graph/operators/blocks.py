"""Small whole blocks of known architectures."""

from __future__ import annotations

from kernelrl.data.graph.graph import Dim, Graph, Value
from kernelrl.data.graph.operators import operator


def _width(graph: Graph, x: Value) -> int:
    return graph.length(x, -1, 16, 512)


@operator("mlp", "block", (2, 3))
def mlp(graph: Graph, x: Value) -> Value:
    width, hidden = _width(graph, x), graph.choose(64, 128, 256)
    graph.cost(4 * x.numel * hidden)
    up = graph.module("up", "Linear", ("features", width), ("hidden", hidden))
    down = graph.module("down", "Linear", ("hidden", hidden), ("features", width))
    activation = graph.rng.choice(("torch.relu", "F.gelu", "F.silu", "torch.tanh"))
    inner = graph.let(f"{activation}({up}({x}))", (*x.shape[:-1], hidden))
    return graph.let(f"{down}({inner})", x.shape)


@operator("gated_mlp", "block", (2, 3))
def gated_mlp(graph: Graph, x: Value) -> Value:
    """SwiGLU (Shazeer 2020)."""
    width, hidden = _width(graph, x), graph.choose(64, 128)
    graph.cost(6 * x.numel * hidden)
    gate = graph.module("gate", "Linear", ("features", width), ("hidden", hidden), bias=False)
    up = graph.module("up", "Linear", ("features", width), ("hidden", hidden), bias=False)
    down = graph.module("down", "Linear", ("hidden", hidden), ("features", width), bias=False)
    inner = graph.let(f"F.silu({gate}({x})) * {up}({x})", (*x.shape[:-1], hidden))
    return graph.let(f"{down}({inner})", x.shape)


@operator("residual_mlp", "block", (2, 3))
def residual_mlp(graph: Graph, x: Value) -> Value:
    width, hidden = _width(graph, x), graph.choose(64, 128)
    graph.cost(4 * x.numel * hidden)
    norm = graph.module("norm", "LayerNorm", ("features", width))
    up = graph.module("up", "Linear", ("features", width), ("hidden", hidden))
    down = graph.module("down", "Linear", ("hidden", hidden), ("features", width))
    inner = graph.let(f"F.gelu({up}({norm}({x})))", (*x.shape[:-1], hidden))
    return graph.let(f"{x} + {down}({inner})", x.shape)


@operator("attention_block", "block", (3,))
def attention_block(graph: Graph, x: Value) -> Value:
    """Multi-head self-attention with its projections and residual."""
    width, (batch, length) = _width(graph, x), x.shape[:2]
    heads = graph.choose(2, 4)
    graph.require(width % heads == 0 and width <= 256 and not isinstance(length, Dim) and length <= 512)
    graph.cost(8 * x.numel * width + 4 * x.numel * length)
    qkv = graph.module("qkv", "Linear", ("features", width), ("features_qkv", 3 * width))
    out = graph.module("out", "Linear", ("features", width), ("features", width))
    packed = graph.let(f"{qkv}({x})", (batch, length, 3 * width))
    per_head = f".reshape({batch}, {length}, {heads}, {width // heads}).transpose(1, 2)"
    shape = (batch, heads, length, width // heads)
    parts = [graph.let(f"{packed}[..., {width * part}:{width * (part + 1)}]{per_head}", shape) for part in range(3)]
    attended = graph.let(f"F.scaled_dot_product_attention({', '.join(map(str, parts))})", shape)
    return graph.let(f"{x} + {out}({attended}.transpose(1, 2).reshape({batch}, {length}, {width}))", x.shape)


@operator("conv_norm_relu", "block", (4,))
def conv_norm_relu(graph: Graph, x: Value) -> Value:
    channels, outer = _channels(graph, x), graph.choose(8, 16, 32)
    graph.cost(18 * x.numel * outer)
    layer = graph.module("conv", "Conv2d", ("channels", channels), ("outer", outer), kernel_size=3, padding=1)
    shape = (x.shape[0], outer, *x.shape[2:])
    norm = graph.module("norm", "GroupNorm", ("groups", 4), ("outer", outer))
    return graph.let(f"torch.relu({norm}({layer}({x})))", shape)


@operator("residual_block", "block", (4,))
def residual_block(graph: Graph, x: Value) -> Value:
    """He et al. 2016, figure 2, without normalisation."""
    channels = _channels(graph, x)
    graph.cost(36 * x.numel * channels)
    sizes = (("channels", channels), ("channels", channels))
    first = graph.module("conv", "Conv2d", *sizes, kernel_size=3, padding=1)
    second = graph.module("conv", "Conv2d", *sizes, kernel_size=3, padding=1)
    inner = graph.let(f"torch.relu({first}({x}))", x.shape)
    return graph.let(f"torch.relu({x} + {second}({inner}))", x.shape)


@operator("separable_conv", "block", (4,))
def separable_conv(graph: Graph, x: Value) -> Value:
    """Depthwise, then pointwise (Howard et al. 2017)."""
    channels, outer = _channels(graph, x), graph.choose(8, 16, 32)
    graph.cost(2 * x.numel * (outer + 9))
    depth = graph.module("depthwise", "Conv2d", ("channels", channels), ("channels", channels), kernel_size=3,
                         padding=1, groups=channels)  # fmt: skip
    point = graph.module("pointwise", "Conv2d", ("channels", channels), ("outer", outer), kernel_size=1)
    inner = graph.let(f"F.relu6({depth}({x}))", x.shape)
    return graph.let(f"{point}({inner})", (x.shape[0], outer, *x.shape[2:]))


@operator("squeeze_excite", "block", (4,))
def squeeze_excite(graph: Graph, x: Value) -> Value:
    """Hu et al. 2018, figure 3."""
    channels, (batch, hidden) = _channels(graph, x), (x.shape[0], graph.choose(4, 8))
    down = graph.module("down", "Linear", ("channels", channels), ("hidden", hidden))
    up = graph.module("up", "Linear", ("hidden", hidden), ("channels", channels))
    pooled = graph.let(f"torch.mean({x}, dim=(2, 3))", (batch, channels))
    gate = graph.let(f"torch.sigmoid({up}(torch.relu({down}({pooled}))))", (batch, channels))
    return graph.let(f"{x} * {gate}[:, :, None, None]", x.shape)


@operator("gated_recurrent_cell", "block", (2,))
def gated_recurrent_cell(graph: Graph, x: Value) -> Value:
    """One step of a minimal gated unit (Zhou et al. 2016)."""
    width, hidden = _width(graph, x), graph.choose(64, 128)
    graph.cost(4 * x.numel * hidden)
    state = graph.input("state", (x.shape[0], hidden))
    gate = graph.module("gate", "Linear", ("features", width), ("hidden", hidden))
    candidate = graph.module("candidate", "Linear", ("features", width), ("hidden", hidden))
    shape = (x.shape[0], hidden)
    forget = graph.let(f"torch.sigmoid({gate}({x}) + {state})", shape)
    new = graph.let(f"torch.tanh({candidate}({x}) + {forget} * {state})", shape)
    return graph.let(f"(1.0 - {forget}) * {state} + {forget} * {new}", shape)


def _channels(graph: Graph, x: Value) -> int:
    channels = x.shape[1]
    graph.require(4 <= channels <= 128 and not any(isinstance(length, Dim) for length in x.shape[1:]))
    graph.require(min(x.shape[2:]) >= 4)
    return channels
