"""KernelBench's run folders: read its kernels and results, judge them here, write the same format back.

The format names a result by the number of its problem alone, which several levels share: a run of several levels has a
folder `levelL` for each, with its results and, where `kernelbench_export` or a user has put them there, its kernels.

Formats as in github.com/ScalingIntelligence/KernelBench: `runs/NAME/level_L_problem_P_sample_S_kernel.py`,
`runs/NAME/eval_results.json` (problem -> list of samples), `results/timing/HARDWARE/baseline_time_*.json` (level ->
problem file -> statistics in milliseconds) and `KernelBench/levelL/P_NAME.py`.
"""

from __future__ import annotations

import json
import logging
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

from omegaconf import DictConfig
from rich.table import Table

from kernelrl import dialects
from kernelrl.candidate import Candidate
from kernelrl.configs import to_dict
from kernelrl.console import make_console, track
from kernelrl.errors import UserError
from kernelrl.executor import make_executor
from kernelrl.executor.api import Request, deciding_settings
from kernelrl.records import Ledger, Record, digest, write_json
from kernelrl.stage_folder import open_stage
from kernelrl.stats import fast_p, geometric_mean
from kernelrl.task import Task
from kernelrl.verdict import Verdict

log = logging.getLogger(__name__)

RESULTS = "eval_results.json"
BASELINE = "baseline_time_kernelrl.json"
P_VALUES = (0.0, 0.5, 0.8, 1.0, 1.5, 2.0)
"""KernelBench's thresholds (its scripts/benchmark_eval_analysis.py)."""
_KERNEL = re.compile(r"level_(\d+)_problem_(\d+)_sample_(\d+)_kernel\.py")


@dataclass(frozen=True)
class Sample:
    """One kernel of a run."""

    level: int
    problem: int
    number: int
    path: Path


@dataclass(frozen=True)
class Outcome:
    """What is known about a problem's first sample."""

    compiled: bool = False
    correct: bool = False
    speedup: float | None = None


def run(cfg: DictConfig) -> Path:
    """Judge a run's kernels where its problems are given, and print both evaluations' figures side by side.

    Returns:
        The stage folder: `eval_results.json` and a baseline file in KernelBench's format, `summary.json`, records.

    Raises:
        UserError: the folder holds no kernel, a file that is needed is not there or not in KernelBench's format, or
            kernels or problems are others than those that were judged.
    """
    node = cfg["import"]
    folder = Path(node.folder)
    samples = read_samples(folder, node.levels)
    levels = sorted({it.level for it in samples})
    problems = {} if node.problems is None else read_problems(Path(node.problems), levels)
    columns: dict[str, dict[int, list[Outcome]]] = {}
    files = find_results(folder, levels)
    if files:
        times = {} if node.baseline is None else read_baseline(Path(node.baseline), levels)
        columns["KernelBench"] = _their_outcomes(files, samples, problems, times)
    output = Path(cfg.eval.folder) / folder.name
    asked = {"run": str(folder), "executor": deciding_settings(to_dict(cfg.executor))}
    if node.levels is not None:
        asked["levels"] = list(node.levels)
    if problems:
        asked |= _what_is_judged(folder, samples, problems)
    with open_stage("import", output, asked) as stage:
        if problems:
            verdicts = _judge(cfg, samples, problems, Ledger(stage.path / "records"))
            for level in levels:
                place = stage.path if len(levels) == 1 else stage.path / f"level{level}"
                results, baseline = to_results([it for it in samples if it.level == level], problems, verdicts)
                write_json(place / RESULTS, results)
                write_json(place / BASELINE, baseline)
            columns["kernelrl"] = _our_outcomes(samples, problems, verdicts)
        elif not columns:
            raise UserError(
                f"{folder}: has no {RESULTS} of its level; give import.problems=FOLDER to judge its kernels"
            )
        figures = {name: summarize_levels(outcomes) for name, outcomes in columns.items()}
        write_json(stage.path / "summary.json", figures)
        if not stage.done:
            stage.finish({"kernels": len(samples)})
    make_console().print(_table(folder.name, figures))
    return output


