"""Index, gather and scatter operators, and views."""

from __future__ import annotations

from math import prod

from kernelrl.data.graph.graph import Dim, Graph, Value
from kernelrl.data.graph.operators import operator


@operator("embedding", "index", (2,))
def embedding(graph: Graph, x: Value) -> Value:
    """Rows of a table for tokens; `x` is added to them."""
    width, words = graph.length(x, 1, 4), graph.choose(500, 1000, 4096)
    graph.require(words * width <= graph.dials.max_elements)
    index = graph.indices("tokens", words, (x.shape[0],))
    if graph.rng.random() < graph.dials.parameters:
        table = graph.module("embedding", "Embedding", ("words", words), ("features", width))
        return graph.let(f"{table}({index}) + {x}", x.shape)
    table = str(graph.weight("table", (words, width)))
    return graph.let(f"F.embedding({index}, {table}) + {x}", x.shape)


@operator("index_select", "index", (2, 3))
def index_select(graph: Graph, x: Value) -> Value:
    axis = graph.rng.randrange(1, x.rank)
    length = graph.length(x, axis, 4)
    count = graph.choose(length // 2, length)
    index = graph.indices("index", length, (count,))
    shape = (*x.shape[:axis], count, *x.shape[axis + 1 :])
    return graph.let(f"torch.index_select({x}, {axis}, {index})", shape)


@operator("gather", "index", (2, 3))
def gather(graph: Graph, x: Value) -> Value:
    length = graph.length(x, -1, 4)
    shape = (*x.shape[:-1], graph.choose(length // 2, length))
    index = graph.indices("index", length, shape)
    return graph.let(f"torch.gather({x}, {x.rank - 1}, {index})", shape)


@operator("take_per_row", "index", (2,))
def take_per_row(graph: Graph, x: Value) -> Value:
    index = graph.indices("index", graph.length(x, 1, 4), (x.shape[0], 1))
    return graph.let(f"{x} - torch.gather({x}, 1, {index})", x.shape)


@operator("scatter_add", "index", (2,))
def scatter_add(graph: Graph, x: Value) -> Value:
    graph.require(graph.dtype == "float32")
    columns = graph.length(x, 1, 4)
    out = graph.choose(columns // 4, columns)
    index = graph.indices("index", out, x.shape)
    base = graph.input("base", (x.shape[0], out))
    return graph.let(f"torch.scatter_add({base}, 1, {index}, {x})", base.shape)


@operator("index_add", "index", (2,))
def index_add(graph: Graph, x: Value) -> Value:
    graph.require(graph.dtype == "float32")
    columns, out = graph.length(x, 1, 4), graph.choose(16, 64)
    index = graph.indices("index", out, (columns,))
    base = graph.input("base", (x.shape[0], out))
    return graph.let(f"torch.index_add({base}, 1, {index}, {x})", base.shape)


@operator("masked_fill", "index", (2, 3, 4))
def masked_fill(graph: Graph, x: Value) -> Value:
    mask = graph.input("mask", x.shape, "torch.rand({shape}) > 0.5", "bool")
    return graph.let(f"{x}.masked_fill({mask}, 0.5)", x.shape)


@operator("tril", "index", (2, 3))
def tril(graph: Graph, x: Value) -> Value:
    which, offset = graph.rng.choice(("tril", "triu")), graph.choose(-1, 0, 1)
    return graph.let(f"torch.{which}({x}, diagonal={offset})", x.shape)


@operator("flip", "index", (2, 3, 4))
def flip(graph: Graph, x: Value) -> Value:
    return graph.let(f"torch.flip({x}, dims=({graph.rng.randrange(1, x.rank)},))", x.shape)


@operator("roll", "index", (2, 3))
def roll(graph: Graph, x: Value) -> Value:
    length = graph.length(x, -1, 4)
    return graph.let(f"torch.roll({x}, shifts={graph.rng.randint(1, length - 1)}, dims={x.rank - 1})", x.shape)


@operator("concatenate", "index", (2, 3, 4))
def concatenate(graph: Graph, x: Value) -> Value:
    axis = graph.rng.randrange(1, x.rank)
    length = graph.length(x, axis, 4)
    shape = (*x.shape[:axis], 2 * length, *x.shape[axis + 1 :])
    return graph.let(f"torch.cat([{x}, {graph.other(x)}], dim={axis})", shape)


@operator("rotate_half", "index", (3, 4))
def rotate_half(graph: Graph, x: Value) -> Value:
    """The rotation of rotary position embeddings."""
    half = graph.length(x, -1, 4) // 2
    graph.require(x.shape[-1] == 2 * half)
    return graph.let(f"torch.cat([-{x}[..., {half}:], {x}[..., :{half}]], dim=-1)", x.shape)


@operator("one_hot_mul", "index", (2,))
def one_hot_mul(graph: Graph, x: Value) -> Value:
    columns = graph.length(x, 1, 4)
    index = graph.indices("labels", columns, (x.shape[0],))
    return graph.let(f"{x} + torch.eq({index}.unsqueeze(1), torch.arange({columns}))", x.shape)


@operator("transpose", "view", (2, 3, 4))
def transpose(graph: Graph, x: Value) -> Value:
    first = graph.rng.randrange(0 if x.rank == 2 else 1, x.rank - 1)
    shape = list(x.shape)
    shape[first], shape[-1] = shape[-1], shape[first]
    return graph.let(f"{x}.transpose({first}, {x.rank - 1})", tuple(shape))


@operator("slice", "view", (2, 3, 4))
def slice_(graph: Graph, x: Value) -> Value:
    axis = graph.rng.randrange(1, x.rank)
    length = graph.length(x, axis, 16)
    before = ":, " * axis
    if graph.rng.random() < 0.3:
        start, count, text = 0, (length + 1) // 2, "::2"
    else:
        start = graph.rng.randint(0, length // 4)
        count = length - start
        text = f"{start}:"
    return graph.let(f"{x}[{before}{text}]", (*x.shape[:axis], count, *x.shape[axis + 1 :]))


@operator("flatten", "view", (3, 4))
def flatten(graph: Graph, x: Value) -> Value:
    return graph.let(f"{x}.flatten(1)", (x.shape[0], prod(x.shape[1:])))


@operator("split_heads", "view", (3,))
def split_heads(graph: Graph, x: Value) -> Value:
    heads, width = graph.choose(2, 4, 8), graph.length(x, 2, 4)
    graph.require(width % heads == 0 and width // heads >= 8 and not isinstance(x.shape[1], Dim))
    shape = (x.shape[0], heads, x.shape[1], width // heads)
    return graph.let(f"{x}.reshape(-1, {x.shape[1]}, {heads}, {width // heads}).transpose(1, 2)", shape)


@operator("split_rows", "view", (2,))
def split_rows(graph: Graph, x: Value) -> Value:
    parts, width = graph.choose(2, 4, 8, 16), graph.length(x, 1, 4)
    graph.require(width % parts == 0 and width // parts >= 8)
    return graph.let(f"{x}.reshape(-1, {parts}, {width // parts})", (x.shape[0], parts, width // parts))
