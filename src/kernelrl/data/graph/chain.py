"""Chains, the preset of `tasks=synthetic`: graphs of one thread on a matrix, simple enough for a small model to learn.

Each line of a program applies one operator to `x`, a float32 matrix of `M` rows and `N` columns, along its rows. The
operators are those of `operators/`, without their options.
"""

from __future__ import annotations

import random
from collections.abc import Collection
from typing import Literal, get_args

from kernelrl.data.graph.graph import Dials, Graph, Value
from kernelrl.data.graph.operators.pointwise import ACTIVATION, BINARY, ELEMENTWISE
from kernelrl.data.graph.operators.rows import REDUCE, SOFTMAX
from kernelrl.data.graph.operators.training import LOSSES
from kernelrl.data.graph.render import render
from kernelrl.errors import UserError
from kernelrl.task import Task

Category = Literal["elementwise", "broadcast", "normalisation", "matmul", "reduction", "loss"]
CATEGORIES: tuple[Category, ...] = get_args(Category)
"""Ordered: a chain belongs to the last of its operators' categories."""
IN_BETWEEN: tuple[Category, ...] = ("elementwise", "broadcast", "normalisation")
"""Categories of the operators between the first and the last one of a chain."""
ENDS: tuple[Category, ...] = ("reduction", "loss")
"""Categories of operators that end a chain."""
OPERATORS: dict[str, Category] = {
    **dict.fromkeys("relu relu6 leaky_relu elu sigmoid tanh silu gelu softplus hardswish".split(), "elementwise"),
    **dict.fromkeys("softsign tanhshrink abs square".split(), "elementwise"),
    **dict.fromkeys("add_bias mul_gain scale_rows add_residual".split(), "broadcast"),
    **dict.fromkeys("softmax log_softmax layer_norm rms_norm center".split(), "normalisation"),
    "matmul": "matmul",
    **dict.fromkeys("sum mean amax logsumexp".split(), "reduction"),
    **dict.fromkeys("mse_loss l1_loss".split(), "loss"),
}
"""`elementwise` and `broadcast` act on each element, `normalisation` on each row; `matmul` may only come first,
`reduction` and `loss` only last."""
OPERANDS = {
    "add_bias": ("b", "N"),
    "mul_gain": ("g", "N"),
    "scale_rows": ("s", "M, 1"),
    "add_residual": ("y", "M, N"),
    "matmul": ("w", "K, N"),
    "mse_loss": ("t", "M, N"),
    "l1_loss": ("t", "M, N"),
}
"""Name and shape of an operator's second argument."""
_TEXTS = {
    **ELEMENTWISE | ACTIVATION | BINARY | REDUCE | SOFTMAX | LOSSES,
    "add_bias": "{x} + {y}",
    "mul_gain": "{x} * {y}",
    "scale_rows": "{x} * {y}",
    "layer_norm": "F.layer_norm({x}, (N,))",
    "rms_norm": "F.rms_norm({x}, (N,), eps=1e-5)",
    "matmul": "{x} @ {y}",
    "center": "{x} - {x}.mean(dim=1, keepdim=True)",
    **{name: f"{{x}}.{name}(dim=1)" for name in ("sum", "mean", "amax")},
}
_PLAIN = Dials(fan_out=0.0, views=0.0, parameters=0.0, shape_ranges=0.0)
SHAPES = ((512, 2048), (768, 1536), (1024, 1024), (1280, 768), (1536, 768), (2048, 512))
"""Rows and columns: about a million elements, so that one eager call takes milliseconds."""


def statement(name: str) -> str:
    """The line of a program that applies an operator."""
    operand, _ = OPERANDS.get(name, ("", ""))
    return "x = " + _TEXTS[name].format(x="x", y=operand, dim=1, keep="")


def make_task(ops: tuple[str, ...], rows: int, columns: int) -> Task:
    """The task that applies `ops` in order to a matrix of `rows` times `columns`."""
    graph = Graph(random.Random(0), _PLAIN, "float32", ops=list(ops), outputs=(Value("x", ()),))
    operands = [OPERANDS[name] for name in ops if name in OPERANDS]
    shapes = {"x": "M, K" if ops[0] == "matmul" else "M, N", **dict(operands)}
    graph.inputs = {name: f"torch.randn({shape})" for name, shape in shapes.items()}
    graph.lines = [statement(name) for name in ops]
    return Task(
        id=f"synthetic/{'-'.join(ops)}/{rows}x{columns}",
        source=render(graph, {"M": rows, "N": columns, "K": 64}, None),
        category=category_of(ops),
        level=2 if len(ops) > 1 else 1,
        origin="synthetic",
        ops=ops,
    )


def category_of(ops: Collection[str]) -> Category:
    """The category of a chain: the last in `CATEGORIES` that one of its operators has."""
    return max((OPERATORS[name] for name in ops), key=CATEGORIES.index)


def draw_chains(
    rng: random.Random, names: Collection[str], count: int, min_ops: int, max_ops: int
) -> list[tuple[str, ...]]:
    """`count` distinct chains of the operators `names`, in the order drawn.

    Raises:
        UserError: an unknown operator, a category without any, or there are not so many chains.
    """
    pool: dict[Category, list[str]] = {category: [] for category in CATEGORIES}
    for name in names:
        if name not in OPERATORS:
            raise UserError(f"tasks.operators: {name!r} is not known; choose from {', '.join(OPERATORS)}")
        pool[OPERATORS[name]].append(name)
    for choice in (*((category,) for category in IN_BETWEEN), ENDS):
        if not any(pool[category] for category in choice):
            names_of_it = ", ".join(name for name, category in OPERATORS.items() if category in choice)
            raise UserError(f"tasks.operators has no operator of {' or '.join(choice)}: add one of {names_of_it}")
    drawn: dict[tuple[str, ...], None] = {}
    for _ in range(100 * count):
        drawn[_draw(rng, pool, rng.randint(min_ops, max_ops))] = None
        if len(drawn) == count:
            return list(drawn)
    raise UserError(
        f"tasks: only {len(drawn)} compositions of {min_ops} to {max_ops} operators found where {count} are needed; "
        "raise tasks.max_ops or lower tasks.num_train"
    )


def _draw(rng: random.Random, pool: dict[Category, list[str]], length: int) -> tuple[str, ...]:
    """No operator twice; half of the chains end in a reduction or a loss, an eighth begin with a matmul."""
    head = pool["matmul"] if rng.random() < 1 / 8 else []
    tail = [rng.choice([name for category in ENDS for name in pool[category]])] if rng.random() < 1 / 2 else []
    available = sum(len(pool[category]) for category in IN_BETWEEN)
    middle: list[str] = []
    while len(middle) < min(length - len(head) - len(tail), available):
        (category,) = rng.choices(IN_BETWEEN, (6, 2, 2))
        name = rng.choice(pool[category])
        if name not in middle:
            middle.append(name)
    return (*head, *middle, *tail)
