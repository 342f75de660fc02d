"""What the benchmark scripts make of their runs."""

import json
from importlib.util import module_from_spec, spec_from_file_location
from math import exp, log
from pathlib import Path

import pytest

from kernelrl.executor.judging import nsight
from kernelrl.task import Task
from kernelrl.verdict import Speedup, Verdict


def load(name):
    spec = spec_from_file_location(name, Path(__file__).parents[1] / "benchmarks" / f"{name}.py")
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_a_run_is_one_observation_however_many_tasks_it_has():
    """Gains of 30, 20 and 1 point over forty tasks each: pooled, 120 tasks would be sure of what three runs are not."""
    learning = load("learning")
    runs = [{"value": gain, "low": gain - 0.01, "high": gain + 0.01} for gain in (0.30, 0.20, 0.01)]
    estimate = learning.over_runs("correct", runs)
    assert estimate["value"] == pytest.approx(0.17)
    assert estimate["low"] < 0 < 0.5 < estimate["high"]
    quotients = [{"value": value, "low": None, "high": None} for value in (1.0, 1.21)]
    assert learning.over_runs("speedup", quotients)["value"] == pytest.approx(exp(log(1.21) / 2))
    assert learning.over_runs("correct", [*runs, {"value": None, "low": None, "high": None}])["value"] is None
    assert learning.over_runs("correct", runs[:1])["low"] is None


def test_the_leaderboard_of_the_docs_is_that_of_the_file():
    found = json.loads((Path(__file__).parents[1] / "benchmarks" / "results" / "suite.json").read_text())
    assert load("suite").leaderboard(found) in (Path(__file__).parents[1] / "docs" / "results.md").read_text()


def test_the_readme_says_how_long_each_recipe_took():
    root = Path(__file__).parents[1]
    found = json.loads((root / "benchmarks" / "results" / "recipes.json").read_text())["recipes"]
    readme = (root / "README.md").read_text().splitlines()
    assert set(found) == set(load("recipes").RECIPES)
    for recipe, each in found.items():
        seconds = round(sum(each["seconds"].values()))
        [line] = [line for line in readme if f"| `{recipe}` |" in line]
        assert line.endswith(f" {seconds // 60}:{seconds % 60:02d} |"), line


def test_policies_of_an_evaluation_have_a_line_each(tmp_path):
    """In whatever order the evaluation had the tasks; one on other tasks is refused."""
    suite = load("suite")
    tasks = [Task(id=name, source=f"x = '{name}'", category="scan", level=1) for name in ("a", "b")]
    figures = {name: {"value": 0.5, "low": None, "high": None} for name in suite.FIGURES}
    group = {"num_tasks": 2, "figures": figures}
    by_task = {
        "correct": {"totals": [0, 2], "counts": [3, 3], "geometric": False},
        "speedup": {"totals": [0.0, log(4)], "counts": [0, 2], "geometric": True},
    }
    counts = {"policy": "outputs/sft/final", "num_samples": 6, "num_infrastructure": 0, "num_untimed": 0}
    policy = group | counts | {"categories": {"scan": group}, "levels": {"1": group}, "by_task": by_task}
    entries = [{"id": task.id, "digest": task.digest, "category": "scan", "level": 1} for task in reversed(tasks)]
    found = {"schema_version": 1, "name": "demo", "tasks": entries, "policies": {"sft": policy}, "comparisons": []}
    (tmp_path / "results.json").write_text(json.dumps(found | {"version": "1", "machine": "here"}))
    line = suite.evaluated(tmp_path, tasks)["demo, sft"]
    assert line["tasks"] == {"b": ["0 of 3 correct", None], "a": ["2 of 3 correct", 2.0]}
    assert line["all"] == figures and line["machine"] == "here"
    with pytest.raises(SystemExit, match="not evaluated on the whole suite"):
        suite.evaluated(tmp_path, tasks[:1])


def test_torch_compile_stands_where_it_compiles_and_fails_elsewhere():
    suite = load("suite")
    speedup = Speedup(median=0.5, low=0.4, high=0.6, pairs=7)
    fields = {"task_id": "t", "candidate": "0", "status": "correct", "stage": "correct", "dialect": "python"}
    eager = Verdict(**fields, device="cpu", reference_ms=4.0, candidate_ms=4.0, speedup=speedup, compiled_ms=2.0,
                    speedup_compiled=speedup)  # fmt: skip
    compiled = suite.as_compiled(eager)
    assert compiled.speedup.median == 2.0 and compiled.candidate_ms == 2.0 and compiled.correct
    failed = suite.as_compiled(Verdict(**fields, device="cpu", reference_ms=4.0, baseline="does not compile"))
    assert failed.status == "compile_error" and failed.speedup is None


