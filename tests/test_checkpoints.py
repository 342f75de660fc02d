"""`kernelrl eval checkpoints=RUN`: every checkpoint of a real training, and which is best."""

import json
from pathlib import Path

import pytest

from kernelrl.configs import compose_config
from kernelrl.errors import UserError
from kernelrl.eval import checkpoints, run
from kernelrl.records import write_json


def make_stage(folder, steps, done=None):
    """What a training stage leaves behind, without the weights."""
    for step in steps:
        write_json(folder / "checkpoints" / f"checkpoint-{step}" / "seal.json", {})
    if done is not None:
        (folder / "final").mkdir(parents=True)
        write_json(folder / "done.json", done)


def found(given, output_dir="elsewhere"):
    cfg = checkpoints.prepare(compose_config("eval", [f"checkpoints={given}", f"output_dir={output_dir}"]))
    return {name: str(Path(folder).relative_to(given)) for name, folder in cfg.eval.policies.items()}


def test_policies_are_the_checkpoints_in_order_of_their_steps(tmp_path):
    make_stage(tmp_path / "sft", [100, 20], {"steps": 100})
    (tmp_path / "sft" / "base").mkdir()
    (tmp_path / "sft" / "checkpoints" / "checkpoint-120").mkdir()
    make_stage(tmp_path / "grpo", [5, 10], {"steps": 10, "best_step": 5})
    assert list(found(tmp_path).items()) == [
        ("sft-0", "sft/base"),
        ("sft-20", "sft/checkpoints/checkpoint-20"),
        ("sft-100", "sft/final"),
        ("grpo-5", "grpo/checkpoints/checkpoint-5"),
        ("grpo-10", "grpo/final"),
    ], "without a seal it is half written; final is the last step, whichever was the best"
    assert list(found(tmp_path / "grpo")) == ["grpo-5", "grpo-10"]


def test_what_has_no_checkpoints_is_said_and_a_run_keeps_its_results(tmp_path):
    with pytest.raises(UserError, match="no sealed checkpoint in .*sft or .*grpo; give the folder of a run"):
        found(tmp_path)
    make_stage(tmp_path / "grpo", [5])
    with pytest.raises(UserError, match="is the run itself, whose results would be lost"):
        found(tmp_path, tmp_path)
    overrides = [f"checkpoints={tmp_path}", "rejudge=x", "output_dir=y"]
    with pytest.raises(UserError, match="rejudge and checkpoints exclude each other"):
        run(compose_config("eval", overrides))


def test_the_best_one_has_the_highest_lower_bound_not_the_highest_value():
    def policy(value, low):
        unknown = {"value": None, "low": None, "high": None}
        estimate = {"value": value, "low": low, "high": 1.0}
        return {"folder": "f", "figures": {"correct": estimate, "fast_1": unknown, "reward": unknown}}

    policies = {"sft-0": policy(0.1, 0.0), "grpo-10": policy(0.5, 0.4), "grpo-20": policy(0.6, 0.2)}
    summary = checkpoints.summarize({"name": "r", "policies": policies})
    assert summary["figures"] == ["correct"] and summary["best"] == {"correct": "grpo-10"}
    assert [(each["stage"], each["step"]) for each in summary["checkpoints"]] == [
        ("sft", 0),
        ("grpo", 10),
        ("grpo", 20),
    ]


def test_one_task_has_no_interval_and_no_best_checkpoint(tmp_path):
    estimate = {"value": 0.5, "low": None, "high": None}
    policies = {
        name: {"folder": "f", "figures": {"correct": estimate}, "num_tasks": 1, "num_samples": 1}
        | {"num_infrastructure": 0}
        for name in ("sft-0", "grpo-10")
    }
    page = checkpoints.write(tmp_path, {"name": "r", "seed": 0, "policies": policies}).read_text()
    assert "50.0 [–]" in page and "<svg" in page and 'class="up"' not in page
    assert json.loads((tmp_path / "checkpoints.json").read_text())["best"] == {}


@pytest.mark.slow
def test_a_sweep_samples_every_checkpoint_on_the_tasks_of_the_run(toy, tmp_path, capsys, executor_cache):
    overrides = {
        "checkpoints": toy,
        "output_dir": tmp_path,
        "tracker": "none",
        "eval.samples": 1,
        "eval.k": [1],
        "eval.limit": 2,
        "eval.max_new_tokens": 8,
        "eval.bootstrap": 50,
        "executor.timing": "false",
        "executor.cache_dir": executor_cache,
    }
    run(compose_config("eval", [f"{key}={value}" for key, value in overrides.items()]))
    results = json.loads((tmp_path / "results.json").read_text())
    assert [len(results["tasks"]), results["partial"]["num"]] == [2, 2] and results["partial"]["of"] > 2
    summary = json.loads((tmp_path / "checkpoints.json").read_text())
    names = [each["name"] for each in summary["checkpoints"]]
    assert names[0] == "sft-0" and names[-1] == "sft-12" and names == list(results["policies"])
    said = capsys.readouterr().out
    assert "sft-12" in said and "highest lower bound" in said
    page = (tmp_path / "checkpoints.html").read_text()
    assert "<svg" in page and "PARTIAL: the first 2 of" in page and "step of its stage" in page
