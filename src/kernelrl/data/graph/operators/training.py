"""Losses and optimiser steps: they end a graph. Optimiser steps return new values and change nothing in place."""

from __future__ import annotations

from kernelrl.data.graph.graph import Graph, Value
from kernelrl.data.graph.operators import Apply, operator

RAND = "torch.rand({shape}{dtype})"
LOSSES = {
    "mse_loss": "F.mse_loss({x}, {y})",
    "l1_loss": "F.l1_loss({x}, {y})",
    "smooth_l1_loss": "F.smooth_l1_loss({x}, {y})",
    "huber_loss": "F.huber_loss({x}, {y}, delta=0.5)",
    "log_cosh_loss": "torch.mean(F.softplus(-2.0 * ({x} - {y})) + ({x} - {y}) - 0.6931472)",
    "soft_margin_loss": "F.soft_margin_loss({x}, torch.sign({y}))",
    "hinge_loss": "torch.mean(torch.clamp(1.0 - {x} * torch.sign({y}), min=0.0))",
    "bce_with_logits": "F.binary_cross_entropy_with_logits({x}, torch.sigmoid({y}))",
    "poisson_nll": "F.poisson_nll_loss(torch.tanh({x}), torch.abs({y}))",
    "sum_of_errors": 'F.mse_loss({x}, {y}, reduction="none").sum(dim=-1)',
}


def _loss(template: str) -> Apply:
    rows = 'reduction="none"' in template

    def apply(graph: Graph, x: Value) -> Value:
        target = graph.input("target", x.shape)
        return graph.let(template.format(x=x, y=target), x.shape[:-1] if rows else ())

    return apply


for name, template in LOSSES.items():
    operator(name, "loss", (2, 3, 4))(_loss(template))


@operator("cross_entropy", "loss", (2,))
def cross_entropy(graph: Graph, x: Value) -> Value:
    labels = graph.indices("labels", graph.length(x, 1, 8), (x.shape[0],))
    smoothing = graph.rng.choice(("", ", label_smoothing=0.1"))
    return graph.let(f"F.cross_entropy({x}, {labels}{smoothing})", ())


@operator("nll_loss", "loss", (2,))
def nll_loss(graph: Graph, x: Value) -> Value:
    labels = graph.indices("labels", graph.length(x, 1, 8), (x.shape[0],))
    return graph.let(f"F.nll_loss(F.log_softmax({x}, dim=1), {labels})", ())


@operator("kl_div", "loss", (2,))
def kl_div(graph: Graph, x: Value) -> Value:
    graph.length(x, 1, 8)
    target = graph.input("target", x.shape)
    text = f'F.kl_div(F.log_softmax({x}, dim=1), torch.softmax({target}, dim=1), reduction="batchmean")'
    return graph.let(text, ())


@operator("cosine_loss", "loss", (2,))
def cosine_loss(graph: Graph, x: Value) -> Value:
    graph.length(x, 1, 8)
    target = graph.input("target", x.shape)
    return graph.let(f"torch.mean(1.0 - F.cosine_similarity({x}, {target}, dim=1))", ())


@operator("triplet_loss", "loss", (2,))
def triplet_loss(graph: Graph, x: Value) -> Value:
    graph.length(x, 1, 8)
    positive, negative = graph.input("positive", x.shape), graph.input("negative", x.shape)
    near = graph.let(f"torch.sum(torch.square({x} - {positive}), dim=1)", x.shape[:1])
    far = graph.let(f"torch.sum(torch.square({x} - {negative}), dim=1)", x.shape[:1])
    return graph.let(f"torch.mean(torch.relu({near} - {far} + 1.0))", ())


Steps = dict[str, tuple[str, str]]
RANDN = "torch.randn({shape}{dtype})"
_MEAN = (RANDN, "0.9 * {m} + 0.1 * {x}")
_SQUARE = (RAND, "0.999 * {v} + 0.001 * {x} * {x}")
_ADAM = f"({{new_m}} / {1 - 0.9**10:.6f}) / (torch.sqrt({{new_v}} / {1 - 0.999**10:.6f}) + 1e-8)"
OPTIMISERS: dict[str, tuple[Steps, tuple[str, ...]]] = {
    "sgd": ({}, ("{w} - 0.01 * ({x} + 0.0005 * {w})",)),
    "sgd_momentum": (
        {"velocity": (RANDN, "0.9 * {velocity} + {x}")},
        ("{w} - 0.01 * ({x} + 0.9 * {new_velocity})", "{w} - 0.01 * {new_velocity}"),
    ),
    "adam": ({"m": _MEAN, "v": _SQUARE}, (f"{{w}} - 0.001 * {_ADAM}",)),
    "adamw": ({"m": _MEAN, "v": _SQUARE}, (f"{{w}} * 0.9999 - 0.001 * {_ADAM}",)),
    "rmsprop": (
        {"square": (RAND, "0.99 * {square} + 0.01 * {x} * {x}")},
        ("{w} - 0.01 * {x} / (torch.sqrt({new_square}) + 1e-8)",),
    ),
    "adagrad": ({"total": (RAND, "{total} + {x} * {x}")}, ("{w} - 0.01 * {x} / (torch.sqrt({new_total}) + 1e-10)",)),
}
"""By name: of each state, how it is drawn and its new value; and the new weight, in one way or either of two.

Adam's are those of Kingma and Ba 2015, algorithm 1, at step 10.
"""


def _optimiser(states: Steps, weights: tuple[str, ...]) -> Apply:
    def apply(graph: Graph, grad: Value) -> tuple[Value, ...]:
        names = {"x": grad, "w": graph.input("weight", grad.shape)}
        names |= {name: graph.input(name, grad.shape, draw) for name, (draw, _) in states.items()}
        new = {f"new_{name}": graph.let(text.format(**names), grad.shape) for name, (_, text) in states.items()}
        weight = weights[0] if len(weights) == 1 or graph.rng.random() < 0.5 else weights[1]
        return graph.let(weight.format(**names, **new), grad.shape), *new.values()

    return apply


for name, (states, weights) in OPTIMISERS.items():
    operator(name, "optimiser", (1, 2))(_optimiser(states, weights))


@operator("lion", "optimiser", (1, 2))
def lion(graph: Graph, grad: Value) -> tuple[Value, ...]:
    weight, m = graph.input("weight", grad.shape), graph.input("m", grad.shape)
    update = graph.let(f"torch.tanh(10.0 * (0.9 * {m} + 0.1 * {grad}))", grad.shape)
    new = graph.let(f"0.99 * {m} + 0.01 * {grad}", grad.shape)
    return graph.let(f"{weight} - 0.001 * {update}", grad.shape), new


@operator("clipped_sgd", "optimiser", (1, 2))
def clipped_sgd(graph: Graph, grad: Value) -> tuple[Value, ...]:
    """The gradient is scaled so that its norm is at most 1."""
    weight = graph.input("weight", grad.shape)
    norm = graph.let(f"torch.sqrt(torch.sum({grad} * {grad}))", ())
    return (graph.let(f"{weight} - {grad} / torch.clamp({norm}, min=1.0)", grad.shape),)
