"""`kernelrl records RUN`: look at what a run wrote and how it was judged, and take the good of it along.

The table and the views read the ledger and change nothing; `--export` writes a data set that `kernelrl sft` reads, so
that rejection sampling and a second SFT come straight from a run.
"""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, get_args

from rich.columns import Columns
from rich.panel import Panel
from rich.syntax import Syntax
from rich.table import Table
from rich.text import Text

from kernelrl.candidate import Completion
from kernelrl.commands.arguments import Parser
from kernelrl.commands.tree import make_trees
from kernelrl.console import console, make_console, set_up_logging, track
from kernelrl.data import card, manifest
from kernelrl.data.tables import SFT_COLUMNS, SFT_TRAIN, TASK_COLUMNS, Row, iterate_table, verdict_columns, write_table
from kernelrl.data.tokens import count_words
from kernelrl.errors import UserError
from kernelrl.policies.prompts import from_text
from kernelrl.query import Query
from kernelrl.records import Record, compact, write_json
from kernelrl.stage_folder import is_done, require_writable
from kernelrl.verdict import Status

USAGE = "kernelrl records RUN [filters] [--sample N] [--show ID | --tree | --by WHAT | --export DIR | --json]"
EPILOG = """\
RUN is the folder of a run, a stage or a ledger. Without an option that says more, the latest records are listed.

examples:
  kernelrl records outputs/demo --stage grpo --status illegal --sample 20
  kernelrl records outputs/demo --show grpo/12/3
  kernelrl records outputs/demo --stage grpo --by step
  kernelrl records outputs/demo --stage search --tree
  kernelrl records outputs/demo --stage grpo --status correct --min-speedup 1.2 --export outputs/second
  kernelrl sft recipe=demo name=second sft.data=outputs/second"""
LISTED = 40
"""Records that the table shows unless `--sample` says otherwise."""
COUNT = "SELECT status, count(*) AS n FROM records"
SUMMARY = """
    SELECT {by} AS key, count(*) AS n, avg(CAST(legal AS DOUBLE)) AS legal,
        avg(CAST(status = 'correct' AS DOUBLE)) AS correct, avg(reward) AS reward,
        exp(avg(ln(speedup)) FILTER (status = 'correct')) AS speedup,
        avg(coverage) FILTER (status = 'correct') AS coverage
    FROM records {where} GROUP BY key ORDER BY key
"""
BY = {name: name for name in ("stage", "step", "policy", "status")} | {"task": "task_id", "rule": "unnest(rules)"}
"""What `--by` may name, as SQL."""


def main(arguments: list[str]) -> int:
    """Run the command; returns its exit code."""
    options = _parse(arguments)
    set_up_logging()
    if options.compact:
        return _compact(Path(options.run))
    query = Query(Path(options.run))
    where, values = _where(options)
    found = {row["status"]: row["n"] for row in query.rows(f"{COUNT} {where} GROUP BY status ORDER BY n DESC", values)}
    if not found:
        which = "no record" if options.show is None else f"no record {options.show!r}"
        raise UserError(f"{options.run}: {which} fits; leave out a filter")
    if options.by is not None:
        make_console().print(_summary(query.rows(SUMMARY.format(by=BY[options.by], where=where), values), options.by))
        return 0
    order = "ORDER BY time, id"
    if options.sample is not None:  # the same draw each time, whatever the order of the shards
        order = f"ORDER BY hash(id || '{options.seed}') LIMIT {options.sample}"
    elif not (options.export or options.json or options.tree):
        order = f"ORDER BY time DESC, id DESC LIMIT {LISTED}"
    records = query.records(f"{where} {order}", values)
    if options.show is not None:
        _show(records)
    elif options.tree:
        for tree in make_trees(records):
            make_console().print(tree)
    elif options.export is not None:
        _export(Path(options.export), list(records), options)
    elif options.json:
        for record in records:
            print(record.model_dump_json())
    else:
        make_console().print(_table(sorted(records, key=lambda record: record.time), found))
    return 0


def _where(options: argparse.Namespace) -> tuple[str, list[Any]]:
    """The filters as SQL, with the values of its question marks."""
    conditions = {
        "stage = ?": options.stage,
        "status = ?": options.status,
        "policy = ?": options.policy,
        "contains(task_id, ?)": options.task,
        "list_contains(rules, ?)": options.rule,
        "reward >= ?": options.min_reward,
        "speedup_low >= ?": options.min_speedup,
        "id = ?": options.show,
    }
    given = {condition: value for condition, value in conditions.items() if value is not None}
    return (f"WHERE {' AND '.join(given)}" if given else ""), list(given.values())


def read(run: Path, stage: str | None = None) -> list[Record]:
    """The records below a folder, all or those of one stage, in order of time.

    Raises:
        UserError: there are none.
    """
    query = Query(run)
    where, values = ("", []) if stage is None else ("WHERE stage = ?", [stage])
    (total,) = query.rows(f"SELECT count(*) AS n FROM records {where}", values)
    records = []
    with track(total["n"], "reading records") as progress:
        for record in query.records(f"{where} ORDER BY time, id", values):
            records.append(record)
            progress.advance()
    if not records:
        raise UserError(f"{run}: no record of stage {stage!r} in it")
    return records


