"""KernelBench's run folders, problems and results: read unchanged, judged here, written back in the same format."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from conftest import KERNELS, REFERENCE, RIGHT, Run
from kernelrl.configs import compose_config
from kernelrl.errors import UserError
from kernelrl.eval import kernelbench, run
from kernelrl.eval.kernelbench import Outcome, read_baseline, read_samples, summarize
from kernelrl.eval.kernelbench_export import export
from kernelrl.executor.api import Request, not_known
from kernelrl.records import Record
from kernelrl.task import Task
from kernelrl.verdict import Speedup, Verdict


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


@pytest.mark.slow
def test_a_run_is_judged_again_and_written_back(
    run_folder: Path, kernelrl: Run, tmp_path: Path, fresh_cache: Path
) -> None:
    result = kernelrl(
        *("eval", "import=kernelbench_run", run_folder, f"import.problems={tmp_path / 'problems'}"),
        *(f"import.baseline={tmp_path / 'baseline.json'}", f"output_dir={tmp_path / 'out'}"),
        *(f"executor.cache_dir={fresh_cache}", "executor=kernelbench", "executor.min_pairs=7"),
        "executor.max_pairs=7",
    )
    assert result.returncode == 0, result.stderr
    output = tmp_path / "out" / "eval" / "policy"
    ours = json.loads((output / "eval_results.json").read_text())
    flags = {problem: (entry["compiled"], entry["correctness"]) for problem, [entry] in ours.items()}
    assert flags == {"1": (True, True), "2": (True, False), "3": (False, False)}
    baseline = read_baseline(output / "baseline_time_kernelrl.json", [1])
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
    theirs = summary["KernelBench"]
    assert theirs["fast_p"]["0"] == pytest.approx(2 / 3) and theirs["speedup"] is None
    assert {theirs["fast_p"][p] for p in theirs["fast_p"] if p != "0"} == {None}, "without a baseline nothing is known"
    (shown,) = [line for line in result.stdout.splitlines() if "fast_1," in line]
    assert "–" in shown and "0.0" not in shown


def imported(folder: Path, output_dir: Path, *words: str) -> dict[str, Any]:
    """The summary of an imported run."""
    overrides = ["import=kernelbench_run", f"import.folder={folder}", f"output_dir={output_dir}", *words]
    summary: dict[str, Any] = json.loads((run(compose_config("eval", overrides)) / "summary.json").read_text())
    return summary


def test_results_of_one_level_among_several_are_said_to_be_nobodys(run_folder: Path, tmp_path: Path) -> None:
    """KernelBench writes the results of whatever level was evaluated beside the kernels of all."""
    (run_folder / "level_2_problem_1_sample_0_kernel.py").write_text(RIGHT)
    with pytest.raises(UserError, match="has no eval_results.json of its level; give import.problems=FOLDER to judge"):
        imported(run_folder, tmp_path / "out")
    summary = imported(run_folder, tmp_path / "out", "import.levels=[1]")
    assert (summary["KernelBench"]["problems"], summary["KernelBench"]["correct"]) == (3, 2 / 3)


@pytest.mark.parametrize("changed", ["kernel", "problem"])
def test_verdicts_of_other_kernels_and_problems_are_not_reused(
    changed: str, run_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second time the ledger answers, unless a file has changed since."""
    asked: list[Sequence[Request]] = []

    class Judge:
        def stream(self, requests: Sequence[Request]) -> Iterator[tuple[int, Verdict]]:
            asked.append(requests)
            yield from ((index, not_known(request, "cpu", "executor", "")) for index, request in enumerate(requests))

    monkeypatch.setattr(kernelbench, "make_executor", lambda settings: nullcontext(Judge()))
    words = (run_folder, tmp_path / "out", f"import.problems={tmp_path / 'problems'}")
    imported(*words)
    imported(*words)
    assert [len(requests) for requests in asked] == [3, 0]
    if changed == "kernel":
        (run_folder / "level_1_problem_2_sample_0_kernel.py").write_text(RIGHT)
    else:
        (tmp_path / "problems" / "level1" / "2_ReLU_Scale.py").write_text(REFERENCE + "\n# changed\n")
    name = "level_1_problem_2_sample_0_kernel.py" if changed == "kernel" else "level1/2_ReLU_Scale"
    with pytest.raises(UserError, match=rf"holds a run with other settings \({changed}s.{name} was .*choose another"):
        imported(*words)
    assert len(asked) == 2


def test_a_kernel_that_is_there_twice_is_an_error(run_folder: Path) -> None:
    (run_folder / "level1").mkdir()
    (run_folder / "level1" / "level_1_problem_1_sample_0_kernel.py").write_text(RIGHT)
    with pytest.raises(UserError, match="are the same sample; remove one"):
        read_samples(run_folder)


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


