"""Operators along an axis: reductions, normalisation, softmax and scans."""

from __future__ import annotations

from kernelrl.data.graph.graph import Dim, Graph, Value
from kernelrl.data.graph.operators import Apply, Category, operator

REDUCE = {
    "sum": "torch.sum({x}, dim={dim}{keep})",
    "mean": "torch.mean({x}, dim={dim}{keep})",
    "amax": "torch.amax({x}, dim={dim}{keep})",
    "amin": "torch.amin({x}, dim={dim}{keep})",
    "logsumexp": "torch.logsumexp({x}, dim={dim}{keep})",
    "norm": "torch.linalg.vector_norm({x}, dim={dim}{keep})",
    "var": "torch.var({x}, dim={dim}, correction=0{keep})",
    "std": "torch.std({x}, dim={dim}, correction=0{keep})",
    "sum_of_squares": "torch.sum({x} * {x}, dim={dim}{keep})",
    "mean_abs": "torch.mean(torch.abs({x}), dim={dim}{keep})",
}
INDEX_OF = {"argmax": "torch.argmax({x}, dim={dim})", "argmin": "torch.argmin({x}, dim={dim})"}
SOFTMAX = {
    "softmax": "torch.softmax({x}, dim={dim})",
    "log_softmax": "torch.log_softmax({x}, dim={dim})",
    "softmin": "F.softmin({x}, dim={dim})",
    "softmax_temperature": "torch.softmax({x} / 2.0, dim={dim})",
}
NORMALISATION = {
    "center": "{x} - torch.mean({x}, dim={dim}, keepdim=True)",
    "l2_normalize": "F.normalize({x}, dim={dim})",
    "l1_normalize": "F.normalize({x}, p=1.0, dim={dim})",
    "max_normalize": "{x} / (torch.amax(torch.abs({x}), dim={dim}, keepdim=True) + 1.0)",
}
SCAN = {
    "cumsum": "torch.cumsum({x}, dim={dim})",
    "cumsum_mean": "torch.cumsum({x}, dim={dim}) / {x}.shape[{dim}]",
    "reverse_cumsum": "torch.flip(torch.cumsum(torch.flip({x}, dims=({dim},)), dim={dim}), dims=({dim},))",
    "cumprod": "torch.cumprod(torch.tanh({x}) * 0.1 + 1.0, dim={dim})",
    "cummax": "torch.cummax({x}, dim={dim}).values",
    "cummin": "torch.cummin({x}, dim={dim}).values",
    "logcumsumexp": "torch.logcumsumexp({x}, dim={dim})",
}


def _axis(graph: Graph, x: Value) -> int:
    """An axis longer than 1, mostly the last, never the one that the program names."""
    axes = [axis for axis in range(x.rank) if x.shape[axis] > 1 and not isinstance(x.shape[axis], Dim)]
    graph.require(bool(axes))
    return axes[-1] if graph.rng.random() < 0.6 else graph.rng.choice(axes)


def _reduction(template: str, dtype: str | None = None) -> Apply:
    def apply(graph: Graph, x: Value) -> Value:
        axis = _axis(graph, x)
        keep = graph.rng.random() < 0.25 and "keep" in template
        kept = (1,) if keep else ()
        text = template.format(x=x, dim=axis, keep=", keepdim=True" if keep else "")
        return graph.let(text, (*x.shape[:axis], *kept, *x.shape[axis + 1 :]), dtype)

    return apply


def _along_axis(template: str) -> Apply:
    return lambda graph, x: graph.let(template.format(x=x, dim=_axis(graph, x)), x.shape)


for name, template in REDUCE.items():
    operator(name, "reduce", (2, 3, 4))(_reduction(template))
for name, template in INDEX_OF.items():
    operator(name, "reduce", (2, 3))(_reduction(template, "int64"))
