"""`kernelrl compare A B [C …]`: is B better or worse than A on the same tasks? From finished results; runs nothing."""

from __future__ import annotations

import argparse
import json
import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from rich.table import Table
from rich.text import Text

from kernelrl.commands.arguments import Parser
from kernelrl.console import make_console, set_up_logging
from kernelrl.errors import UserError
from kernelrl.eval.figure import Settings
from kernelrl.eval.paired import Contender, Row, compare, shared_tasks
from kernelrl.eval.results import read_results
from kernelrl.eval.table import format_change, format_estimate, label

log = logging.getLogger(__name__)

FIGURES = ("correct", "fast_1", "speedup")
SAMPLING = ("temperature", "top_p", "max_new_tokens")
"""How a policy was sampled: of `eval`, or of the policy's own node in it."""
USAGE = "kernelrl compare A B [C …] [--figures NAME,…] [--alpha P] [--overlap] [--json]"
EPILOG = """\
A, B, … are results.json files, or the folders of runs that have one; FILE:POLICY names one of several policies. One
file alone compares its own policies. The first is the baseline.

Every figure of every other one is tested against the baseline's, paired by task (a permutation test of signs, over
tasks), and the p-values are corrected for being many (Holm 1979). Exit code 1: one of them is significantly worse.

examples:
  kernelrl compare outputs/toy
  kernelrl compare outputs/toy:base outputs/toy:grpo --figures correct,pass@4
  kernelrl compare main/results.json branch/results.json --json"""


def main(arguments: list[str]) -> int:
    """Run the command; returns its exit code."""
    options = _parse(arguments)
    set_up_logging()
    contenders = _contenders(options.words)
    num_shared = _check_tasks(contenders, options.overlap)
    figures = _figures(options.figures, contenders)
    for line in _differences(contenders, figures):
        log.warning(line)
    settings = Settings(k=(), fast_p=(), bootstrap=options.bootstrap, seed=0)
    rows = compare(contenders, figures, settings)
    worse = any(row.worse(options.alpha) for row in rows)
    if options.json:
        found = {"baseline": contenders[0].name, "num_tasks": num_shared, "alpha": options.alpha, "worse": worse}
        print(json.dumps(found | {"rows": [asdict(row) for row in rows]}, indent=2))
    else:
        _print(contenders, rows, num_shared, options.alpha)
    return 1 if worse else 0


def _contenders(words: Sequence[str]) -> list[Contender]:
    """The policies that the words name, each with a name of its own."""
    found = []
    for word in words:
        path, _, policy = word.rpartition(":") if ":" in word and not Path(word).exists() else (word, "", "")
        results = read_results(Path(path))
        names = [policy] if policy else list(results.policies)
        if policy and policy not in results.policies:
            raise UserError(f"{path}: no policy {policy!r}; it has {', '.join(results.policies)}")
        if len(names) > 1 and len(words) > 1:
            raise UserError(f"{path}: which of its policies? {', '.join(f'{path}:{name}' for name in names)}")
        found += [(path, name, results) for name in names]
    if len(found) < 2:
        raise UserError(f"{found[0][0]} has one policy, {found[0][1]}: give another one to compare it with")
    short = len({name for _, name, _ in found}) == len(found)
    return [
        Contender(name if short else f"{path}:{name}", results, results.policies[name]) for path, name, results in found
    ]


def _check_tasks(contenders: Sequence[Contender], overlap: bool) -> int:
    """How many tasks all of them share; where one has others, or only the first ones of its benchmark, that is an error
    unless the overlap is wanted."""
    partial = next((it for it in contenders if it.results.partial is not None), None)
    if partial is not None and partial.results.partial is not None and not overlap:
        num, of = partial.results.partial.num, partial.results.partial.of
        raise UserError(
            f"{partial.name} is partial: the first {num} of {of} tasks (eval.limit); --overlap compares over those in "
            "common, which say little about the others"
        )
    num_shared = len(shared_tasks(contenders))
    sizes = {it.name: len(it.results.tasks) for it in contenders}
    if any(size != num_shared for size in sizes.values()) and not overlap:
        counts = ", ".join(f"{name} {size}" for name, size in sizes.items())
        raise UserError(
            f"not the same tasks: {num_shared} in common, of {counts}; --overlap compares over those in common"
        )
    return num_shared


