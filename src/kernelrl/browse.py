"""`kernelrl records RUN`: look at what a run wrote and how it was judged, and take the good of it along.

The table and the views read the ledger and change nothing; `--export` writes a data set that `kernelrl sft` reads, so
that rejection sampling and a second SFT come straight from a run.
"""

from __future__ import annotations

import argparse
import random
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any, get_args

import pyarrow as pa
from rich.columns import Columns
from rich.panel import Panel
from rich.syntax import Syntax
from rich.table import Table
from rich.text import Text

from kernelrl.arguments import Parser
from kernelrl.candidate import Completion
from kernelrl.console import console, make_console, set_up_logging, track
from kernelrl.data.tables import write_table
from kernelrl.errors import UserError
from kernelrl.prompts import from_text
from kernelrl.records import Ledger, Record
from kernelrl.verdict import Status

USAGE = "kernelrl records RUN [filters] [--sample N] [--show ID | --export FOLDER | --json]"
EPILOG = """\
RUN is the folder of a run, a stage or a ledger. Without --show, --export or --json the records are listed, latest last.

examples:
  kernelrl records outputs/demo --stage grpo --status illegal --sample 20
  kernelrl records outputs/demo --show grpo/12/3
  kernelrl records outputs/demo --stage grpo --status correct --min-speedup 1.2 --export outputs/second
  kernelrl sft recipe=demo name=second sft.data=outputs/second"""
LISTED = 40
"""Records that the table shows unless `--sample` says otherwise."""
MESSAGES = pa.list_(pa.struct([("role", pa.string()), ("content", pa.string())]))
EXPORTED = pa.schema(
    [
        ("task_id", pa.string()),
        ("prompt", MESSAGES),
        ("completion", MESSAGES),
        ("dialect", pa.string()),
        ("reasoning", pa.string()),
        ("kernel", pa.string()),
        ("reward", pa.float64()),
        ("speedup_low", pa.float64()),
        ("verdict", pa.string()),
        ("teacher", pa.string()),
        ("record", pa.string()),
    ]
)


def main(arguments: list[str]) -> int:
    """Run the command; returns its exit code."""
    options = _parse(arguments)
    set_up_logging()
    records = [record for record in read(Path(options.run), options.stage) if _is_wanted(record, options)]
    if options.show is not None:
        return _show(options.show, records)
    if options.sample is not None and len(records) > options.sample:
        records = random.Random(options.seed).sample(records, options.sample)
    if not records:
        raise UserError(f"{options.run}: no record fits; leave out a filter")
    if options.export is not None:
        _export(Path(options.export), records)
    elif options.json:
        for record in records:
            print(record.model_dump_json())
    else:
        make_console().print(_table(records if options.sample else records[-LISTED:], records))
    return 0


def read(run: Path, stage: str | None = None) -> list[Record]:
    """The records below a folder, all or those of one stage, in order of writing.

    Raises:
        UserError: there are none.
    """
    folders = sorted({path.parent for path in run.rglob("*.jsonl") if path.parent.name == "records"})
    folders = folders or ([run] if any(run.glob("*.jsonl")) else [])
    records = []
    with track(sum(_num_lines(folder) for folder in folders), "reading records") as progress:
        for folder in folders:
            for record in Ledger(folder):
                progress.advance()
                if stage is None or record.stage == stage:
                    records.append(record)
    if not records:
        which = "no record" if stage is None else f"no record of stage {stage!r}"
        raise UserError(f"{run}: {which} in it; the folder of a run holds STAGE/records/*.jsonl")
    return records


def _num_lines(folder: Path) -> int:
    return sum(path.read_bytes().count(b"\n") for path in folder.glob("*.jsonl"))


def _is_wanted(record: Record, options: argparse.Namespace) -> bool:
    speedup = record.verdict.speedup
    return (
        (options.status is None or record.verdict.status == options.status)
        and (options.task is None or options.task in record.task_id)
        and (options.policy is None or record.policy == options.policy)
        and (options.rule is None or any(violation.rule == options.rule for violation in record.verdict.violations))
        and (options.min_reward is None or (record.reward is not None and record.reward >= options.min_reward))
        and (options.min_speedup is None or (speedup is not None and speedup.low >= options.min_speedup))
    )