def test_what_was_not_timed_is_not_slow() -> None:
    right, wrong = Outcome(compiled=True, correct=True), Outcome(compiled=True)
    assert summarize([right, wrong])["fast_p"] == {"0": 0.5} | dict.fromkeys(("0.5", "0.8", "1", "1.5", "2"))
    assert summarize([wrong, wrong])["fast_p"]["1"] == 0, "nothing is right, so nothing is fast"
    timed = Outcome(compiled=True, correct=True, speedup=3.0)
    assert summarize([right, timed, wrong, wrong])["fast_p"]["2"] == 0.25


def test_bad_folders_and_files_are_named(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="no such folder"):
        read_samples(tmp_path / "absent")
    with pytest.raises(UserError, match="holds no level_L"):
        read_samples(tmp_path)
    (tmp_path / "times.json").write_text('{"level1": {"1_a.py": 3}}')
    with pytest.raises(UserError, match="not of the form"):
        read_baseline(tmp_path / "times.json", [1])


def test_an_evaluation_is_written_as_a_run_and_read_again(tmp_path: Path) -> None:
    """Two levels with a problem 1 each, two samples; read by the same code that reads KernelBench's own runs."""
    tasks = [Task(id=f"kernelbench/level{level}/1_ReLU@0.5", source=REFERENCE, level=level) for level in (1, 2)]
    speedup = Speedup(median=2.0, low=1.9, high=2.1, pairs=7)
    right = {"status": "correct", "stage": "correct", "speedup": speedup, "candidate_ms": 3.0, "reference_ms": 6.0}
    wrong = {"status": "incorrect", "stage": "ran"}

    def record(task: Task, number: int, **verdict: Any) -> Record:
        return Record.of(
            id=f"eval/p/{task.id}/{number}",
            policy="p",
            prompt="",
            completion=f"```python\n{RIGHT}```\n",
            verdict=Verdict(task_id=task.id, candidate="0", dialect="cpp", device="cpu", **verdict),
        )

    samples = [
        record(tasks[0], 0, **right),
        record(tasks[0], 1, **wrong),
        *(record(tasks[1], i, **wrong) for i in (0, 1)),
    ]
    export(samples, tasks, tmp_path)
    assert {path.name for path in (tmp_path / "level1").glob("*.py")} == {
        f"level_1_problem_1_sample_{number}_kernel.py" for number in (0, 1)
    }
    first, second = read_samples(tmp_path / "level1")
    assert first.path.read_text().strip() == RIGHT.strip() and second.number == 1
    results = json.loads((tmp_path / "level1" / "eval_results.json").read_text())
    assert [(it["sample_id"], it["correctness"], it["runtime"]) for it in results["1"]] == [
        (0, True, 3.0),
        (1, False, -1.0),
    ]
    assert read_baseline(tmp_path / "level1" / "baseline_time_kernelrl.json", [1]) == {(1, 1): 6.0}
    assert [(it.level, it.number) for it in read_samples(tmp_path)] == [(1, 0), (1, 1), (2, 0), (2, 1)]
    assert {it.level for it in read_samples(tmp_path, [2])} == {2}, "one level alone is a choice"
    with pytest.raises(UserError, match=r"import.levels: .* holds no kernels of level 3; it has \[1, 2\]"):
        read_samples(tmp_path, [3])
    summary = imported(tmp_path, tmp_path / "out")["KernelBench"]
    assert (summary["problems"], summary["correct"]) == (2, 1 / 2)
    assert {level: it["correct"] for level, it in summary["levels"].items()} == {"1": 1.0, "2": 0.0}
    second = imported(tmp_path, tmp_path / "second", "import.levels=[2]")["KernelBench"]
    assert (second["problems"], second["correct"]) == (1, 0.0) and "levels" not in second
    export(samples[:2], tasks, tmp_path / "one")
    assert (tmp_path / "one" / "eval_results.json").exists(), "one level is a run of its own"
    with pytest.raises(UserError, match="task relu is not of tasks=kernelbench"):
        export([], [Task(id="relu", source=REFERENCE)], tmp_path)


def test_levels_of_one_run_are_kept_apart(run_folder: Path, kernelrl: Run, tmp_path: Path) -> None:
    """Problem 1 of level 2 is another one than problem 1 of level 1, whose results do not count for it."""
    (run_folder / "level_2_problem_1_sample_0_kernel.py").write_text(RIGHT)
    for level in (1, 2):
        (run_folder / f"level{level}").mkdir()
    (run_folder / "eval_results.json").rename(run_folder / "level1" / "eval_results.json")
    (run_folder / "level2" / "eval_results.json").write_text(
        json.dumps({"1": [{"sample_id": 0, "compiled": True, "correctness": False, "metadata": {}, "runtime": -1.0}]})
    )
    result = kernelrl("eval", "import=kernelbench_run", run_folder, f"output_dir={tmp_path / 'out'}")
    assert result.returncode == 0, result.stderr
    summary = json.loads((tmp_path / "out" / "eval" / "policy" / "summary.json").read_text())["KernelBench"]
    assert (summary["problems"], summary["correct"]) == (4, 2 / 4)
