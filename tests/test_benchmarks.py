"""What the benchmark scripts make of their runs."""

from importlib.util import module_from_spec, spec_from_file_location
from math import exp, log
from pathlib import Path

import pytest


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