_TABLES: tuple[tuple[Category, dict[str, str], tuple[int, ...]], ...] = (
    ("softmax", SOFTMAX, (2, 3, 4)),
    ("normalisation", NORMALISATION, (2, 3, 4)),
    ("scan", SCAN, (2, 3)),
)
for category, table, ranks in _TABLES:
    for name, template in table.items():
        operator(name, category, ranks)(_along_axis(template))


@operator("sum_all", "reduce", (1, 2, 3))
def sum_all(graph: Graph, x: Value) -> Value:
    graph.require(graph.dtype == "float32")
    return graph.let(f"torch.sum({x} * {x})", ())


@operator("global_average", "reduce", (4,))
def global_average(graph: Graph, x: Value) -> Value:
    return graph.let(f"torch.mean({x}, dim=(2, 3))", x.shape[:2])


@operator("layer_norm", "normalisation", (2, 3))
def layer_norm(graph: Graph, x: Value) -> Value:
    width = graph.length(x, -1, 8)
    if graph.rng.random() < graph.dials.parameters:
        norm = graph.module("norm", "LayerNorm", ("features", width))
        return graph.let(f"{norm}({x})", x.shape)
    return graph.let(f"F.layer_norm({x}, ({width},))", x.shape)


@operator("rms_norm", "normalisation", (2, 3))
def rms_norm(graph: Graph, x: Value) -> Value:
    width = graph.length(x, -1, 8)
    gain = graph.weight("gain", (width,))
    return graph.let(f"F.rms_norm({x}, ({width},), weight={gain}, eps=1e-5)", x.shape)


@operator("group_norm", "normalisation", (3, 4))
def group_norm(graph: Graph, x: Value) -> Value:
    channels = x.shape[1]
    groups = graph.choose(2, 4, 8)
    graph.require(not isinstance(channels, Dim) and channels % groups == 0 and x.numel > x.shape[0] * channels)
    norm = graph.module("norm", "GroupNorm", ("groups", groups), ("channels", channels))
    return graph.let(f"{norm}({x})", x.shape)


@operator("instance_norm", "normalisation", (3, 4))
def instance_norm(graph: Graph, x: Value) -> Value:
    graph.require(x.numel >= 16 * x.shape[0] * x.shape[1])
    return graph.let(f"F.instance_norm({x})", x.shape)


@operator("batch_norm", "normalisation", (2, 3, 4))
def batch_norm(graph: Graph, x: Value) -> Value:
    """With given statistics, as at inference."""
    channels = x.shape[1]
    graph.require(not isinstance(channels, Dim) and graph.dtype == "float32")
    mean, weight, bias = (graph.weight(name, (channels,)) for name in ("mean", "weight", "bias"))
    variance = graph.input("variance", (channels,), "torch.rand({shape}) + 0.5")
    return graph.let(f"F.batch_norm({x}, {mean}, {variance}, {weight}, {bias})", x.shape)


@operator("batch_statistics_norm", "normalisation", (3, 4))
def batch_statistics_norm(graph: Graph, x: Value) -> Value:
    """With the statistics of the batch, as in training."""
    graph.require(graph.dtype == "float32")
    return graph.let(f"F.batch_norm({x}, None, None, training=True)", x.shape)


@operator("masked_softmax", "softmax", (2, 3))
def masked_softmax(graph: Graph, x: Value) -> Value:
    width = graph.length(x, -1, 8)
    mask = graph.input("mask", (*x.shape[:-2], x.shape[-2], width), "torch.rand({shape}) > 0.3", "bool")
    return graph.let(f"torch.softmax({x}.masked_fill({mask}, -10000.0), dim=-1)", x.shape)


@operator("masked_cumsum", "scan", (2,))
def masked_cumsum(graph: Graph, x: Value) -> Value:
    width = graph.length(x, -1, 8)
    mask = graph.input("mask", (x.shape[0], width), "torch.rand({shape}) > 0.3", "bool")
    return graph.let(f"torch.cumsum({x} * {mask}, dim=1)", x.shape)
