"""KernelBench's run folders, problems and results: read unchanged, judged here, written back in the same format."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from conftest import KERNELS, REFERENCE, RIGHT, Run
from kernelrl.errors import UserError
from kernelrl.eval.kernelbench import Outcome, read_baseline, read_samples, summarize


def fastp(is_correct: Sequence[bool], baseline: Sequence[float], actual: Sequence[float], p: float) -> float:
    """As KernelBench computes it (its src/score.py): correct samples whose ratio of times is above p, of all."""
    right = np.asarray(is_correct)
    return float((np.asarray(baseline)[right] / np.asarray(actual)[right] > p).sum() / len(right))


@pytest.fixture
def run_folder(tmp_path: Path) -> Path:
    folder = tmp_path / "runs" / "policy"
    folder.mkdir(parents=True)
    for problem, kernel in ((1, RIGHT), (2, KERNELS["wrong"]), (3, KERNELS["broken"])):
        (folder / f"level_1_problem_{problem}_sample_0_kernel.py").write_text(kernel)
    (folder / "notes.txt").write_text("not a kernel")
    results = {
        "1": [{"sample_id": 0, "compiled": True, "correctness": True, "metadata": {}, "runtime": 2.0}],
        "2": [{"sample_id": 0, "compiled": True, "correctness": True, "metadata": {}, "runtime": 8.0}],
        "3": [{"sample_id": 0, "compiled": False, "correctness": False, "metadata": {}, "runtime": -1.0}],
    }
    (folder / "eval_results.json").write_text(json.dumps(results))
    level = tmp_path / "problems" / "level1"
    level.mkdir(parents=True)
    for problem in range(1, 5):
        (level / f"{problem}_ReLU_Scale.py").write_text(REFERENCE)
    baseline = {"level1": {f"{problem}_ReLU_Scale.py": {"mean": 6.0, "std": 0.1} for problem in range(1, 5)}}
    (tmp_path / "baseline.json").write_text(json.dumps(baseline))
    return folder


def test_a_run_is_judged_again_and_written_back(run_folder: Path, kernelrl: Run, tmp_path: Path) -> None:
    result = kernelrl(
        *("eval", "import=kernelbench_run", run_folder, f"import.problems={tmp_path / 'problems'}"),
        *(f"import.baseline={tmp_path / 'baseline.json'}", f"output_dir={tmp_path / 'out'}"),
        *(f"executor.cache_dir={tmp_path / 'cache'}", "executor=kernelbench", "executor.min_pairs=7"),
        "executor.max_pairs=7",
    )
    assert result.returncode == 0, result.stderr
    output = tmp_path / "out" / "eval" / "policy"
    ours = json.loads((output / "eval_results.json").read_text())
    flags = {problem: (entry["compiled"], entry["correctness"]) for problem, [entry] in ours.items()}
    assert flags == {"1": (True, True), "2": (True, False), "3": (False, False)}
    baseline = read_baseline(output / "baseline_time_kernelrl.json", {1})
    assert baseline[1, 1] > 0 and ours["1"][0]["runtime"] > 0
    summary = json.loads((output / "summary.json").read_text())
    theirs: dict[str, Any] = summary["KernelBench"]
    for p in (0.0, 0.5, 1.0, 2.0):
        expected = fastp([True, True, False, False], [6.0] * 4, [2.0, 8.0, -1.0, -1.0], p)
        assert theirs["fast_p"][f"{p:g}"] == expected
    assert summary["kernelrl"]["correct"] == 0.25, "the fourth problem has no kernel and counts"
    assert "KernelBench" in result.stdout and "fast_1" in result.stdout


def test_results_alone_can_be_read(run_folder: Path, kernelrl: Run, tmp_path: Path) -> None:
    result = kernelrl("eval", "import=kernelbench_run", run_folder, f"output_dir={tmp_path / 'out'}")
    assert result.returncode == 0, result.stderr
    summary = json.loads((tmp_path / "out" / "eval" / "policy" / "summary.json").read_text())
    assert list(summary) == ["KernelBench"]
    assert summary["KernelBench"]["fast_p"]["1"] == 0 and summary["KernelBench"]["speedup"] is None


def test_figures_are_kernelbenchs() -> None:
    rng = np.random.default_rng(0)
    correct, baseline, actual = rng.random(50) < 0.6, rng.lognormal(size=50), rng.lognormal(size=50)
    outcomes = [
        Outcome(True, bool(right), old / new) for right, old, new in zip(correct, baseline, actual, strict=True)
    ]
    figures = summarize(outcomes)
    for p, value in figures["fast_p"].items():
        assert value == pytest.approx(fastp(list(correct), list(baseline), list(actual), float(p)))
    assert figures["speedup"] == pytest.approx(np.prod((baseline / actual)[correct]) ** (1 / correct.sum()))


def test_bad_folders_and_files_are_named(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="no such folder"):
        read_samples(tmp_path / "absent")
    with pytest.raises(UserError, match="holds no level_L"):
        read_samples(tmp_path)
    (tmp_path / "times.json").write_text('{"level1": {"1_a.py": 3}}')
    with pytest.raises(UserError, match="not of the form"):
        read_baseline(tmp_path / "times.json", {1})
