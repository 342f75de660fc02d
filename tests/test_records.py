"""The ledger: nothing is lost, nothing is silent, whatever happens to the writer."""

import json
import os
import signal
import subprocess
import sys

import pytest
from pydantic import ValidationError

from kernelrl import __version__
from kernelrl.records import Ledger, Record, compact, digest, write_atomically, write_json
from kernelrl.verdict import TrialError, Verdict


def make(id, step=0, completion="text", **fields):
    verdict = Verdict(task_id="t", candidate=None, status="compile_error", stage="none", dialect="cpp", device="cpu")
    return Record(
        **{
            "id": id,
            "stage": "grpo",
            "step": step,
            "policy": "p",
            "task_id": "t",
            "prompt": "why?",
            "completion": completion,
            "verdict": verdict,
            **fields,
        }
    )


def ids(ledger):
    return [record.id for record in ledger]


def test_records_round_trip(tmp_path):
    folder = tmp_path / "run" / "records"
    ledger = Ledger(folder)
    assert list(ledger) == []
    records = [make("a", rewards={"correct": 1.0}, reward=1.5), make("b", completion="line\nü \u2028 \0 end")]
    ledger.append(records)
    ledger.append([])
    assert list(ledger) == records and ledger.skipped == 0
    Ledger(folder).append([make("c")])  # as a resumed run does
    assert ids(ledger) == ["a", "b", "c"]
    assert ledger.path.read_bytes().count(b"\n") == 3, "one line for each record"


def test_a_new_record_says_what_follows_from_its_id_and_its_verdict():
    verdict = make("a").verdict.model_copy(update={"machine": "here"})
    record = Record.of("validation/7/0", "p", "why?", "text", verdict, step=7, reward=0.5)
    assert (record.stage, record.step, record.task_id) == ("validation", 7, "t")
    assert (record.machine, record.version, record.reward, record.finish) == ("here", __version__, 0.5, None)
    named = Record.of("level_1_problem_2", "p", "", "text", verdict, stage="eval")
    assert (named.stage, named.step) == ("eval", 0)
    with pytest.raises(ValidationError, match="speed"):
        Record.of("eval/p/t/0", "p", "", "text", verdict, speed=2.0)


def test_a_torn_line_is_skipped_counted_and_loses_only_itself(tmp_path):
    ledger = Ledger(tmp_path)
    ledger.append([make("a"), make("b")])
    ledger.path.write_bytes(ledger.path.read_bytes()[:-30])
    assert ids(ledger) == ["a"] and ledger.skipped == 1
    ledger.append([make("c")])
    assert ids(ledger) == ["a", "c"] and ledger.skipped == 1
    assert ids(ledger) == ["a", "c"] and ledger.skipped == 1


def test_a_line_that_lacks_only_its_newline_is_whole(tmp_path):
    ledger = Ledger(tmp_path)
    ledger.append([make("a")])
    ledger.path.write_bytes(ledger.path.read_bytes()[:-1])
    assert ids(ledger) == ["a"]
    ledger.append([make("b")])
    assert ids(ledger) == ["a", "b"] and ledger.skipped == 0


@pytest.mark.parametrize("garbage", [b"{}\n", b"\xff\xfe\x00\n", b"null\n", b'{"id": "x"}\n', b"\x00" * 4096 + b"\n"])
def test_corrupt_lines_are_skipped_and_counted(tmp_path, garbage):
    ledger = Ledger(tmp_path)
    ledger.append([make("a")])
    with open(ledger.path, "ab") as file:
        file.write(garbage)
    ledger.append([make("b")])
    assert ids(ledger) == ["a", "b"] and ledger.skipped == 1


def test_numbers_that_json_lacks_do_not_cost_the_record(tmp_path):
    """Outputs full of NaN give a verdict whose error is not a number."""
    errors = (TrialError(trial=0, kind="non_finite", message="NaN", max_abs=float("nan"), max_rel=float("inf")),)
    verdict = Verdict(
        task_id="t", candidate="c", status="incorrect", stage="ran", dialect="cpp", device="cpu", errors=errors
    )
    ledger = Ledger(tmp_path)
    ledger.append([make("a", verdict=verdict)])
    (record,) = ledger
    assert record.verdict.errors[0].kind == "non_finite"


