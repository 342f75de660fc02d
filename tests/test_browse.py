"""Looking at records, and taking them along as a data set."""

import json
from pathlib import Path

import pytest

from kernelrl import cli
from kernelrl.browse import main
from kernelrl.data.tables import read_table
from kernelrl.errors import UserError
from kernelrl.prompts import build_prompt, from_text, to_text
from kernelrl.records import Ledger
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


def test_an_export_is_a_data_set_for_sft(run, tmp_path):
    folder = tmp_path / "set"
    assert main([str(run), "--status", "correct", "--export", str(folder)]) == 0
    rows = read_table(folder / "sft.parquet", ["prompt", "completion", "task_id", "reasoning", "speedup_low"])
    assert [row["task_id"] for row in rows] == ["a", "b"]  # equal completions of a task are one row
    assert rows[0]["prompt"] == PROMPT
    assert rows[0]["completion"] == [{"role": "assistant", "content": COMPLETION}]
    assert (rows[0]["reasoning"], rows[0]["speedup_low"]) == ("why", 4.0)
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