def _table(shown: Sequence[Record], found: Sequence[Record]) -> Table:
    statuses = Counter(record.verdict.status for record in found).most_common()
    counts = ", ".join(f"{number} {status}" for status, number in statuses)
    table = Table(title=f"{len(shown)} of {len(found)} records: {counts}")
    for column in ("record", "policy", "task", "status", "reward", "speedup", "why"):
        right = column in ("reward", "speedup")
        table.add_column(column, justify="right" if right else "left", overflow="fold", max_width=40)
    for record in shown:
        speedup = record.verdict.speedup
        table.add_row(
            record.id,
            record.policy,
            record.task_id,
            record.verdict.status,
            "–" if record.reward is None else f"{record.reward:.3f}",
            "–" if speedup is None else f"{speedup.median:.2f} [{speedup.low:.2f}, {speedup.high:.2f}]",
            Text(record.verdict.feedback.partition("\n")[0][:80]),
        )
    return table


def _show(wanted: str, records: Sequence[Record]) -> int:
    """One trajectory: what was asked, thought and written, how it was judged and what it earned."""
    found = [record for record in records if record.id == wanted]
    if not found:
        raise UserError(f"no record {wanted!r} fits; `kernelrl records RUN` lists them")
    record = found[-1]
    completion = Completion.parse(record.completion)
    earned = [f"{name} {value:.3f}" for name, value in record.rewards.items()]
    total = "none (left out of the loss)" if record.reward is None else f"{record.reward:.3f}"
    verdict = Text(f"{record.verdict.status} after stage {record.verdict.stage}\n\n{record.verdict.feedback}\n\n")
    verdict.append(f"reward {total}\n" + "\n".join(earned))
    out = make_console()
    width = max(out.width // 2 - 1, 40)
    panels: list[Any] = [
        Panel(Text(record.prompt), title="prompt", width=width),
        Panel(Text(completion.reasoning or "–"), title="reasoning", width=width),
        Panel(_code(completion.source or completion.answer), title="kernel", width=width),
        Panel(verdict, title=f"{record.id} by {record.policy} on {record.task_id}", width=width),
    ]
    out.print(Columns(panels))
    return 0


def _code(text: str) -> Syntax:
    return Syntax(text, "python", word_wrap=True, background_color="default")


def _export(folder: Path, records: Sequence[Record]) -> None:
    """Write a `sft.parquet` that `kernelrl sft sft.data=FOLDER` reads; equal completions of a task once."""
    rows: dict[tuple[str, str], dict[str, Any]] = {}
    for record in records:
        completion = Completion.parse(record.completion)
        speedup = record.verdict.speedup
        rows.setdefault(
            (record.task_id, record.completion),
            {
                "task_id": record.task_id,
                "prompt": from_text(record.prompt),
                "completion": [{"role": "assistant", "content": record.completion}],
                "dialect": record.verdict.dialect,
                "reasoning": completion.reasoning,
                "kernel": completion.source,
                "reward": record.reward,
                "speedup_low": None if speedup is None else speedup.low,
                "verdict": record.verdict.model_dump_json(),
                "teacher": record.policy,
                "record": record.id,
            },
        )
    path = folder / "sft.parquet"
    if path.exists():
        raise UserError(f"--export {folder}: it holds a data set already; name another folder")
    write_table(path, list(rows.values()), EXPORTED)
    console.print(f"{len(rows)} rows of {len(records)} records in {path}", highlight=False)


def _parse(arguments: list[str]) -> argparse.Namespace:
    parser = Parser(
        prog="kernelrl records",
        usage=USAGE,
        description="Look at the records of a run, or take some of them along.",
        epilog=EPILOG,
    )
    parser.add_argument("run", metavar="RUN", help="folder of a run, a stage or a ledger")
    parser.add_argument("--stage", choices=["curate", "grpo", "eval"], help="of this stage only")
    parser.add_argument("--status", choices=get_args(Status), help="with this verdict")
    parser.add_argument("--task", metavar="TEXT", help="whose task id holds this")
    parser.add_argument("--policy", metavar="NAME", help="written by this policy or teacher")
    parser.add_argument("--rule", metavar="RULE", help="that broke this rule")
    parser.add_argument("--min-reward", type=float, metavar="X", help="that earned at least this")
    parser.add_argument("--min-speedup", type=float, metavar="X", help="whose speedup's lower bound is at least this")
    parser.add_argument("--sample", type=int, metavar="N", help="this many, drawn at random")
    parser.add_argument("--seed", type=int, default=0, help="of the draw (default 0)")
    output = parser.add_mutually_exclusive_group()
    output.add_argument("--show", metavar="ID", help="one record: prompt, reasoning, kernel, verdict, reward")
    output.add_argument("--export", metavar="FOLDER", help="write a data set for kernelrl sft")
    output.add_argument("--json", action="store_true", help="one JSON object per line")
    return parser.parse_args(arguments)
