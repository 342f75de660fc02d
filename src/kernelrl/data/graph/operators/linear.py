"""Matrix products and attention."""

from __future__ import annotations

from kernelrl.data.graph.graph import Graph, Shape, Value
from kernelrl.data.graph.operators import operator

WIDTHS = (32, 48, 64, 96, 128, 192, 256, 384, 512)


def _inner(graph: Graph, x: Value) -> int:
    """The length that a product sums over."""
    return graph.length(x, -1, 16, 2048)


def _product(graph: Graph, x: Value) -> tuple[int, int, Shape]:
    """Inner length, a number of columns that fits the budget, and the product's shape."""
    inner = _inner(graph, x)
    columns = graph.choose(*WIDTHS)
    graph.cost(2 * x.numel * columns)
    return inner, columns, (*x.shape[:-1], columns)


@operator("matmul", "matmul", (2, 3))
def matmul(graph: Graph, x: Value) -> Value:
    inner, columns, shape = _product(graph, x)
    w = graph.weight("w", (inner, columns), inner**-0.5)
    return graph.let(f"torch.matmul({x}, {w})", shape)


@operator("matmul_transposed", "matmul", (2, 3))
def matmul_transposed(graph: Graph, x: Value) -> Value:
    inner, columns, shape = _product(graph, x)
    w = graph.weight("w", (columns, inner), inner**-0.5)
    return graph.let(f"torch.matmul({x}, {w}.t())", shape)


@operator("linear", "matmul", (2, 3))
def linear(graph: Graph, x: Value) -> Value:
    inner, columns, shape = _product(graph, x)
    layer = graph.module("linear", "Linear", ("in_features", inner), ("out_features", columns))
    return graph.let(f"{layer}({x})", shape)


@operator("linear_no_bias", "matmul", (2, 3))
def linear_no_bias(graph: Graph, x: Value) -> Value:
    inner, columns, shape = _product(graph, x)
    layer = graph.module("linear", "Linear", ("in_features", inner), ("out_features", columns), bias=False)
    return graph.let(f"{layer}({x})", shape)


@operator("addmm", "matmul", (2,))
def addmm(graph: Graph, x: Value) -> Value:
    inner, columns, shape = _product(graph, x)
    w = graph.weight("w", (inner, columns), inner**-0.5)
    bias = graph.weight("bias", (columns,))
    return graph.let(f"torch.addmm({bias}, {x}, {w}, beta=0.5)", shape)


@operator("matvec", "matmul", (2, 3))
def matvec(graph: Graph, x: Value) -> Value:
    inner = _inner(graph, x)
    w = graph.weight("w", (inner,), inner**-0.5)
    return graph.let(f"torch.matmul({x}, {w})", x.shape[:-1])


@operator("bmm", "matmul", (3,))
def bmm(graph: Graph, x: Value) -> Value:
    inner, columns, shape = _product(graph, x)
    y = graph.input("y", (x.shape[0], inner, columns))
    return graph.let(f"torch.bmm({x}, {y}) * {inner**-0.5:.4f}", shape)


@operator("gram", "matmul", (3,))
def gram(graph: Graph, x: Value) -> Value:
    inner, length = _inner(graph, x), x.shape[1]
    graph.cost(2 * x.numel * length)
    return graph.let(f"torch.bmm({x}, {x}.transpose(1, 2)) / {inner}", (x.shape[0], length, length))


@operator("outer", "matmul", (2,))
def outer(graph: Graph, x: Value) -> Value:
    graph.require(x.numel <= 4096 * 16)
    width = graph.choose(8, 16)
    y = graph.weight("y", (width,))
    return graph.let(f'torch.einsum("ij,k->ijk", {x}, {y})', (*x.shape, width))


@operator("einsum_heads", "matmul", (3,))
def einsum_heads(graph: Graph, x: Value) -> Value:
    inner, heads, width = _inner(graph, x), graph.choose(2, 4), graph.choose(16, 32)
    graph.cost(2 * x.numel * heads * width)
    w = graph.weight("w", (heads, inner, width), inner**-0.5)
    return graph.let(f'torch.einsum("btd,hdk->bhtk", {x}, {w})', (x.shape[0], heads, x.shape[1], width))


@operator("attention", "attention", (4,))
def attention(graph: Graph, x: Value) -> Value:
    key, value = _keys_and_values(graph, x)
    causal = graph.rng.random() < 0.5
    option = ", is_causal=True" if causal else ""
    return graph.let(f"F.scaled_dot_product_attention({x}, {key}, {value}{option})", x.shape)


@operator("attention_scores", "attention", (4,))
def attention_scores(graph: Graph, x: Value) -> Value:
    key, _ = _keys_and_values(graph, x, values=False)
    scores = graph.let(f"torch.matmul({x}, {key}.transpose(-2, -1)) * {x.shape[-1] ** -0.5:.4f}", _square(x))
    return graph.let(f"torch.softmax({scores}, dim=-1)", scores.shape)


@operator("attention_bias", "attention", (4,))
def attention_bias(graph: Graph, x: Value) -> Value:
    key, value = _keys_and_values(graph, x)
    bias = graph.input("bias", (x.shape[2], x.shape[2]))
    scores = graph.let(f"torch.matmul({x}, {key}.transpose(-2, -1)) * {x.shape[-1] ** -0.5:.4f} + {bias}", _square(x))
    return graph.let(f"torch.matmul(torch.softmax({scores}, dim=-1), {value})", x.shape)


@operator("single_head_attention", "attention", (3,))
def single_head_attention(graph: Graph, x: Value) -> Value:
    key, value = _keys_and_values(graph, x)
    scores = graph.let(f"torch.bmm({x}, {key}.transpose(1, 2)) * {x.shape[-1] ** -0.5:.4f}", _square(x))
    return graph.let(f"torch.bmm(torch.softmax({scores}, dim=-1), {value})", x.shape)


@operator("linear_attention", "attention", (3, 4))
def linear_attention(graph: Graph, x: Value) -> Value:
    """Katharopoulos et al. 2020, equation 6, with elu + 1 as the feature map."""
    key, value = _keys_and_values(graph, x)
    query = graph.let(f"F.elu({x}) + 1.0", x.shape)
    features = graph.let(f"F.elu({key}) + 1.0", x.shape)
    width = x.shape[-1]
    summary = graph.let(f"torch.matmul({features}.transpose(-2, -1), {value})", (*x.shape[:-2], width, width))
    total = graph.let(f"torch.sum({features}, dim=-2, keepdim=True)", (*x.shape[:-2], 1, width))
    scale = graph.let(f"torch.sum({query} * {total}, dim=-1, keepdim=True)", (*x.shape[:-1], 1))
    return graph.let(f"torch.matmul({query}, {summary}) / {scale}", x.shape)


def _keys_and_values(graph: Graph, x: Value, values: bool = True) -> tuple[Value, Value]:
    graph.require(8 <= x.shape[-1] <= 128 and 8 <= x.shape[-2] <= 512)
    graph.cost(4 * x.numel * x.shape[-2])
    key = graph.other(x, "k")
    return key, graph.other(x, "v") if values else key


def _square(x: Value) -> Shape:
    return (*x.shape[:-1], x.shape[-2])
