"""`kernelrl check REFERENCE.py KERNEL.py`: judge one kernel, or a file of them, outside training."""

from __future__ import annotations

import argparse
import json
from collections import Counter
from collections.abc import Iterator, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from omegaconf import DictConfig
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from kernelrl import dialects
from kernelrl.candidate import MAX_SOURCE_CHARS, Candidate
from kernelrl.commands.arguments import Parser
from kernelrl.configs import compose_config, read_node
from kernelrl.console import console, make_console, set_up_logging
from kernelrl.errors import InfrastructureError, KernelRLError, TaskError, UserError
from kernelrl.executor import ExecutorSettings, Request, make_executor
from kernelrl.runs.preflight import require_machine
from kernelrl.task import Task
from kernelrl.verdict import GpuBuild, Verdict

USAGE = """\
kernelrl check REFERENCE.py KERNEL.py [key=value ...] [--json]
       kernelrl check --batch FILE.jsonl [key=value ...]"""
DESCRIPTION = """\
Judge a kernel (Python source that defines ModelNew) against a KernelBench-format reference (Model, get_inputs,
get_init_inputs): is it a genuine kernel, does it compile, are its outputs right, how fast is it?"""
EPILOG = """\
main overrides:
  dialect=cpp|triton|cuda|python   otherwise seen from the kernel's source
  executor.trials=N        runs on fresh inputs whose outputs must be right
  executor.timing=false    check only
  executor.counters=true   read counters of the hardware in further calls
  executor.sanitize=true   run a right kernel again under sanitizers and with other numbers of threads
  executor.compile_baseline=default   time it against torch.compile of the reference, too
  executor.device=cuda     on the GPU instead of the CPU (not for dialect cpp)

exit code: 0 correct and legal, 1 not, 2 bad usage (a reference that does not run is one), 3 the machine failed
and nothing was learnt.
The JSON is the Verdict (docs/verdict.md); in a batch every line also has the `id`.

examples:
  kernelrl check reference.py kernel.py
  kernelrl check reference.py kernel.py executor.trials=10 --json
  kernelrl check --batch candidates.jsonl executor.timing=false > verdicts.jsonl"""
STYLES = {"correct": "green", "infrastructure": "magenta"}
FIELDS = {"id", "reference", "kernel", "dialect"}
"""Of a line of a batch."""
ALIKE = 0.88
"""Likeness from which on a field's name is taken for a misspelt one."""
MAX_ERRORS = 3
"""Wrong calls that the panel shows."""


def main(arguments: list[str]) -> int:
    """Run the command; returns its exit code."""
    options = _parse(arguments)
    words: list[str] = options.words
    files = [word for word in words if "=" not in word or Path(word).exists()]
    cfg = compose_config("check", [word for word in words if word not in files])
    set_up_logging()
    if options.batch is not None:
        if files:
            raise UserError(f"--batch takes references and kernels from its file; {files[0]!r} is one too many")
        return _check_batch(Path(options.batch), cfg)
    if len(files) != 2:
        raise UserError(
            f"two files are needed, a reference and a kernel; {len(files)} given; see `kernelrl check --help`"
        )
    return _check_one(Path(files[0]), Path(files[1]), cfg, as_json=options.json)


def _parse(arguments: list[str]) -> argparse.Namespace:
    parser = Parser(
        prog="kernelrl check",
        usage=USAGE,
        description=DESCRIPTION,
        epilog=EPILOG,
    )
    parser.add_argument("words", nargs="*", metavar="FILE | key=value", help="reference, kernel, overrides")
    parser.add_argument("--json", action="store_true", help="print the verdict as JSON and nothing else")
    parser.add_argument(
        "--batch", metavar="FILE", help="JSON lines with id, reference, kernel (source text), optional dialect"
    )
    return parser.parse_intermixed_args(arguments)


def _check_one(reference: Path, kernel: Path, cfg: DictConfig, as_json: bool) -> int:
    task = Task.from_file(reference)
    source = _read_kernel(kernel)
    dialect = cfg.dialect or dialects.detect(source)
    dialects.get(dialect)
    settings = read_node(ExecutorSettings, cfg.executor, "executor")
    require_machine(dialect, settings)
    request = Request(task=task, candidate=Candidate(source=source, dialect=dialect), dialect=dialect)
    with (
        make_executor(settings) as executor,
        console.status(f"judging {kernel}"),
    ):
        [verdict] = executor.evaluate([request])
    if as_json:
        print(json.dumps(verdict.to_json(), indent=2))
    else:
        make_console().print(_panel(verdict, title=f"{kernel} against {reference}"))
    return _exit_code([verdict])