def _differences(contenders: Sequence[Contender], figures: Sequence[str]) -> Iterator[str]:
    """A line for each circumstance that differs between the contenders, so that not the policies alone do.

    What the results of an earlier version do not say is not known to differ.
    """
    extra = {it.name: it.results.model_extra or {} for it in contenders}
    told: dict[str, dict[str, Any]] = {
        "machine": {name: said.get("machine") for name, said in extra.items()},
        "dialect": {name: said.get("dialect") for name, said in extra.items()},
        "number of samples of a task": {
            it.name: f"{it.policy.num_samples / it.policy.num_tasks:g}" for it in contenders if it.policy.num_tasks
        },
        "sampling": _what_differs({it.name: _sampling(it) for it in contenders}),
        "executor": _what_differs({name: said.get("executor") for name, said in extra.items()}),
        "version of kernelrl": {name: said.get("version") for name, said in extra.items()},
    }
    if "reward" in figures:
        told["reward"] = {name: said.get("reward") for name, said in extra.items()}
    for what, values in told.items():
        known = {name: value for name, value in values.items() if value is not None}
        if len(set(known.values())) > 1:
            yield f"the {what} differs: {'; '.join(f'{name}: {value}' for name, value in known.items())}"


def _sampling(contender: Contender) -> dict[str, Any] | None:
    """How a policy was sampled; None: not known, as of kernels that were there already."""
    settings = (contender.results.model_extra or {}).get("eval", {})
    node = settings.get("policies", {}).get(contender.policy.policy)
    own = node if isinstance(node, dict) else {}
    if own.get("backend") in ("kernels", "records"):
        return None
    return {name: value for name in SAMPLING if (value := own.get(name, settings.get(name))) is not None}


def _what_differs(settings: Mapping[str, Mapping[str, Any] | None]) -> dict[str, str]:
    """Of each contender whose settings are known, those that all have and that differ, e.g. `top_p=0.9, seed=1`."""
    known = {name: values for name, values in settings.items() if values is not None}
    shared = set.intersection(*map(set, known.values())) if known else set()
    differing = sorted(
        key for key in shared if any(it[key] != next(iter(known.values()))[key] for it in known.values())
    )
    return {name: ", ".join(f"{key}={values[key]}" for key in differing) for name, values in known.items()}


def _figures(asked: str | None, contenders: Sequence[Contender]) -> list[str]:
    if asked is not None:
        return asked.split(",")
    return [name for name in FIGURES if all(name in it.policy.by_task for it in contenders)]


def _print(contenders: Sequence[Contender], rows: Sequence[Row], num_shared: int, alpha: float) -> None:
    baseline = contenders[0]
    total = max(len(it.results.tasks) for it in contenders)
    tasks = f"{num_shared} tasks" if num_shared == total else f"the {num_shared} tasks in common (of up to {total})"
    num_tests = sum(row.p is not None for row in rows)
    table = Table(
        title=f"against {baseline.name}, over {tasks}",
        caption=f"changes with 95 % intervals, paired by task; p of permutation tests, Holm: corrected for {num_tests}",
        title_justify="left",
    )
    for column in ("figure", "policy", baseline.name, "its own", "change", "p", "p, Holm", ""):
        table.add_column(column, justify="left" if column in ("figure", "policy", "") else "right")
    for row in rows:
        finding = "worse" if row.worse(alpha) else "better" if row.better(alpha) else ""
        table.add_row(
            label(row.figure),
            row.contender,
            format_estimate(row.figure, row.before),
            format_estimate(row.figure, row.after),
            format_change(row.figure, row.change),
            *("–" if p is None else f"{p:.4f}" for p in (row.p, row.p_holm)),
            Text(finding, {"worse": "red", "better": "green"}.get(finding, "")),
        )
    make_console().print(table)


def _parse(arguments: list[str]) -> argparse.Namespace:
    parser = Parser(
        prog="kernelrl compare",
        usage=USAGE,
        description="Is a policy better or worse than another on the same tasks?",
        epilog=EPILOG,
    )
    parser.add_argument("words", nargs="+", metavar="RESULTS", help="results.json or a run's folder, with :POLICY")
    parser.add_argument("--figures", help=f"what is tested, e.g. correct,pass@4 (default {','.join(FIGURES)})")
    parser.add_argument("--alpha", type=float, default=0.05, help="level of significance (default 0.05)")
    parser.add_argument("--bootstrap", type=int, default=2000, help="resamples of the intervals (default 2000)")
    parser.add_argument("--overlap", action="store_true", help="compare over the tasks in common where they differ")
    parser.add_argument("--json", action="store_true", help="print one JSON object and nothing else")
    return parser.parse_intermixed_args(arguments)
