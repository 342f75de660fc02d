"""Asynchronous GRPO by config: what TRL's trainer is given; what it does not cover is refused early."""

import math
import pickle
import queue
from pathlib import Path
from types import SimpleNamespace

import pytest

from kernelrl.configs import compose_config, read_node
from kernelrl.errors import UserError
from kernelrl.grpo.asynchronous import Asynchronous, AsyncReward, Unscaled, check, make_arguments
from kernelrl.policies.prompts import Reasoning
from kernelrl.runs.preflight import require_all

ON = "grpo.asynchronous={max_staleness: 2, weight_sync_steps: 1, server: null}"
CPU = {"use_cpu": True, "bf16": False}


def compose(*overrides):
    return compose_config("grpo", ["recipe=toy", "tracker=none", ON, "grpo.trainer.loss_type=dapo", *overrides])


def settings(cfg):
    return read_node(Asynchronous, cfg.grpo.asynchronous, "grpo.asynchronous")


def test_the_trainers_fields_and_the_bound_of_the_staleness_reach_trl(tmp_path, monkeypatch):
    monkeypatch.setenv("KERNELRL_VLLM_URL", "http://node3:40001")
    cfg = compose()
    fields = dict(cfg.grpo.trainer) | {"use_vllm": True, "vllm_mode": "server"} | CPU  # as a launched rank has them
    arguments = make_arguments(settings(cfg), fields, output_dir=str(tmp_path), report_to=[])
    assert (arguments.max_staleness, arguments.weight_sync_steps) == (2, 1)
    assert arguments.vllm_server_base_url == "http://node3:40001"
    assert arguments.num_generations == cfg.grpo.trainer.num_generations
    assert arguments.max_completion_length == cfg.grpo.trainer.max_completion_length


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("grpo.trainer.loss_type=dr_grpo", "grpo.trainer.loss_type=dr_grpo: grpo.asynchronous needs dapo"),
        ("grpo.trainer.beta=0.1", "grpo.trainer.beta=0.1: grpo.asynchronous needs 0.0"),
        ("+grpo.trainer.steps_per_generation=2", "grpo.trainer.steps_per_generation: grpo.asynchronous does not have"),
        ("+grpo.trainer.eval_strategy=steps", "grpo.trainer.eval_strategy: not with grpo.asynchronous"),
        ("curriculum=pass_rate", "curriculum: not with grpo.asynchronous"),
        ("grpo.turns.baseline=leave_one_out", "grpo.turns.baseline=leave_one_out: not with grpo.asynchronous"),
        ("grpo.rates={norm: 1e-2}", "grpo.rates=.*: not with grpo.asynchronous"),
        ("grpo.groups.resample=2", "grpo.groups.resample=2: not with grpo.asynchronous"),
        ("grpo.groups.replay={capacity: 8}", "grpo.groups.replay=.*: not with grpo.asynchronous"),
        ("grpo.adjust.overlong=64", "grpo.adjust.overlong=64: not with grpo.asynchronous"),
        ("grpo.adjust.coverage=[0.3,0.4]", "grpo.adjust.coverage=.*: not with grpo.asynchronous"),
        ("strategy=refine", "strategy=refine: not with grpo.asynchronous"),
        ("reward=tritonrl", "reward tritonrl pays the plan by itself"),
        ("parallel=zero3", "not with DeepSpeed; use parallel=fsdp2"),
        ("+grpo.trainer.deepspeed.zero_optimization.stage=3", "not with DeepSpeed; use parallel=fsdp2"),
        ("grpo.asynchronous.max_staleness=-1", "grpo.asynchronous.max_staleness=-1"),
    ],
)
def test_what_it_does_not_cover_is_refused_in_one_line(override, message):
    cfg = compose(override)
    with pytest.raises(UserError, match=message) as error:
        check(cfg, settings(cfg))
    assert "\n" not in str(error.value)


def test_the_refusal_comes_before_any_stage_runs(tmp_path):
    cfg = compose_config("pipeline", ["recipe=toy", "tracker=none", ON, f"output_dir={tmp_path}"])
    with pytest.raises(UserError, match="grpo.trainer.loss_type=dr_grpo"):
        require_all(cfg, ["grpo"])


def test_without_a_server_it_says_how_to_get_one(tmp_path, monkeypatch):
    monkeypatch.delenv("KERNELRL_VLLM_URL", raising=False)
    cfg = compose()
    with pytest.raises(UserError, match="launcher.generators=1, or its URL in grpo.asynchronous.server"):
        make_arguments(settings(cfg), dict(cfg.grpo.trainer) | CPU, output_dir=str(tmp_path))


def test_advantages_are_not_divided_by_the_deviation_of_their_group():
    """Rewards 1, 2 and 3: deviation 0.8165, advantages -1, 0 and 1."""
    samples: queue.Queue = queue.Queue()
    for reward in (1.0, 2.0, 3.0):
        samples.put(SimpleNamespace(advantage=(reward - 2) / 0.8165, metrics={"reward_std": 0.8165}))
    unscaled = Unscaled(samples)
    assert unscaled.qsize() == 3
    assert [unscaled.get(timeout=1).advantage for _ in range(3)] == pytest.approx([-1, 0, 1])


def test_a_group_that_an_outage_left_without_rewards_teaches_nothing_and_ends_nothing():
    """TRL sends advantage 0 with a deviation that is NaN."""
    samples: queue.Queue = queue.Queue()
    samples.put(SimpleNamespace(advantage=0.0, metrics={"reward_std": math.nan}))
    assert Unscaled(samples).get().advantage == 0.0


def test_the_reward_travels_into_trls_process(tmp_path):
    reward = AsyncReward(compose(), tmp_path, Reasoning(), 10)
    assert pickle.loads(pickle.dumps(reward)).folder == Path(tmp_path) and reward.__name__ == "kernelrl"