def _read_kernel(path: Path) -> str:
    try:
        source = path.read_bytes().decode()
    except FileNotFoundError:
        raise UserError(f"kernel file {path}: no such file") from None
    except IsADirectoryError:
        raise UserError(f"kernel file {path}: is a folder; give a Python file that defines ModelNew") from None
    except UnicodeDecodeError:
        raise UserError(
            f"kernel file {path}: not a text file; a kernel is Python source that defines ModelNew"
        ) from None
    _check_kernel(source, f"kernel file {path}")
    return source


def _check_kernel(source: str, name: str) -> None:
    if not source.strip():
        raise UserError(f"{name}: empty; a kernel is Python source that defines ModelNew")
    if "\0" in source:
        raise UserError(f"{name}: not text (it holds null bytes); a kernel is Python source that defines ModelNew")
    if len(source) > MAX_SOURCE_CHARS:
        raise UserError(f"{name}: {len(source)} characters; at most {MAX_SOURCE_CHARS} are taken")


def _check_batch(path: Path, cfg: DictConfig) -> int:
    """Judge every line of a file; a bad line is reported in the output and does not stop the others."""
    try:
        lines = path.read_bytes().splitlines()
    except OSError as error:
        raise UserError(f"--batch {path}: {error.strerror}") from None
    ids: list[Any] = []
    requests: list[Request] = []
    num_bad = 0
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        row: dict[str, Any] = {}
        try:
            row = _parse_row(line)
            requests.append(_to_request(row, cfg))
            ids.append(row["id"])
        except KernelRLError as error:
            num_bad += 1
            print(json.dumps({"id": row.get("id"), "line": number, "error": str(error)}), flush=True)
    if not requests and not num_bad:
        raise UserError(f"--batch {path}: empty; give JSON lines with id, reference and kernel")
    settings = read_node(ExecutorSettings, cfg.executor, "executor")
    for dialect in sorted({request.dialect for request in requests}):
        require_machine(dialect, settings)
    verdicts = []
    for index, verdict in _stream(requests, settings):
        print(json.dumps({"id": ids[index], **verdict.to_json()}), flush=True)
        verdicts.append(verdict)
    counts = [f"{count} {status}" for status, count in Counter(verdict.status for verdict in verdicts).most_common()]
    counts += [f"{num_bad} bad lines"] if num_bad else []
    console.print(f"{len(verdicts) + num_bad} lines: {', '.join(counts)}", highlight=False)
    return max(_exit_code(verdicts), 1 if num_bad else 0)


def _parse_row(line: bytes) -> dict[str, Any]:
    try:
        row = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise UserError(f"not JSON: {error}") from None
    if not isinstance(row, dict):
        raise UserError("not a JSON object with id, reference and kernel")
    return row


def _to_request(row: dict[str, Any], cfg: DictConfig) -> Request:
    for name in row.keys() - FIELDS:  # others are the user's own
        if meant := get_close_matches(name, FIELDS, n=1, cutoff=ALIKE):
            raise UserError(f"field {name} is not known: {meant[0]} is meant, or give it a name that is less like it")
    if missing := [name for name in ("id", "reference", "kernel") if name not in row]:
        raise UserError(f"field {', '.join(missing)} is missing")
    for name in ("reference", "kernel"):
        if not isinstance(row[name], str):
            raise UserError(f"field {name} is not a string; it is source text")
        if row[name].endswith(".py") and "\n" not in row[name]:
            raise UserError(f"field {name} is a path ({row[name]}); it is the file's text that belongs there")
    task = Task(id=str(row["id"]), source=row["reference"])
    task.check_source()
    _check_kernel(row["kernel"], f"kernel {row['id']}")
    dialect = row.get("dialect") or cfg.dialect or dialects.detect(row["kernel"])
    dialects.get(dialect)
    return Request(task=task, candidate=Candidate(source=row["kernel"], dialect=dialect), dialect=dialect)