def read_samples(folder: Path, levels: Sequence[int] | None = None) -> list[Sample]:
    """The kernels of a run folder and of its folders `levelL`, in order.

    Args:
        levels: that are wanted; None: all that are there.

    Raises:
        UserError: there is none, none of a level that is wanted, or the same one twice.
    """
    if not folder.is_dir():
        raise UserError(f"import.folder={folder}: no such folder")
    samples: dict[tuple[int, int, int], Sample] = {}
    for path in [*folder.glob("*.py"), *folder.glob("level*/*.py")]:
        if match := _KERNEL.fullmatch(path.name):
            sample = Sample(int(match[1]), int(match[2]), int(match[3]), path)
            same = samples.setdefault((sample.level, sample.problem, sample.number), sample)
            if same is not sample:
                raise UserError(f"import.folder={folder}: {same.path} and {path} are the same sample; remove one")
    if not samples:
        raise UserError(f"import.folder={folder}: holds no level_L_problem_P_sample_S_kernel.py")
    there = sorted({level for level, _, _ in samples})
    if missing := sorted(set(levels or ()) - set(there)):
        raise UserError(f"import.levels: {folder} holds no kernels of level {missing[0]}; it has {there}")
    return [samples[key] for key in sorted(samples) if levels is None or key[0] in levels]


def find_results(folder: Path, levels: Sequence[int]) -> dict[int, Path]:
    """Where a run's results are, by level: in the level's folder or, where it is the only level, in the run's.

    A level without results is left out.
    """
    files = {level: folder / f"level{level}" / RESULTS for level in levels}
    found = {level: file for level, file in files.items() if file.exists()}
    if not found and (shared := folder / RESULTS).exists():
        if len(levels) == 1:
            return {levels[0]: shared}
        log.warning(
            "%s does not say of which of the levels %s it is: left out; import.levels=[L] reads it", shared, levels
        )
    return found


def read_problems(folder: Path, levels: Sequence[int]) -> dict[tuple[int, int], Task]:
    """All problems of some levels by (level, number).

    Raises:
        UserError: a level is not there.
        TaskError: a problem is not in KernelBench's format.
    """
    problems = {}
    for level in levels:
        paths = sorted((folder / f"level{level}").glob("[0-9]*_*.py"))
        if not paths:
            raise UserError(f"import.problems={folder}: has no level{level}/ with problems")
        for path in paths:
            task = Task.from_file(path, level=level, origin="kernelbench")
            problems[level, int(path.name.partition("_")[0])] = task
    return problems


def read_baseline(path: Path, levels: Sequence[int]) -> dict[tuple[int, int], float]:
    """Mean times (in milliseconds) by (level, problem).

    Raises:
        UserError: the file is not there or has another form.
    """
    content = _read_json(path, "import.baseline")
    try:
        return {
            (level, int(name.partition("_")[0])): float(times["mean"])
            for level in levels
            for name, times in content[f"level{level}"].items()
        }
    except (KeyError, TypeError, ValueError, AttributeError):
        raise UserError(f"import.baseline={path}: not of the form level -> problem file -> mean") from None


def to_results(
    samples: Sequence[Sample], problems: Mapping[tuple[int, int], Task], verdicts: Mapping[Sample, Verdict]
) -> tuple[dict[str, Any], dict[str, Any]]:
    """`eval_results.json` and a baseline file in KernelBench's format; times that were not measured are -1 there."""
    results: dict[str, Any] = {}
    reference_ms: dict[tuple[int, int], list[float]] = {}
    for sample in samples:
        verdict = verdicts[sample]
        if verdict.status == "infrastructure":
            continue
        runtime = -1.0 if verdict.candidate_ms is None else verdict.candidate_ms
        if verdict.reference_ms is not None:
            reference_ms.setdefault((sample.level, sample.problem), []).append(verdict.reference_ms)
        metadata = {"hardware": verdict.machine, "device": verdict.device, "kernelrl": verdict.status}
        entry = {
            "sample_id": sample.number,
            "compiled": verdict.reached("compiled"),
            "correctness": verdict.correct,
            "metadata": metadata | ({} if verdict.correct else {"kernelrl_feedback": verdict.feedback}),
            "runtime": runtime,
            "runtime_stats": {} if verdict.candidate_ms is None else {"median": runtime},
        }
        results.setdefault(str(sample.problem), []).append(entry)
    baseline: dict[str, Any] = {}
    for key, times in reference_ms.items():
        baseline.setdefault(f"level{key[0]}", {})[f"{problems[key].id}.py"] = {"mean": median(times)}
    return results, baseline


