"""Drawing of graphs: an operator to draw it around, operators before and after it, and an input that suits them."""

from __future__ import annotations

import random
from collections.abc import Iterator
from math import prod

from kernelrl.data.disk_map import DiskMap
from kernelrl.data.graph.graph import HALF, Dials, Dim, Graph, Shape, UnfitError, Value
from kernelrl.data.graph.operators import CATEGORIES, FLOAT32_ONLY, OPERATORS, SAME_SHAPE, TERMINAL, Category, Operator
from kernelrl.data.graph.render import render
from kernelrl.data.program import hash_program
from kernelrl.errors import UserError
from kernelrl.task import Task

TRIES = 20
"""Operators that are tried at one place before a graph is given up."""
INNER: dict[int, tuple[Shape, ...]] = {
    1: ((),),
    2: ((128,), (256,), (384,), (500,), (512,), (768,), (1000,), (1024,), (2048,)),
    3: ((64, 64), (64, 128), (100, 96), (128, 64), (128, 256), (196, 192), (256, 64), (32, 512)),
    4: ((8, 32, 32), (16, 28, 28), (16, 64, 64), (32, 16, 16), (32, 30, 30), (4, 128, 64), (64, 14, 14), (24, 48, 32)),
    5: ((4, 8, 16, 16), (8, 8, 12, 12), (8, 16, 16, 16), (16, 6, 14, 14)),
}
"""Lengths of the first input's axes but the first, by rank; the first axis makes up its number of elements."""
Pool = dict[Category, list[Operator]]
_POOL: Pool = {category: [each for each in OPERATORS.values() if each.category == category] for category in CATEGORIES}


def tasks(seed: int, dials: Dials) -> Iterator[Task]:
    """Tasks without end, the same for the same arguments; no two are equal but for names and layout.

    Raises:
        UserError: a category that there is not, or dials that leave (almost) no new graph.
    """
    weights = _weights(dials)
    seen: DiskMap[None] = DiskMap()
    index = 0
    while True:
        for _ in range(10_000):
            task = draw(f"{seed}/{index}", dials, weights)
            index += 1
            if task is not None and seen.add(hash_program(task.source)):
                yield task
                break
        else:
            raise UserError(f"tasks: no new graph in 10,000 draws after {len(seen)} tasks; loosen tasks.dials")