def _stream(requests: Sequence[Request], settings: ExecutorSettings) -> Iterator[tuple[int, Verdict]]:
    with make_executor(settings) as executor:
        yield from executor.stream(requests)


def _exit_code(verdicts: Sequence[Verdict]) -> int:
    for fault, error in (("executor", InfrastructureError), ("task", TaskError)):
        if any(verdict.fault == fault for verdict in verdicts):
            return error.exit_code
    return 0 if all(verdict.correct for verdict in verdicts) else 1


def _panel(verdict: Verdict, title: str) -> Panel:
    style = STYLES.get(verdict.status, "red")
    table = Table.grid(padding=(0, 2))
    table.add_column(style="dim", no_wrap=True)
    table.add_column()
    for name, value in _rows(verdict):
        table.add_row(name, Text(value, style=f"bold {style}" if name == "status" else ""))
    return Panel(table, title=title, title_align="left", border_style=style)


def _rows(verdict: Verdict) -> Iterator[tuple[str, str]]:
    yield "status", verdict.status if verdict.fault is None else f"{verdict.status}: the {verdict.fault}'s fault"
    if verdict.cached:
        yield "remembered", "from an earlier judgement; executor.verdict_cache=false judges anew"
    yield "stage", f"{verdict.stage} (the last that was passed)"
    yield "dialect", verdict.dialect + (" (Triton's interpreter: no times)" if verdict.interpreted else "")
    yield "device", verdict.device
    if verdict.feedback:
        yield "feedback", verdict.feedback
    for violation in verdict.violations:
        where = "" if violation.line is None else f"line {violation.line}: "
        yield "violation", f"{where}{violation.rule}: {violation.evidence}"
    for error in verdict.errors[:MAX_ERRORS]:
        yield f"call {error.trial}", f"{error.kind} on {error.inputs} inputs: {error.message}"
    if (num_left := len(verdict.errors) - MAX_ERRORS) > 0:
        yield "", f"and {num_left} more (--json shows all)"
    if verdict.build is not None:
        took = "from the cache" if verdict.build.cached else f"{verdict.build.seconds:.1f} s"
        yield "build", f"{'ok' if verdict.build.ok else 'failed'}, {verdict.build.units} native module(s), {took}"
    for built in verdict.gpu_builds:
        yield "GPU build", f"{built.kernel} for {built.arch}: {_resources(built) if built.ok else 'does not compile'}"
    if verdict.trials:
        yield "checked", f"{verdict.trials} calls"
    if verdict.reference_ms is not None and verdict.candidate_ms is not None:
        yield "time", f"{verdict.candidate_ms:.4g} ms; reference {verdict.reference_ms:.4g} ms"
    if verdict.speedup is not None:
        speedup = verdict.speedup
        yield "speedup", f"{speedup.median:.2f} ({speedup.low:.2f} to {speedup.high:.2f}, {speedup.pairs} pairs)"
    if verdict.retest is not None:
        retest = verdict.retest
        yield "retest", f"{retest.median:.2f} ({retest.low:.2f} to {retest.high:.2f}): measured twice, the lower counts"
    if verdict.bound_ms and verdict.candidate_ms:
        share = verdict.bound_ms / verdict.candidate_ms
        yield (
            "limit",
            f"no program needs less than {verdict.bound_ms:.3g} ms here; this one is at {share:.0%} of that speed",
        )
    if counted := [
        f"{name.replace('_', ' ')} {value:.4g}" for name, value in verdict.counters or () if value is not None
    ]:
        yield "counted", ", ".join(counted)
    for counters in verdict.gpu_counters:
        yield "counted", " ".join(f"{name}={_rounded(value)}" for name, value in counters if value is not None)
    if verdict.uncounted:
        yield "not counted", verdict.uncounted
    if verdict.checks:
        yield "sanitized", ", ".join(verdict.checks)
    if verdict.log:
        yield "output", verdict.log


def _resources(built: GpuBuild) -> str:
    named = {"registers": built.registers, "bytes shared": built.shared_bytes, "bytes spilled": built.spill_bytes}
    return ", ".join(f"{number} {name}" for name, number in named.items() if number is not None) or "ok"


def _rounded(value: object) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)