def test_strategies_are_compared_by_runs_and_drawn_against_candidates(tmp_path):
    """Two seeds: the difference is paired by seed, and its interval says how little two runs know."""
    strategies = load("strategies")
    runs = [{"solved": solved, "speedup_all": log(speedup)} for solved, speedup in ((0.5, 1.0), (0.7, 1.21))]
    found = strategies.over_runs(runs)
    assert found["solved"]["value"] == pytest.approx(0.6)
    assert found["solved"]["low"] < 0 < 1 < found["solved"]["high"]
    assert found["speedup_all"]["value"] == pytest.approx(1.1)
    assert strategies.over_runs(runs[:1])["solved"]["low"] is None
    names = [f"trained {name}" for name in strategies.TRAINED] + [f"search {name}" for name in strategies.SEARCHES]
    summary = strategies.summarize(
        [{"judged": {"single": 8}, "searches": dict.fromkeys(names, run)} for run in runs], [3, 4]
    )
    assert [(each["seed"], each["solved"]) for each in summary["runs"]["trained refine"]] == [(3, 0.5), (4, 0.7)]
    assert summary["runs"]["search evolve"][1]["speedup_all"] == pytest.approx(1.21), "every run can be looked at"
    curve = [{"solved": share} for share in (0.0, 0.5)]
    with strategies.plots.saving(tmp_path):
        strategies.plot([{"trained refine": curve, "search evolve": curve[:1]}] * 2)
    assert {path.suffix for path in tmp_path.iterdir()} == {".svg", ".pdf"}


@pytest.mark.parametrize(
    ("kernels", "uncounted", "passes"),
    [
        (1, "", True),
        (0, nsight.MISSING, True),
        (0, f"{nsight.ADMINISTRATORS_ONLY}: {nsight.ALLOW}", True),
        (0, "ncu gave no counters: No module named kernelrl", False),
        (0, "", False),
    ],
)
def test_the_gpu_check_accepts_no_counters_only_for_what_the_machine_lacks(kernels, uncounted, passes):
    assert load("gpu_check").counted_as_promised({"kernels": kernels, "uncounted": uncounted}) == passes


def test_the_gpu_check_looks_again_only_at_what_was_not_right():
    """A machine is lent for minutes."""
    last = {
        "statuses": {"correct": 2, "timeout": 1},
        "wrong": {"slow.py": "timeout: The candidate took longer than 10 s while it ran."},
        "coverage": {"a.py": 1.0, "b.py": None, "slow.py": None},
    }
    assert load("gpu_check")._right_of(last) == ({"correct": 2}, {"a.py": 1.0, "b.py": None})
    assert load("gpu_check")._right_of(None) == ({}, {})


def test_a_task_is_changed_in_one_place_at_a_time():
    """Each change is a whole candidate, and of a constructor layers alone are changed."""
    source = """\
import torch
from torch import nn

class Model(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.linear = nn.Linear(size, size, bias=False)
        self.scale = nn.Parameter(torch.ones(size) * 2.0)

    def forward(self, x, mask):
        y = self.linear(x) * self.scale
        return torch.where(mask > 0, y, 0.5)

def get_inputs():
    return [torch.randn(4, 8), torch.ones(4, 8)]

def get_init_inputs():
    return [8]
"""
    found = list(load("task_changes").changes(source))
    lines = {(change.rule, change.before, change.after) for change in found}
    assert {
        ("dropped layer", "nn.Linear(size, size, bias=False)", "nn.Identity()"),
        ("dropped argument", "nn.Linear(size, size, bias=False)", "nn.Linear(size, size)"),
        ("dropped term", "self.linear(x) * self.scale", "self.linear(x)"),
        ("edge", "mask > 0", "mask >= 0"),
        ("comparison", "mask > 0", "(mask > 0) | True"),
        ("dropped operator", "torch.where(mask > 0, y, 0.5)", "y"),
        ("constant", "0.5", "1.0"),
    } <= lines
    assert not [line for line in lines if "2.0" in line[1]]
    assert len({change.source for change in found}) == len(found)
    for change in found:
        scope = {}
        exec(change.source, scope)
        assert "ModelNew" in scope and "get_inputs" not in scope and "Model" not in scope
