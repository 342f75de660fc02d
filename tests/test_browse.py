"""Looking at records, and taking them along as a data set."""

import json
import re
from pathlib import Path

import datasets
import pyarrow.parquet as pq
import pytest

from kernelrl import cli
from kernelrl.commands.records import main
from kernelrl.data.tables import SFT_COLUMNS, read_table
from kernelrl.errors import UserError
from kernelrl.policies.prompts import build_prompt, from_text, to_text
from kernelrl.query import Query
from kernelrl.records import Ledger, compact, write_json
from kernelrl.task import Task
from test_replay import COMPLETION, RECORDS

PROMPT = build_prompt(Task(id="t", source="x = [1]\n\n[user]s\n"), "cpp", "short")


@pytest.fixture
def run(tmp_path: Path) -> Path:
    records = [record.model_copy(update={"prompt": to_text(PROMPT), "reward": 0.5}) for record in RECORDS]
    Ledger(tmp_path / "grpo" / "records").append(records)
    return tmp_path


def listed(capsys, *arguments):
    assert main([*map(str, arguments), "--json"]) == 0
    return [json.loads(line)["id"] for line in capsys.readouterr().out.splitlines()]


@pytest.mark.parametrize(
    ("filters", "expected"),
    [
        ([], [f"grpo/{step}/{index}" for index, step in enumerate([0] * 6 + [1] * 2)]),
        (["--status", "correct"], ["grpo/0/0", "grpo/0/1", "grpo/0/4", "grpo/0/5"]),
        (["--min-speedup", "1.5"], ["grpo/0/0", "grpo/0/4", "grpo/0/5"]),
        (["--rule", "library_call"], ["grpo/0/3"]),
        (["--task", "b", "--status", "infrastructure"], ["grpo/1/6"]),
        (["--stage", "grpo", "--min-reward", "0.5", "--policy", "p", "--status", "illegal"], ["grpo/0/3"]),
    ],
)
def test_filters(run, capsys, filters, expected):
    assert listed(capsys, run, *filters) == expected


