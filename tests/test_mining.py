"""Tasks mined from plain PyTorch code: what is cut out, which inputs are found, what is left out and why."""

import math
from dataclasses import replace

import pytest

from kernelrl.configs import compose_config
from kernelrl.data import sources
from kernelrl.data.filters import FilterSettings, probe
from kernelrl.data.guessing import guess_init, guess_inputs
from kernelrl.data.licences import find_licence, identify, is_allowed
from kernelrl.data.mining import MinedModule, Unusable, mine
from kernelrl.data.trial import first_that_fit
from kernelrl.data.workers import Limits, Lost, run_apart

LAYERS = '''\
"""Layers of a project."""
from __future__ import annotations

import logging
import math, os
from typing import Optional, Tuple

import torch
from torch import nn
from torch.nn import functional as F

log = logging.getLogger(__name__)
SCALE = math.sqrt(2)
UNUSED = 7


def scaled(x):
    # twice the power
    return x * SCALE


def unused(x):
    return x


class Block(nn.Module):
    """A gated block."""

    def __init__(self, dim: int, dropout: float = 0.0):
        super(Block, self).__init__()
        self.proj = nn.Linear(dim, 2 * dim)

    def forward(self, x: torch.Tensor, mask: Optional[torch.Tensor] = None) -> torch.Tensor:
        a, b = self.proj(x).chunk(2, dim=-1)
        return scaled(a * F.silu(b))


class Stack(nn.Sequential):
    def __init__(self, hidden_size=32, num_layers=2):
        super().__init__(*(Block(hidden_size) for _ in range(num_layers)))


class Narrow(Block):
    def __init__(self):
        super().__init__(dim=24)


class Loss(nn.Module):
    def forward(self, logits, labels):
        return F.cross_entropy(logits, labels)


class Settings:
    pass
'''


def mined(code, packages=("torch", "numpy")):
    return {item.name: item for item in mine(code, packages)}


@pytest.fixture
def project(tmp_path):
    (tmp_path / "pkg" / "old").mkdir(parents=True)
    (tmp_path / "LICENSE").write_text(
        "MIT License\n\nPermission is hereby granted, free of charge, to any person\nobtaining a copy"
    )
    (tmp_path / "pkg" / "layers.py").write_text(LAYERS)
    return tmp_path


def load(path, **changes):
    overrides = [
        f"tasks.{key}={value}" for key, value in {"path": path, "heldout": 0, "timeout_s": 120, **changes}.items()
    ]
    return sources.load_part(compose_config("curate", ["tasks=modules", *overrides]).tasks)


def test_every_module_becomes_a_task_that_runs(project):
    split = load(project)
    tasks = {task.id: task for task in split.train}
    assert sorted(tasks) == [f"modules/pkg/layers/{name}" for name in ("Block", "Loss", "Narrow", "Stack")]
    for task in tasks.values():
        task.check_source()
        assert probe(task.source, FilterSettings(min_ms=0.0, max_ms=60_000.0)) is None
    block = tasks["modules/pkg/layers/Block"]
    assert (block.origin, block.licence) == (f"{project.name}/pkg/layers.py:26", "MIT")
    assert "return [64]" in block.source and "torch.randint(0, 10, (" in tasks["modules/pkg/layers/Loss"].source


def test_a_task_has_what_its_class_uses_and_nothing_else():
    source = mined(LAYERS)["Block"].source
    kept = ("from __future__", "import math\n", "from torch import nn\n", "SCALE = ", "def scaled", "# twice the power")
    assert all(text in source for text in kept)
    dropped = ("UNUSED", "def unused", "class Stack", "logging", "import os", "Tuple", "Layers of a project")
    assert not any(text in source for text in dropped)
    assert "class Model(nn.Module):" in source and "super(Model, self)" in source and "Block" not in source
    narrow = mined(LAYERS)["Narrow"].source
    assert "class Block(nn.Module):" in narrow and "class Model(Block):" in narrow


@pytest.mark.parametrize(
    ("code", "reason", "detail"),
    [
        (
            "from einops import rearrange\nuse = lambda x: rearrange(x, 'a b -> b a')",
            "imports_other_packages",
            "einops",
        ),
        ("from .ops import use", "imports_its_own_package", "from .ops import use"),
        ("from ops import *", "undefined_name", "use"),
        ("class Model: pass\ndef use(x): return Model()", "name_taken", "Model"),
    ],
)
def test_classes_that_cannot_stand_alone(code, reason, detail):
    text = f"import torch\n{code}\n\nclass Layer(torch.nn.Module):\n    def forward(self, x):\n        return use(x)\n"
    assert mined(text) == {
        "Layer": Unusable("Layer", text.splitlines().index("class Layer(torch.nn.Module):") + 1, reason, detail)
    }


def test_which_packages_a_task_may_import_is_a_setting():
    text = "import torch, einops\nclass Layer(torch.nn.Module):\n    def forward(self, x): return einops.pack(x)\n"
    assert isinstance(mined(text, ("torch", "einops"))["Layer"], MinedModule)


def test_modules_are_recognised_by_what_their_imports_mean():
    code = "import torch.nn as layers\nfrom torch.nn import Module as Base\nfrom other import Module\n"
    for name, base in (
        ("A", "layers.Module"),
        ("B", "Base"),
        ("C", "Module"),
        ("D", "B"),
        ("E", "layers.ReLU"),
        ("F", "object"),
    ):
        code += f"class {name}({base}):\n    def forward(self, x):\n        return x\n"
    assert sorted(mined(code)) == ["A", "B", "D", "E"]


def function(signature):
    (item,) = mine(f"import torch\nclass Layer(torch.nn.Module):\n    def forward({signature}): ...\n", ["torch"])
    return item


