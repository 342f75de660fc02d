"""`grpo.rates`: parameters whose names match a pattern learn at a rate of their own."""

from __future__ import annotations

import pytest
import torch

from kernelrl.configs import compose_config
from kernelrl.errors import UserError
from kernelrl.runs.preflight import require_all
from kernelrl.training.rates import set_rates


def optimizer_of(model):
    weights, others = [model.proj.weight], [model.norm.weight, model.norm.bias, model.proj.bias]
    return torch.optim.AdamW(
        [{"params": weights, "weight_decay": 0.1}, {"params": others, "weight_decay": 0.0}], lr=1e-3
    )


@pytest.fixture
def model():
    return torch.nn.ModuleDict({"proj": torch.nn.Linear(2, 2), "norm": torch.nn.LayerNorm(2)})


def rates_of(optimizer, model):
    names = {id(parameter): name for name, parameter in model.named_parameters()}
    return {
        names[id(each)]: (group["lr"], group["weight_decay"])
        for group in optimizer.param_groups
        for each in group["params"]
    }


def test_the_first_pattern_that_a_name_matches_decides_and_the_schedule_multiplies_all(model):
    optimizer = optimizer_of(model)
    set_rates(optimizer, model.named_parameters(), {"norm": 2e-2, "weight$": 5e-3})
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 0.5**step)
    expected = {"norm.weight": (2e-2, 0), "norm.bias": (2e-2, 0), "proj.weight": (5e-3, 0.1), "proj.bias": (1e-3, 0)}
    assert rates_of(optimizer, model) == expected
    optimizer.step()
    schedule.step()
    assert rates_of(optimizer, model) == {name: (rate / 2, decay) for name, (rate, decay) in expected.items()}
    set_rates(optimizer := optimizer_of(model), model.named_parameters(), {".": 1.0})
    assert all(group["params"] for group in optimizer.param_groups), "FSDP could not restore an empty group"


def test_a_pattern_that_no_trained_parameter_has_is_named(model):
    with pytest.raises(
        UserError, match=r"grpo.rates: no parameter that is trained has 'lora' in its name; there are 4"
    ):
        set_rates(optimizer_of(model), model.named_parameters(), {"lora": 1.0})


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (0.01, "grpo.rates=0.01: give rates by a pattern of names, e.g. grpo.rates={norm: 1e-2}"),
        ({"norm": "fast"}, "grpo.rates: norm=fast: give a learning rate, e.g. 1e-2"),
        ({"norm": -1.0}, "grpo.rates: norm=-1.0: give a learning rate"),
        ({"norm(": 0.01}, "grpo.rates: 'norm(' is no regular expression: missing )"),
    ],
)
def test_what_is_no_rate_is_named_before_anything_runs(given, message, tmp_path):
    cfg = compose_config("grpo", ["recipe=toy", "tracker=none", f"output_dir={tmp_path}"])
    cfg.grpo.rates = given
    with pytest.raises(UserError) as error:
        require_all(cfg, ["grpo"], ask_hub=False)
    assert message in str(error.value)