def test_every_process_has_its_shard_and_a_reader_sees_them_all(tmp_path):
    script = """
import sys; sys.path.insert(0, {tests!r})
from test_records import Ledger, make
ledger = Ledger({folder!r}, shard="rank{rank}")
for step in range(50):
    ledger.append([make(f"grpo/{{step}}/{rank}-{{i}}", completion="x" * 5000) for i in range(4)])
"""
    folder = tmp_path / "records"
    writers = [
        subprocess.Popen(
            [sys.executable, "-c", script.format(tests=os.path.dirname(__file__), folder=str(folder), rank=rank)]
        )
        for rank in range(2)
    ]
    assert [writer.wait() for writer in writers] == [0, 0]
    ledger = Ledger(folder)
    assert len(set(ids(ledger))) == 2 * 50 * 4 and ledger.skipped == 0
    assert sorted(path.name for path in folder.iterdir()) == ["rank0.jsonl", "rank1.jsonl"]


def test_a_killed_writer_loses_at_most_its_last_append(tmp_path):
    script = """
import sys; sys.path.insert(0, {tests!r})
from test_records import Ledger, make
ledger = Ledger({folder!r})
for step in range(100_000):
    ledger.append([make(f"grpo/{{step}}/{{i}}", completion="x" * 20_000) for i in range(4)])
    print(step, flush=True)
"""
    arguments = [sys.executable, "-c", script.format(tests=os.path.dirname(__file__), folder=str(tmp_path))]
    with subprocess.Popen(arguments, stdout=subprocess.PIPE, text=True) as writer:
        written = -1
        while written < 20:
            written = int(writer.stdout.readline())
        writer.send_signal(signal.SIGKILL)
    ledger = Ledger(tmp_path)
    found = ids(ledger)
    assert {f"grpo/{step}/{i}" for step in range(written + 1) for i in range(4)} <= set(found)
    assert len(found) == len(set(found)) and ledger.skipped <= 1


def test_set_aside_keeps_what_a_resumed_run_will_repeat_beside_the_ledger(tmp_path):
    ledger = Ledger(tmp_path)
    ledger.append([make(f"grpo/{step}/0", step=step) for step in range(4)])
    with open(ledger.path, "ab") as file:
        file.write(b"torn")
    assert ledger.set_aside(lambda record: record.step >= 2) == 2
    assert ids(ledger) == ["grpo/0/0", "grpo/1/0"] and ledger.skipped == 1
    assert ids(Ledger(tmp_path / "superseded")) == ["grpo/2/0", "grpo/3/0"]
    ledger.append([make("grpo/2/0", step=2)])
    assert ids(ledger) == ["grpo/0/0", "grpo/1/0", "grpo/2/0"]
    assert ledger.set_aside(lambda record: record.step >= 2) == 1
    assert len(ids(Ledger(tmp_path / "superseded"))) == 3
    assert ledger.set_aside(lambda record: False) == 0
    assert Ledger(tmp_path / "nowhere").set_aside(lambda record: True) == 0


def test_nothing_to_write_makes_no_folder_and_blank_lines_are_no_loss(tmp_path):
    ledger = Ledger(tmp_path / "records")
    ledger.append([])
    assert not ledger.folder.exists()
    ledger.append([make("a")])
    with open(ledger.path, "ab") as file:
        file.write(b"\n \n")
    assert ids(ledger) == ["a"] and ledger.skipped == 0


def test_a_record_is_the_same_as_a_row_of_a_table_and_lacks_what_older_tables_lack():
    record = make("a", rewards={"correct": 1.0}, reward=0.0, turn=0, finish="stop")
    row = record.to_columns()
    assert Record.from_columns(row) == record
    del row["turn"], row["finish"]
    assert Record.from_columns(row) == record.model_copy(update={"turn": None, "finish": None})


def test_a_compacted_ledger_holds_every_record_once_and_keeps_its_corrupt_lines(tmp_path):
    ledger = Ledger(tmp_path)
    ledger.append([make("a"), make("b")])
    with open(ledger.path, "ab") as file:
        file.write(b"\n{}\n")
    lines = ledger.path.read_bytes()
    assert compact(tmp_path) == 1
    assert (tmp_path / "rank0.corrupt").read_bytes() == b"{}\n"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["rank0.corrupt", "rank0.parquet"]
    ledger.path.write_bytes(lines)  # as where it was killed before it removed the lines
    assert ids(ledger) == ["a", "b"] and ledger.skipped == 0
    assert compact(tmp_path) == 0 and not ledger.path.exists()
    assert ids(ledger) == ["a", "b"]


def test_digest_is_sha256(tmp_path):
    (tmp_path / "file").write_bytes(b"abc")
    assert digest(tmp_path / "file") == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"


def test_atomic_writes_leave_nothing_behind(tmp_path):
    path = tmp_path / "folder" / "figures.json"
    write_json(path, {"b": 1, "a": "ü"})
    assert list(json.loads(path.read_text())) == ["b", "a"]
    write_atomically(path, "new")
    assert path.read_text() == "new"
    assert [entry.name for entry in path.parent.iterdir()] == ["figures.json"]
