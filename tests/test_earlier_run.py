"""A run folder of an earlier version is read: `earlier_run` is one that kernelrl at bc5bccf wrote, as it wrote it.

Its records lack what came later (`finish`, `turn`, …); those of one policy are lines, those of the other a table.
"""

import json
import shutil
from pathlib import Path

import pytest

from kernelrl.commands import records, status
from kernelrl.commands.status.read import read
from kernelrl.configs import compose_config
from kernelrl.errors import UserError
from kernelrl.eval import report, run, stage
from kernelrl.query import Query
from kernelrl.records import COLUMNS, Ledger

STATUSES = {"muddled": ["correct", "incorrect", "illegal", "illegal"], "learnt": ["correct"] * 4}
LATER = ("finish", "prompt_tokens", "completion_tokens", "strategy", "turn", "parent")


@pytest.fixture
def earlier(tmp_path):
    return Path(shutil.copytree(Path(__file__).with_name("earlier_run"), tmp_path / "run"))


def test_its_records_are_whole(earlier):
    for policy, statuses in STATUSES.items():
        ledger = Ledger(earlier / "eval" / policy / "records")
        found = list(ledger)
        assert [record.verdict.status for record in found] == statuses and ledger.skipped == 0
        assert all(record.version == "0.1.0" and record.machine == record.verdict.machine for record in found)
        assert all(getattr(record, name) is None for record in found for name in LATER)
        assert set(LATER) < set(COLUMNS)
    query = Query(earlier)
    assert query.rows("SELECT status, count(*) AS num FROM records GROUP BY status ORDER BY num") == [
        {"status": "incorrect", "num": 1},
        {"status": "illegal", "num": 2},
        {"status": "correct", "num": 5},
    ]
    assert {record.id for record in query.records("")} == {
        f"eval/{policy}/{task}/{sample}" for policy in STATUSES for task in ("relu", "double") for sample in (0, 1)
    }


def test_the_commands_show_it(earlier, capsys):
    assert next(each.state for each in read(earlier).stages if each.name == "eval") == "done"
    assert status.main([str(earlier)]) == 0
    assert records.main([str(earlier), "--status", "illegal"]) == 0
    out = capsys.readouterr().out
    assert "eval/muddled/double/0" in out and "eval/learnt" not in out


@pytest.mark.slow
def test_its_completions_are_evaluated_and_reported(earlier, tmp_path, executor_cache, kept_executor, monkeypatch):
    """Its results are of an older format and its executor had other rules: nothing is sampled, all is judged anew."""
    monkeypatch.setattr(stage, "make_executor", kept_executor)
    with pytest.raises(UserError, match=f"rejudge={earlier} output_dir=OTHER"):
        report.run(compose_config("report", [f"output_dir={earlier}"]))
    again = [f"output_dir={tmp_path / 'again'}", "tracker=none"]
    settings = ["eval.bootstrap=50", "executor.timing=false", f"executor.cache_dir={executor_cache}"]
    run(compose_config("eval", [*again, *settings, f"rejudge={earlier}"]))
    results = json.loads((tmp_path / "again" / "results.json").read_text())
    assert {name: each["transitions"] for name, each in results["rejudged"].items()} == {"muddled": {}, "learnt": {}}
    assert results["policies"]["learnt"]["figures"]["pass@2"]["value"] == 1
    assert "muddled → learnt" in report.run(compose_config("report", again)).read_text()