def summarize(outcomes: Sequence[Outcome]) -> dict[str, Any]:
    """KernelBench's figures over all problems, first sample each (its `score.py`): rates, geometric mean, `fast_p`.

    `fast_p` with p > 0 is None where samples are correct and none of them was timed.
    """
    correct = [outcome.correct for outcome in outcomes]
    speedups = [outcome.speedup for outcome in outcomes]
    measured = [outcome.speedup for outcome in outcomes if outcome.correct and outcome.speedup is not None]
    return {
        "problems": len(outcomes),
        "compiled": sum(outcome.compiled for outcome in outcomes) / len(outcomes),
        "correct": sum(correct) / len(outcomes),
        "speedup": geometric_mean(measured) if measured else None,
        "fast_p": {
            f"{p:g}": None if p > 0 and any(correct) and not measured else fast_p(correct, speedups, p)
            for p in P_VALUES
        },
    }


def summarize_levels(outcomes: Mapping[int, Sequence[Outcome]]) -> dict[str, Any]:
    """The figures over all levels and, of several, those of each by its number (`levels`)."""
    figures = summarize([outcome for level in outcomes.values() for outcome in level])
    levels = {str(level): summarize(outcomes[level]) for level in outcomes}
    return figures | ({"levels": levels} if len(levels) > 1 else {})


def _what_is_judged(
    folder: Path, samples: Sequence[Sample], problems: Mapping[tuple[int, int], Task]
) -> dict[str, dict[str, str]]:
    """Digests of the kernels and of the problems, by which verdicts are those of other ones."""
    return {
        "kernels": {str(sample.path.relative_to(folder)): digest(sample.path) for sample in samples},
        "problems": {f"level{level}/{task.id}": task.digest for (level, _), task in problems.items()},
    }


def _judge(
    cfg: DictConfig, samples: Sequence[Sample], problems: Mapping[tuple[int, int], Task], ledger: Ledger
) -> dict[Sample, Verdict]:
    """Verdicts of all samples; those that the ledger holds are not made again."""
    known = {record.id: record.verdict for record in ledger}
    verdicts = {sample: known[sample.path.stem] for sample in samples if sample.path.stem in known}
    missing = [sample for sample in samples if sample not in verdicts]
    for sample in missing:
        if (sample.level, sample.problem) not in problems:
            raise UserError(f"{sample.path}: import.problems has no problem {sample.problem} in level {sample.level}")
    requests = []
    for sample in missing:
        source = sample.path.read_text(encoding="utf-8", errors="replace")
        dialect = dialects.detect(source)
        task = problems[sample.level, sample.problem]
        requests.append(Request(task=task, candidate=Candidate(source=source, dialect=dialect), dialect=dialect))
    with make_executor(to_dict(cfg.executor)) as executor, track(len(samples), "judging", len(verdicts)) as progress:
        for index, verdict in executor.stream(requests):
            sample = missing[index]
            verdicts[sample] = verdict
            ledger.append([_record(sample, requests[index], verdict)])
            progress.advance()
    return verdicts


def _record(sample: Sample, request: Request, verdict: Verdict) -> Record:
    assert request.candidate is not None
    return Record.of(
        id=sample.path.stem,
        stage="eval",
        policy=sample.path.parent.name,
        prompt="",
        completion=request.candidate.source,
        verdict=verdict,
    )