def draw(key: str, dials: Dials, weights: dict[Category, float]) -> Task | None:
    """The task of that key; None: no graph came about."""
    rng = random.Random(key)
    graph = _grow(random.Random(key), dials, weights)
    if graph is None:
        return None
    category, grown, rows = graph
    lengths = {Dim.name: rows}
    program = render(grown, lengths, None)
    if random.Random(f"{key}/range").random() < dials.shape_ranges:
        low, high = max(2, rows // 8), rows + max(1, rows // 8)
        again = _grow(rng, dials, weights, low)  # the same program for another length: it may declare a range
        if again is not None and render(again[1], lengths, None) == program:
            program = render(grown, lengths, (low, high))
    return _task(category, grown, program)


def _task(category: Category, graph: Graph, program: str) -> Task:
    ops = tuple(graph.ops)
    task = Task(id="", source=program, category=category, origin="graph", licence="Apache-2.0", ops=ops)
    level = 3 if category in ("block", "attention") else 1 if len(ops) == 1 else 2
    return task.model_copy(update={"id": f"graph/{'-'.join(ops)}/{task.digest[:10]}", "level": level})


def _weights(dials: Dials) -> dict[Category, float]:
    known = [category for category in CATEGORIES if category != "view"]
    for name in dials.categories or {}:
        if name not in known:
            raise UserError(f"tasks.dials.categories: {name!r} is not known; choose from {', '.join(known)}")
    wanted = dials.categories or dict.fromkeys(known, 1.0)
    return {category: wanted[category] for category in known if wanted.get(category)}


def _grow(
    rng: random.Random, dials: Dials, weights: dict[Category, float], rows: int | None = None
) -> tuple[Category, Graph, int] | None:
    """A graph, its category and the length of its first axis.

    Args:
        rows: that length, where it is not to be drawn.
    """
    (category,) = rng.choices(list(weights), list(weights.values()))
    anchor = rng.choice(_POOL[category])
    count = rng.randint(dials.min_ops, dials.max_ops)
    before = rng.randrange(count)
    after = 0 if category in TERMINAL else count - 1 - before
    graph = Graph(rng, dials, _dtype(rng, dials, category))
    x, drawn = _first(graph, rng.choice(anchor.ranks), rows)
    try:
        for _ in range(before):
            graph, x = _extend(graph, x, SAME_SHAPE, anchor.ranks)
        graph, outputs = _apply(graph, x, anchor)
        for _ in range(after):
            graph, outputs = _follow(graph, outputs[0])
    except UnfitError:
        return None
    graph.outputs = outputs
    return category, graph, drawn


def _dtype(rng: random.Random, dials: Dials, category: Category) -> str:
    (dtype,) = rng.choices(list(dials.dtypes), list(dials.dtypes.values()))
    return "float32" if dtype in HALF and category in FLOAT32_ONLY else dtype


def _first(graph: Graph, rank: int, rows: int | None) -> tuple[Value, int]:
    """The first input, and the length of its first axis."""
    rng, dials = graph.rng, graph.dials
    inner = rng.choice(INNER[rank])
    numel = int(dials.min_elements * (dials.max_elements / dials.min_elements) ** rng.random())
    drawn = max(2, numel // prod(inner))
    if rank > 1 and drawn > 8:
        drawn -= drawn % rng.choice((1, 4, 8))
    x = graph.input("x", (Dim(rows or drawn), *inner))
    graph.values.append(x)
    return x, drawn


def _follow(graph: Graph, x: Value) -> tuple[Graph, tuple[Value, ...]]:
    """Any operator that fits after the one that the graph is drawn around; a number is left as it is."""
    if x.rank == 0 or not x.floating:
        return graph, (x,)
    allowed = SAME_SHAPE if graph.rng.random() < 0.7 else ("reduce", "pooling", "matmul", "index", "scan")
    graph, y = _extend(graph, x, allowed, None)
    return graph, (y,)


def _extend(
    graph: Graph, x: Value, allowed: tuple[Category, ...], ranks: tuple[int, ...] | None
) -> tuple[Graph, Value]:
    """One operator of the categories that are allowed; half of them elementwise or activations.

    Args:
        ranks: those that the result may have; None: any.
    """
    for _ in range(TRIES):
        category = graph.rng.choice(("elementwise", "activation", *allowed) if "elementwise" in allowed else allowed)
        chosen = graph.rng.choice(_POOL[category])
        if chosen.category in FLOAT32_ONLY and graph.dtype in HALF or chosen.name in graph.ops:
            continue
        try:
            extended, (y, *_) = _apply(graph, x, chosen)
        except UnfitError:
            continue
        if ranks is None or y.rank in ranks:
            return extended, y
    raise UnfitError


def _apply(graph: Graph, x: Value, chosen: Operator) -> tuple[Graph, tuple[Value, ...]]:
    """A copy of the graph with the operator at `x`, at times after a view."""
    graph = graph.copy()
    if graph.rng.random() < graph.dials.views and graph.lines and "float" in x.dtype:
        graph, x = _view(graph, x, chosen.ranks)
    graph.require(x.rank in chosen.ranks and x.floating)
    graph.ops.append(chosen.name)
    result = chosen.apply(graph, x)
    return graph, result if isinstance(result, tuple) else (result,)


def _view(graph: Graph, x: Value, ranks: tuple[int, ...]) -> tuple[Graph, Value]:
    chosen = graph.rng.choice(_POOL["view"])
    copy = graph.copy()
    if x.rank not in chosen.ranks:
        return graph, x
    try:
        y = chosen.apply(copy, x)
    except UnfitError:
        return graph, x
    assert isinstance(y, Value)
    if y.rank not in ranks:
        return graph, x
    copy.ops.append(chosen.name)
    return copy, y