def _compact(run: Path) -> int:
    """Compact every ledger below a folder whose stage has finished."""
    folders = sorted({path.parent for path in run.rglob("*.jsonl") if path.parent.name == "records"})
    if not folders:
        raise UserError(f"{run}: no ledger in it is left to compact")
    for folder in folders:
        if not is_done(folder.parent):
            console.print(f"{folder}: left as it is, its stage has not finished", highlight=False)
            continue
        before = _num_bytes(folder)
        num_corrupt = compact(folder)
        console.print(
            f"{folder}: {before / 2**20:.1f} MiB before, {_num_bytes(folder) / 2**20:.1f} MiB now"
            + (f"; {num_corrupt} corrupt line(s) kept in *.corrupt" if num_corrupt else ""),
            highlight=False,
        )
    return 0


def _num_bytes(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.iterdir() if path.is_file())


def _summary(rows: Sequence[Mapping[str, Any]], by: str) -> Table:
    table = Table(title=f"records by {by}")
    for column in (by, "records", "legal, %", "correct, %", "reward", "speedup, ×", "coverage, %"):
        table.add_column(column, justify="left" if column == by else "right", overflow="fold")
    for row in rows:
        shares = [f"{100 * row[name]:.1f}" for name in ("legal", "correct")]
        reward, speedup, coverage = row["reward"], row["speedup"], row["coverage"]
        table.add_row(
            str(row["key"]),
            f"{row['n']:,}",
            *shares,
            "–" if reward is None else f"{reward:.3f}",
            "–" if speedup is None else f"{speedup:.2f}",
            "–" if coverage is None else f"{100 * coverage:.1f}",
        )
    return table


def _table(shown: Sequence[Record], found: Mapping[str, int]) -> Table:
    counts = ", ".join(f"{number:,} {status}" for status, number in found.items())
    table = Table(title=f"{len(shown)} of {sum(found.values()):,} records: {counts}")
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


def _show(records: Iterator[Record]) -> None:
    """One trajectory: what was asked, thought and written, how it was judged and what it earned."""
    *_, record = records
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


def _code(text: str) -> Syntax:
    return Syntax(text, "python", word_wrap=True, background_color="default")


def _export(folder: Path, records: Sequence[Record], options: argparse.Namespace) -> None:
    """Write a data set folder that `kernelrl sft sft.data=FOLDER` reads; equal completions of a task once."""
    if (folder / SFT_TRAIN).exists():
        raise UserError(f"--export {folder}: it holds a data set already; name another folder")
    require_writable(folder, "name another folder")
    about = _about_tasks(Path(options.run))
    rows: dict[tuple[str, str], Row] = {}
    for record in records:
        completion = Completion.parse(record.completion)
        row = about.get(record.task_id, {"task_id": record.task_id}) | {
            "prompt": from_text(record.prompt),
            "completion": [{"role": "assistant", "content": record.completion}],
            "dialect": record.verdict.dialect,
            "reasoning": completion.reasoning,
            "reasoning_tokens": count_words(completion.reasoning),
            "kernel": completion.source,
            "verdict": verdict_columns(record.verdict),
            "teacher": record.policy,
            "selected_by": "records",
            "record": record.id,
        }
        rows.setdefault((record.task_id, record.completion), row)
    write_table(folder / SFT_TRAIN, rows.values(), SFT_COLUMNS)
    summary = {
        "proposals": len(records),
        "proposals_by_status": dict(Counter(record.verdict.status for record in records).most_common()),
        "verified": len(records),
        "selected_by": {"records": len(rows)},
        "triples": len(rows),
        "triples_heldout": 0,
    }
    write_json(folder / "summary.json", summary)
    card.write(folder, folder.name, summary)
    settings = {name: value for name, value in vars(options).items() if name not in ("show", "export", "json")}
    manifest.write(folder, settings, sorted({record.machine for record in records}))
    console.print(f"{len(rows)} rows of {len(records)} records in {folder / SFT_TRAIN}", highlight=False)


def _about_tasks(run: Path) -> dict[str, Row]:
    """By task id: what the data sets below the run's folder know about their tasks."""
    columns = [name for name in TASK_COLUMNS.names if name in SFT_COLUMNS.names and name != "prompt"]
    tables = sorted(run.rglob("tasks_*.parquet"))
    return {row["task_id"]: row for table in tables for row in iterate_table(table, columns)}


def _parse(arguments: list[str]) -> argparse.Namespace:
    parser = Parser(
        prog="kernelrl records",
        usage=USAGE,
        description="Look at the records of a run, or take some of them along.",
        epilog=EPILOG,
    )
    parser.add_argument("run", metavar="RUN", help="folder of a run, a stage or a ledger")
    parser.add_argument("--stage", choices=["curate", "grpo", "eval", "search"], help="of this stage only")
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
    output.add_argument("--tree", action="store_true", help="which attempt came of which")
    output.add_argument("--export", metavar="FOLDER", help="write a data set for kernelrl sft")
    output.add_argument("--by", choices=list(BY), help="counts and means for each value")
    output.add_argument("--compact", action="store_true", help="make tables of what has finished: a tenth of the size")
    output.add_argument("--json", action="store_true", help="one JSON object per line")
    return parser.parse_args(arguments)
