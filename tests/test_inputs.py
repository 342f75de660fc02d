"""Inputs are others for each seed, whatever the task keeps of its draws and whoever seeds what draws them."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch

from kernelrl.executor.contest.drawing import DrawCounter, Drawing, Further
from kernelrl.executor.contest.inputs import Inputs
from kernelrl.executor.contest.text_module import import_text

KEPT = {
    "in the module": "DATA = torch.randn(64, 4)\ndef get_inputs():\n    return [DATA[torch.randint(0, 64, (8,))]]",
    "from the first inputs on": """
class Source:
    data = None
def get_inputs():
    if Source.data is None:
        Source.data = torch.randn(64, 4)
    return [Source.data[torch.randint(0, 64, (8,))]]""",
    "by a loader": """
from torch.utils.data import DataLoader, TensorDataset
LOADER = DataLoader(TensorDataset(torch.randn(64, 4)), batch_size=8, shuffle=True)
def get_inputs():
    return [next(iter(LOADER))[0]]""",
}


def imported(text: str, folder: Path) -> tuple[ModuleType, Inputs]:
    with DrawCounter() as counter:
        module = import_text(f"import random\nimport numpy as np\nimport torch\n{text}\n", folder)
    return module, Inputs(module, counter.count > 0)


def draw(inputs: Inputs, seed: int, name: Any = "task", **how: Any) -> tuple[torch.Tensor, Drawing]:
    (drawn,), drawing = inputs.draw(seed, {}, name, True, Further(), **how)
    return drawn, drawing


@pytest.mark.parametrize("text", KEPT.values(), ids=KEPT)
def test_what_a_task_keeps_of_its_draws_is_drawn_anew(text: str, tmp_path: Path) -> None:
    module, inputs = imported(text, tmp_path)
    before = dict(vars(module))
    first, _ = draw(inputs, 0)
    draw(inputs, 1)
    rows = [set(map(tuple, draw(inputs, seed)[0].tolist())) for seed in (2, 3)]
    assert not rows[0] & rows[1], "no row comes again"
    assert torch.equal(draw(inputs, 2)[0], draw(inputs, 2)[0]) and torch.equal(draw(inputs, 0)[0], first)
    hidden, drawing = draw(inputs, 5, "negative")
    assert float(hidden.max()) <= 0.0 and drawing.num_redrawn >= 1
    assert vars(module).get("DATA") is before.get("DATA"), "what forward reads stays"


@pytest.mark.parametrize(
    "generator",
    [
        "np.random.default_rng(seed).standard_normal(8)",
        "np.random.RandomState(seed).randn(8)",
        "[random.Random(seed).gauss(0, 1) for _ in range(8)]",
        "(np.random.seed(seed), np.random.randn(8))[1]",
        "(random.seed(seed), [random.random() for _ in range(8)])[1]",
    ],
)
def test_what_other_generators_draw_shows_though_pytorch_seeds_them(generator: str, tmp_path: Path) -> None:
    text = f"def get_inputs():\n    seed = int(torch.randint(0, 1 << 30, ()))\n    return [torch.tensor({generator})]"
    _, inputs = imported(text, tmp_path)
    drawn, _ = draw(inputs, 0)
    assert torch.equal(draw(inputs, 0)[0], drawn) and not torch.equal(draw(inputs, 1)[0], drawn)
    assert not torch.equal(draw(inputs, 0, other_seed=1)[0], drawn)
    assert torch.equal(draw(inputs, 0)[0], drawn), "the generators are as they were"


def test_draws_until_they_lie_somewhere_end(tmp_path: Path) -> None:
    text = """
def get_inputs():
    while True:
        x = torch.randn(400)
        if (x > 0).sum() > 100:
            return [x]"""
    _, inputs = imported(text, tmp_path)
    assert float(draw(inputs, 0)[0].max()) > 0
    with pytest.raises(RuntimeError, match="until it likes what it gets"):
        draw(inputs, 0, "negative")


def test_complex_numbers_have_hidden_values_too(tmp_path: Path) -> None:
    text = "def get_inputs():\n    return [torch.view_as_real(torch.randn(50, dtype=torch.complex64))]"
    _, inputs = imported(text, tmp_path)
    negative, drawing = draw(inputs, 0, "negative")
    assert float(negative.max()) <= 0.0 and drawing.num_redrawn == 1
    (first,), _ = inputs.draw(0, {}, "boundary", True, Further(between=0.0))
    (middle,), _ = inputs.draw(0, {}, "boundary", True, Further(between=0.5))
    (last,), _ = inputs.draw(0, {}, "boundary", True, Further(between=1.0))
    assert torch.allclose(middle, (first + last) / 2, atol=1e-6) and not torch.equal(first, last)


def test_a_named_tuple_among_inputs_is_a_plain_one(tmp_path: Path) -> None:
    text = "from collections import namedtuple\nPair = namedtuple('Pair', 'x y')\n"
    text += "def get_inputs():\n    return [Pair(torch.ones(2), torch.zeros(2))]"
    _, inputs = imported(text, tmp_path)
    [(pair)], _ = inputs.draw(0, {}, "task", True, Further())
    assert type(pair) is tuple and [float(each.sum()) for each in pair] == [2.0, 0.0]
