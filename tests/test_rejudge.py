"""`kernelrl eval rejudge=RUN`: a finished run knows its tasks, and what cannot be read is one line."""

import json
import shutil

import pytest

from conftest import KERNELS, REFERENCE
from kernelrl.configs import compose_config
from kernelrl.data.rows import task_row
from kernelrl.data.tables import TASK_COLUMNS, write_table
from kernelrl.errors import UserError
from kernelrl.eval import run, stage
from kernelrl.records import Ledger
from kernelrl.task import Task

IDS = {"relu/one": 256, "relu/two": 128, "relu/three": 64}


@pytest.fixture
def evaluate(tmp_path, monkeypatch, kept_executor, executor_cache):
    monkeypatch.setattr(stage, "make_executor", kept_executor)
    monkeypatch.chdir(tmp_path)

    def evaluate(output_dir, *words):
        shared = [f"output_dir={output_dir}", "tracker=none", "eval.bootstrap=50", "executor.timing=false"]
        return json.loads(
            run(compose_config("eval", [*shared, f"executor.cache_dir={executor_cache}", *words])).read_text()
        )

    return evaluate


@pytest.fixture
def finished(evaluate, tmp_path):
    """A run that was evaluated on the tasks of a source, the first two of three; returns its results."""
    tasks = [Task(id=id, source=REFERENCE.replace("256", str(rows))) for id, rows in IDS.items()]
    write_table(tmp_path / "mine.parquet", [task_row(task, "cpp", "short", None) for task in tasks], TASK_COLUMNS)
    for id in IDS:
        path = tmp_path / "kernels" / f"{id}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(KERNELS["right"])
    policy = "+eval.policies.mine={backend:kernels,folder:kernels}"
    source = ["tasks=table", "tasks.path=mine.parquet", "eval.tasks=null", "eval.limit=2"]
    return evaluate("run", "eval/policies=none", policy, *source, "eval.samples=1", "eval.k=[1]")


def test_a_run_on_the_tasks_of_a_source_knows_them(evaluate, finished, tmp_path):
    (tmp_path / "mine.parquet").unlink()
    shutil.move(tmp_path / "run", tmp_path / "moved")
    again = evaluate("again", "rejudge=moved")
    assert again["tasks"] == finished["tasks"] and len(again["tasks"]) == 2
    assert again["partial"] == finished["partial"] == {"num": 2, "of": 3}
    assert again["rejudged"]["mine"]["samples"] == 2 and again["policies"]["mine"]["figures"]["correct"]["value"] == 1
    records = [list(Ledger(tmp_path / run / "eval" / "mine" / "records")) for run in ("moved", "again")]
    assert [each.prompt for each in records[0]] == [each.prompt for each in records[1]]


def test_tasks_that_were_not_evaluated_there_are_told_from_a_server_that_does_not_answer(evaluate, finished, tmp_path):
    """As in a run of an earlier version, which kept no tasks."""
    (tmp_path / "run" / "eval" / "tasks.parquet").unlink()
    with pytest.raises(UserError, match=r"lacks completions of 2 of 2 tasks, e.g. hpc/axpy; give the tasks that were"):
        evaluate("again", "rejudge=run", "tasks=hpc")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"schema_version": 7}, "schema_version 7; this version of kernelrl reads 1"),
        ({"schema_version": None}, "schema_version None; this version of kernelrl reads 1"),
        ({"seed": "x"}, "these are no results that can be judged anew: seed: "),
        ({"eval": {"folder": "x"}}, "these are no results that can be judged anew: eval.tasks: Field required"),
    ],
)
def test_results_that_cannot_be_read_are_one_line(evaluate, finished, tmp_path, change, message):
    (tmp_path / "run" / "results.json").write_text(json.dumps(finished | change))
    with pytest.raises(UserError) as error:
        evaluate("again", "rejudge=run")
    assert str(error.value).startswith("run/results.json: ") and message in str(error.value)
    (tmp_path / "run" / "results.json").write_text("[")
    with pytest.raises(UserError, match="run/results.json: not JSON"):
        evaluate("again", "rejudge=run")
    assert not (tmp_path / "again").exists()