def _keys(samples: Sequence[Sample], problems: Mapping[tuple[int, int], Task]) -> list[tuple[int, int]]:
    """Every problem that counts: all of the levels where they are known, otherwise those with a kernel."""
    return sorted(problems or {(sample.level, sample.problem) for sample in samples})


def _our_outcomes(
    samples: Sequence[Sample], problems: Mapping[tuple[int, int], Task], verdicts: Mapping[Sample, Verdict]
) -> dict[int, list[Outcome]]:
    """By level; a first sample without a verdict is left out."""
    first = {(it.level, it.problem): verdicts[it] for it in samples if it.number == 0}
    outcomes: dict[int, list[Outcome]] = defaultdict(list)
    for key in _keys(samples, problems):
        if key not in first:
            outcomes[key[0]].append(Outcome())
        elif (verdict := first[key]).status != "infrastructure":
            speedup = verdict.speedup.median if verdict.speedup else None
            outcomes[key[0]].append(Outcome(verdict.reached("compiled"), verdict.correct, speedup))
    return outcomes


def _their_outcomes(
    files: Mapping[int, Path],
    samples: Sequence[Sample],
    problems: Mapping[tuple[int, int], Task],
    baseline_ms: Mapping[tuple[int, int], float],
) -> dict[int, list[Outcome]]:
    """By level; a level without results was not evaluated there, and is left out."""
    first = {(level, problem): entry for level, path in files.items() for problem, entry in _first_entries(path)}
    outcomes: dict[int, list[Outcome]] = defaultdict(list)
    for level, problem in _keys(samples, problems):
        if level not in files:
            continue
        entry = first.get((level, problem))
        if entry is None:
            outcomes[level].append(Outcome())
            continue
        runtime, baseline = entry.get("runtime", -1.0), baseline_ms.get((level, problem))
        speedup = baseline / runtime if baseline is not None and runtime > 0 else None
        outcomes[level].append(Outcome(bool(entry["compiled"]), bool(entry["correctness"]), speedup))
    return outcomes


def _first_entries(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    """Sample 0 of each problem; earlier versions of the format held one entry per problem instead of a list."""
    for problem, entries in _read_json(path, "eval_results").items():
        for entry in entries if isinstance(entries, list) else [entries]:
            if not isinstance(entry, dict) or not {"compiled", "correctness"} <= entry.keys():
                raise UserError(f"{path}: problem {problem} has no `compiled` and `correctness`")
            if entry.get("sample_id", 0) == 0:
                yield int(problem), entry


def _read_json(path: Path, name: str) -> dict[str, Any]:
    try:
        content = json.loads(path.read_text())
    except FileNotFoundError:
        raise UserError(f"{name}={path}: no such file") from None
    except ValueError as error:
        raise UserError(f"{name}={path}: not JSON: {error}") from None
    if not isinstance(content, dict):
        raise UserError(f"{name}={path}: not a JSON object")
    return content


def _table(name: str, figures: Mapping[str, Mapping[str, Any]]) -> Table:
    columns = dict(figures)
    for source, all_levels in figures.items():
        columns |= {f"{source}, level {level}": it for level, it in all_levels.get("levels", {}).items()}
    table = Table(title=f"{name}: first sample of each problem")
    table.add_column("")
    for column in columns:
        table.add_column(column, justify="right")
    for label, cells in {
        "problems": [str(it["problems"]) for it in columns.values()],
        "compiled, %": [_percent(it["compiled"]) for it in columns.values()],
        "correct, %": [_percent(it["correct"]) for it in columns.values()],
        "speedup of correct, ×": ["–" if it["speedup"] is None else f"{it['speedup']:.2f}" for it in columns.values()],
        **{f"fast_{p:g}, %": [_percent(it["fast_p"][f"{p:g}"]) for it in columns.values()] for p in P_VALUES},
    }.items():
        table.add_row(label, *cells)
    return table


def _percent(share: float | None) -> str:
    return "–" if share is None else f"{100 * share:.1f}"