def test_attempts_are_shown_below_the_one_that_they_go_on_from(tmp_path, capsys):
    parents = {"s/0": None, "s/1": "s/0", "s/2": "s/1", "s/3": "s/0"}
    turns = [0, 1, 2, 1]
    records = [
        RECORDS[0].model_copy(
            update={"id": id, "stage": "search", "strategy": "refine", "turn": turn, "parent": parent}
        )
        for (id, parent), turn in zip(parents.items(), turns, strict=True)
    ]
    Ledger(tmp_path / "records").append(records)
    assert main([str(tmp_path), "--tree"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert "refine: 4 attempts" in lines[0]
    assert [(line.index("s/"), line[line.index("s/") :][:3]) for line in lines[1:]] == [
        (4, "s/0"),
        (8, "s/1"),
        (12, "s/2"),
        (8, "s/3"),
    ]


def test_tables_of_an_older_version_are_read(run, capsys):
    compact(run / "grpo" / "records")
    (table,) = (run / "grpo" / "records").glob("*.parquet")
    old = pq.read_table(table).drop_columns(["strategy", "turn", "parent"])
    pq.write_table(old, table)
    assert len(listed(capsys, run)) == len(RECORDS) == len(list(Ledger(run / "grpo" / "records")))
    Ledger(run / "search" / "records").append([RECORDS[0].model_copy(update={"turn": 3})])
    assert {record.turn for record in Query(run).records("")} == {None, 3}


def test_a_sample_is_drawn_by_its_seed(run, capsys):
    first = listed(capsys, run, "--sample", 3)
    assert len(first) == 3 and listed(capsys, run, "--sample", 3) == first
    assert any(listed(capsys, run, "--sample", 3, "--seed", seed) != first for seed in range(1, 5))


def test_one_trajectory_shows_everything_that_became_of_it(run, capsys):
    with pytest.raises(SystemExit) as end:
        cli.main(["records", str(run), "--show", "grpo/0/0"])
    said = capsys.readouterr().out
    assert end.value.code == 0
    for text in ("Rewrite this program", "why", "class ModelNew", "correct after stage correct", "reward 0.500"):
        assert text in said


def test_the_table_counts_the_verdicts(run, capsys):
    assert main([str(run)]) == 0
    assert "8 of 8 records: 4 correct, 2 incorrect" in capsys.readouterr().out


def test_counts_and_means_for_each_value(run, capsys):
    assert main([str(run), "--by", "status"]) == 0
    table = capsys.readouterr().out
    for name, number in (("correct", 4), ("illegal", 1), ("incorrect", 2), ("infrastructure", 1)):
        assert re.search(rf"│ {name} +│ +{number} │", table), table
    assert main([str(run), "--by", "rule"]) == 0
    assert re.search(r"│ library_call │ +1 │", capsys.readouterr().out)


def test_compacting_changes_no_answer(run, capsys):
    ledger = run / "grpo" / "records"
    before, ids = list(Ledger(ledger)), listed(capsys, run)
    assert main([str(run), "--compact"]) == 0
    assert list(ledger.glob("*.jsonl")), "a stage that has not finished is left as it is"
    write_json(run / "grpo" / "done.json", {})
    (ledger / "rank1.jsonl").write_text('{"torn')
    assert main([str(run), "--compact"]) == 0
    assert sorted(path.name for path in ledger.iterdir()) == ["rank0.parquet", "rank1.corrupt", "rank1.parquet"]
    assert list(Ledger(ledger)) == before
    assert listed(capsys, run) == ids
    with pytest.raises(UserError, match="no ledger in it is left to compact"):
        main([str(run), "--compact"])


def test_killed_while_compacting_nothing_is_lost_or_doubled(run, capsys):
    ledger = run / "grpo" / "records"
    ids, lines = listed(capsys, run), (ledger / "rank0.jsonl").read_bytes()
    (ledger / "rank0.parquet.tmp").write_bytes(b"half a table")
    assert listed(capsys, run) == ids
    compact(ledger)
    (ledger / "rank0.jsonl").write_bytes(lines)  # killed between the table and the removal of the lines
    assert listed(capsys, run) == ids and len(list(Ledger(ledger))) == len(ids)
    compact(ledger)
    assert [path.name for path in ledger.glob("rank0.*")] == ["rank0.parquet"]


def test_whatever_a_policy_writes_can_be_asked_for(tmp_path, capsys):
    odd = ["nul \0 byte", "\u2028 line", '{"json": 1}', "'; DROP VIEW records; --", "\ud7ff 😀", "x" * 3_000_000]
    records = [RECORDS[0].model_copy(update={"id": str(i), "completion": text}) for i, text in enumerate(odd)]
    Ledger(tmp_path / "records").append(records)
    assert [record.completion for record in Query(tmp_path).records("ORDER BY id")] == odd
    compact(tmp_path / "records")
    assert [record.completion for record in Query(tmp_path).records("ORDER BY id")] == odd
    for record in records:
        assert list(Query(tmp_path).records("WHERE completion = ?", [record.completion])) == [record]


def test_an_export_is_a_data_set_for_sft(run, tmp_path):
    folder = tmp_path / "set"
    assert main([str(run), "--status", "correct", "--export", str(folder)]) == 0
    rows = read_table(folder / "sft_train.parquet", SFT_COLUMNS.names)
    assert [row["task_id"] for row in rows] == ["a", "b"]  # equal completions of a task are one row
    assert rows[0]["prompt"] == PROMPT
    assert rows[0]["completion"] == [{"role": "assistant", "content": COMPLETION}]
    assert (rows[0]["reasoning"], rows[0]["verdict"]["speedup"]["low"]) == ("why", 4.0)
    assert (rows[0]["category"], rows[0]["record"]) == (None, "grpo/0/0")  # the run has no tables of its tasks
    assert datasets.load_dataset(str(folder), cache_dir=str(tmp_path / "hub"))["train"].num_rows == 2
    assert json.loads((folder / "manifest.json").read_text())["settings"]["status"] == "correct"
    with pytest.raises(UserError, match="holds a data set already"):
        main([str(run), "--export", str(folder)])


def test_a_conversation_survives_the_ledger():
    turns = [{"role": "system", "content": "be brief"}, *PROMPT, {"role": "assistant", "content": "a\n\nb\n"}]
    assert from_text(to_text(turns)) == turns


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["{run}", "--status", "timeout"], "no record fits"),
        (["{run}", "--show", "grpo/9/9"], "no record 'grpo/9/9' fits"),
        (["{run}/nowhere"], "no record in it"),
        (["{run}", "--status", "fine"], "invalid choice"),
    ],
)
def test_bad_usage_is_one_line(run, arguments, message):
    with pytest.raises(UserError, match=message):
        main([word.format(run=run) for word in arguments])