@pytest.mark.parametrize(
    ("signature", "arguments"),
    [
        ("self, in_channels, out_channels, kernel_size=3", ["64", "64"]),
        ("self, d_model: int, nhead: int, dropout: float", ["64", "4", "0.0"]),
        ("self, use_bias: bool, eps: float, temperature", ["True", "1e-5", "0.5"]),
        ("self, whatever: int", ["64"]),
        ("self, norm_layer", None),
        ("self, activation: str", None),
        ("self, *, dim", None),
    ],
)
def test_constructor_arguments_come_from_names_and_annotations(signature, arguments):
    assert guess_init(function(signature).forward) == arguments


def test_inputs_are_as_wide_as_the_layers():
    init = "    def __init__(self):\n        self.a = torch.nn.Linear(784, 10)\n"
    code = f"import torch\nclass Net(torch.nn.Module):\n{init}    def forward(self, x): ...\n"
    item = mined(code)["Net"]
    candidates = guess_inputs(item.forward, item.definition, item.init)
    assert candidates[0] == ["torch.randn(16, 784, 32, 32)"] and ["torch.randn(16, 64, 32, 32)"] in candidates
    item = function("self, x, size: int")
    assert guess_inputs(item.forward, item.definition, None) == []


MODEL = """\
import torch
{extra}


class Model(torch.nn.Module):
    def forward(self, x):
        {body}


def get_init_inputs():
    return []
"""
LIMITS = Limits(timeout_s=60.0, memory_mb=1024, workers=1, fresh=True)


@pytest.mark.parametrize(
    ("body", "extra", "answer"),
    [
        ("return x.reshape(5, 2)", "", 1),
        ("return torch.log(-x.abs())", "", "no_inputs_fit"),
        ("return x.sum().item()", "", "no_inputs_fit"),
        ("return torch.zeros(10**9)", "", "no_inputs_fit"),
        ("return x.to_sparse()", "", "no_inputs_fit"),
        ("return x.to('meta')", "", "no_inputs_fit"),
        ("raise KeyboardInterrupt", "", "crashed"),
        ("import ctypes; ctypes.string_at(0)", "", "crashed"),
        ("return x", "raise RuntimeError", "does_not_load"),
        ("return x", "import sys; sys.exit(0)", "does_not_load"),
    ],
)
def test_tries_survive_whatever_mined_code_does(body, extra, answer):
    source = MODEL.format(body=body, extra=extra)
    assert list(first_that_fit([(source, [["torch.randn(3)"], ["torch.randn(10)"]])], LIMITS)) == [answer]


def test_an_exception_of_one_item_costs_no_other_its_result():
    results = dict(pair for some in run_apart(math.sqrt, [4.0, -1.0, 9.0], LIMITS, chunk=3) for pair in some)
    assert (results[4.0], results[9.0]) == (2.0, 3.0)
    assert isinstance(results[-1.0], Lost) and results[-1.0].error.startswith("ValueError: ")


@pytest.mark.slow
def test_a_try_that_hangs_is_ended():
    hangs, fits = (MODEL.format(body=body, extra="") for body in ("\n        while True: pass", "return x.abs()"))
    trials = [(source, [["torch.randn(3)"]]) for source in (hangs, fits)]
    assert list(first_that_fit(trials, replace(LIMITS, timeout_s=5.0))) == ["too_slow", 0]


def test_files_that_are_no_code_are_counted(project, caplog):
    (project / "pkg" / "broken.py").write_text("class (")
    (project / "pkg" / "latin.py").write_bytes(b"# \xe9")
    (project / "pkg" / "odd.py").write_text(
        "import torch\n\nclass Odd(torch.nn.Module):\n    def __init__(self, x): ...\n    def forward(self, x): ...\n"
    )
    split = load(project)
    assert split.skipped == {"constructor_arguments": 1, "does_not_parse": 1, "not_text": 1}
    assert any("pkg/odd.py:3: Odd" in record.getMessage() for record in caplog.records)


@pytest.mark.parametrize(
    ("expression", "allowed"),
    [
        ("MIT", True),
        ("mit", True),
        ("MIT OR GPL-2.0-only", True),
        ("MIT AND GPL-2.0-only", False),
        ("MIT AND (GPL-2.0-only OR Apache-2.0)", True),
        ("Apache-2.0 WITH LLVM-exception", True),
        ("My-Own", False),
        (None, False),
    ],
)
def test_a_list_of_licences_lets_in_what_it_covers(expression, allowed):
    assert is_allowed(expression, ["MIT", "Apache-2.0"]) == allowed
    assert is_allowed(expression, ["unknown"]) == (expression in (None, "My-Own"))


def test_licences(tmp_path):
    assert identify("SPDX-License-Identifier: MPL-2.0") == "MPL-2.0"
    bsd = "Redistribution and use in source and binary forms, with or without modification"
    assert identify(bsd) == "BSD-2-Clause"
    assert identify(f"{bsd} … Neither the name of the copyright holder") == "BSD-3-Clause"
    assert identify("All rights reserved.") is None
    assert identify("SPDX-License-Identifier: MIT OR GPL-2.0-only") == "MIT OR GPL-2.0-only"
    assert identify("SPDX-License-Identifier: My-Own") is None
    apache = "Apache License\nVersion 2.0, January 2004"
    assert identify(apache) == "Apache-2.0" and identify(f"{apache}\nNonCommercial use only.") is None
    (tmp_path / "a" / "b").mkdir(parents=True)
    (tmp_path / "COPYING").write_text("GNU GENERAL PUBLIC LICENSE\n Version 3, 29 June 2007")
    assert find_licence(tmp_path / "a" / "b", tmp_path) == "GPL-3.0-only"
    assert find_licence(tmp_path / "a" / "b", tmp_path / "a") is None
