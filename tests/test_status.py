"""The status page: what is read from stage folders while somebody works on them, and after."""

import json
import os
import platform
import subprocess
import sys
import time
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace

import pytest
from transformers import TrainerControl, TrainerState, TrainingArguments

from kernelrl import cli
from kernelrl.commands import status
from kernelrl.commands.status import page
from kernelrl.commands.status.logs import last_error, read_jobs, read_logs
from kernelrl.commands.status.read import STALE_S, StageStatus, lock_holder, read
from kernelrl.errors import UserError
from kernelrl.executor import make_executor
from kernelrl.executor.api import ExecutorSettings, NodeHealth
from kernelrl.executor.engines.health import Heartbeat
from kernelrl.records import Ledger, Record, write_json
from kernelrl.runs.stages import PIPELINE
from kernelrl.stage_folder import LOG, open_stage
from kernelrl.training import checkpoints
from kernelrl.training.checkpoints import StageCallback
from kernelrl.verdict import Verdict

NOW = 1.8e9
"""The time at which the page looks."""
HOSTILE = "<script>alert(1)</script> [bold]x"


def record(id, age_s, **verdict):
    fields = {"status": "correct", "stage": "correct", "dialect": "cpp", "device": "cpu"} | verdict
    return Record.of(
        id=id,
        policy="p",
        prompt="?",
        completion="!",
        verdict=Verdict(task_id="t", candidate="c", **fields),
        time=NOW - age_s,
    )


def write_stage(folder: Path, settings=None, figures=None) -> Path:
    with open_stage(folder.name, folder, settings or {"trainer": {"max_steps": 20}}) as stage:
        if figures is not None:
            stage.finish(figures)
    return folder


def write_training_log(folder: Path, entries) -> None:
    """As the trainer does, a step every two seconds."""
    callback = StageCallback(folder / LOG)
    arguments = TrainingArguments(output_dir=str(folder), report_to="none")
    state, control = TrainerState(), TrainerControl()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(checkpoints, "time", SimpleNamespace(monotonic=lambda: 2.0 * state.global_step))
        callback.on_train_begin(arguments, state, control)
        for step, entry in enumerate(entries, 1):
            state.global_step = step
            callback.on_log(arguments, state, control, logs=entry)


@pytest.fixture(autouse=True)
def _clock(monkeypatch: pytest.MonkeyPatch) -> None:
    reading = import_module("kernelrl.commands.status.read")
    monkeypatch.setattr(reading, "time", SimpleNamespace(time=lambda: NOW))


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """Curated and fine-tuned; GRPO is at step 8 of 20."""
    write_stage(tmp_path / "verified", {"num_triples": 4, "num_heldout_triples": 0}, {"proposals": 9})
    write_stage(tmp_path / "data", {"seed": 0}, {"triples": 7, "machines": ["m"]})
    write_stage(tmp_path / "sft", figures={"steps": 40, "seconds": 8.5})
    grpo = write_stage(tmp_path / "grpo")
    write_training_log(grpo, [{"reward": step / 10, "correct": step / 20, "loss": 0.5} for step in range(1, 9)])
    batches = [[record(f"grpo/{step}/{i}", 100 - 10 * step, cached=i == 0) for i in range(4)] for step in range(8)]
    Ledger(grpo / "records").append([each for batch in batches for each in batch])
    (grpo / "records" / "rank1.jsonl").write_text('{"corrupt": 1}\n{"torn')
    return tmp_path


@pytest.fixture
def worker(run: Path) -> Iterator[subprocess.Popen[str]]:
    """Another process that works on GRPO."""
    program = (
        "import sys\n"
        "from kernelrl.stage_folder import open_stage\n"
        "with open_stage('grpo', sys.argv[1], {'trainer': {'max_steps': 20}}):\n"
        "    print('open', flush=True)\n"
        "    sys.stdin.read()\n"
    )
    command = [sys.executable, "-c", program, str(run / "grpo")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None and process.stdout.readline() == "open\n"
        yield process
        process.kill()


def stage(run: Path, name: str) -> StageStatus:
    return next(stage for stage in read(run).stages if stage.name == name)


def test_done_running_and_waiting(run, worker):
    found = {stage.name: stage.state for stage in read(run).stages}
    assert found == {"curate": "done", "sft": "done", "grpo": "running", "eval": "waiting", "report": "waiting"}
    assert stage(run, "grpo").who == f"process {worker.pid}, alive"
    assert dict(stage(run, "sft").figures) == {"steps": 40, "seconds": 8.5}


def test_a_killed_process_is_seen(run, worker):
    assert lock_holder(run / "grpo" / ".lock") == worker.pid
    worker.kill()
    worker.wait()
    assert lock_holder(run / "grpo" / ".lock") is None
    grpo = stage(run, "grpo")
    assert (grpo.state, grpo.who) == ("stopped", f"process {worker.pid}, not alive on this machine")


def test_steps_rates_and_time_left(run, worker):
    grpo = stage(run, "grpo")
    assert grpo.progress is not None
    assert (grpo.progress.done, grpo.progress.of, grpo.progress.unit) == (8, 20, "steps")
    assert grpo.progress.left_s == pytest.approx(12 * 2.0)
    assert grpo.rates["steps/min"] == pytest.approx(30)
    # 7 batches of 4 in the 100 s since the first one; one in four was recalled
    assert grpo.rates["completions/s"] == pytest.approx(0.28)
    assert grpo.rates["verdicts/s"] == pytest.approx(0.75 * grpo.rates["completions/s"])
    assert [step["step"] for step in grpo.steps] == [4, 5, 6, 7, 8]
    assert page.step_rows(grpo)[-1] == ["8", "0.8", "0.4", "0.5"]


def test_curation_counts_correct_kernels(tmp_path):
    folder = write_stage(tmp_path / "verified", {"num_triples": 30, "num_heldout_triples": 10})
    wrong = {"status": "incorrect", "stage": "ran"}
    records = [record(f"curate/{i}", 100 - 10 * i, **({} if i % 2 else wrong)) for i in range(10)]
    Ledger(folder / "records").append(records)
    curate = stage(tmp_path, "curate")
    assert curate.state == "stopped" and curate.progress is not None
    assert (curate.progress.done, curate.progress.of, curate.progress.unit) == (5, 40, "correct kernels")
    assert curate.progress.left_s == pytest.approx(35 * 2 / 0.1)


def test_eval_counts_the_samples_of_the_policy_at_work(tmp_path):
    folder = write_stage(tmp_path / "eval", {"eval": {"samples": 2}, "tasks": "?"})
    write_stage(folder / "base", figures={"seconds": 1.0})
    Ledger(folder / "base" / "records").append([record("eval/base/t/0", 50)])
    write_stage(folder / "sft")
    Ledger(folder / "sft" / "records").append([record(f"eval/sft/t/{i}", 10) for i in range(3)])
    progress = stage(tmp_path, "eval").progress
    assert progress is not None and (progress.done, progress.of, progress.unit) == (3, None, "samples of sft")


def test_the_heartbeat_of_a_real_executor(run, worker, tmp_path):
    with make_executor(ExecutorSettings(cache_dir=str(tmp_path / "cache"))) as executor:
        with Heartbeat(executor, run / "grpo", rank=3, every_s=0.05):
            file = run / "grpo" / "health" / "rank3.json"
            while not file.exists():
                time.sleep(0.01)
            first = json.loads(file.read_text())["time"]
            while json.loads(file.read_text())["time"] == first:
                time.sleep(0.01)
        (node,) = stage(run, "grpo").nodes
    assert (node.node, node.rank, node.alive, node.judged) == (platform.node(), "rank3", True, 0)
    assert not node.is_stale(node.time + STALE_S - 1) and node.is_stale(node.time + STALE_S + 1)


def write_report(run: Path, age_s: float, host: str, error: str = "") -> None:
    health = NodeHealth(node="n1", alive=True, queued=5, running=2, judged=70, retried=1, last_error=error)
    node = {"time": NOW - age_s, **health.model_dump()}
    write_json(run / "grpo" / "health" / "rank0.json", {"time": NOW - age_s, "host": host, "pid": 42, "nodes": [node]})


def test_a_stage_of_another_machine_runs_as_long_as_it_reports(run):
    write_report(run, 1.0, "elsewhere")
    grpo = stage(run, "grpo")
    assert (grpo.state, grpo.who) == ("running", "process 42 on elsewhere")
    write_report(run, STALE_S + 5, "elsewhere")
    grpo = stage(run, "grpo")
    assert grpo.state == "stopped" and "no report from elsewhere lately" in grpo.who
    reported = grpo.nodes[0].time
    assert page.node_row(grpo.nodes[0], reported + STALE_S + 5.25)[2] == "stale, reported 0:00:35 ago"


def test_the_last_error_of_a_record_and_of_a_node(run):
    write_report(run, 1.0, "elsewhere", "a node was lost")
    unknown = {"status": "infrastructure", "stage": "none", "fault": "executor", "feedback": "the service\ndied"}
    Ledger(run / "grpo" / "records", shard="rank2").append([record("grpo/9/9", 1, **unknown)])
    grpo = stage(run, "grpo")
    assert grpo.error == "t: the service died"
    assert page.node_row(grpo.nodes[0], NOW)[-1] == "a node was lost"


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("all is well\nsteps 3\n", ""),
        ("x\nTraceback (most recent call last):\n  File 'a'\n    f()\nValueError: bad\nbye\n", "ValueError: bad"),
        ("[rank1]: Traceback (most recent call last):\n[rank1]:   File\n[rank1]: OSError: full\n", "OSError: full"),
        ("3: Traceback (most recent call last):\n3:   File\n3: OSError: full\n", "OSError: full"),
        ("Traceback (most recent call last):\n  x\nKeyError: 1\nerror: no disk space\n", "error: no disk space"),
        ("slurmstepd: error: Detected 1 oom_kill event\n", "slurmstepd: error: Detected 1 oom_kill event"),
        ("terrors of the deep\n", ""),
    ],
)
def test_the_last_error_of_a_log(text, error):
    assert last_error(text) == error


def test_the_logs_are_those_of_the_latest_attempt(tmp_path):
    for attempt, text in (("1", "error: old\n"), ("2", "Traceback (most recent call last):\n  x\nOSError: full\n")):
        (tmp_path / "logs" / attempt / "node0").mkdir(parents=True)
        (tmp_path / "logs" / attempt / "node0" / "rank0.err").write_text(text)
        (tmp_path / "logs" / attempt / "notes.txt").write_text("error: no log\n")
    assert [log.error for log in read_logs(tmp_path)] == ["error: old", "OSError: full"]
    (tmp_path / "logs" / "latest").symlink_to("2")
    (log,) = read_logs(tmp_path)
    assert (log.name, log.error) == ("node0/rank0.err", "OSError: full")


def write_jobs(run: Path) -> None:
    jobs = [
        {"job_id": 11, "name": "grpo", "submitted": "2026-01-01T00:00:00"},
        {"job_id": "12", "name": "eval", "state": "PENDING", "submitted": "2026-01-01T00:00:01"},
        {"job_id": "13", "name": "other", "submitted": "2026-01-01T00:00:02"},
    ]
    write_json(run / "launch" / "jobs.json", jobs)


def test_jobs_without_slurm_are_as_they_were_written(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    write_jobs(tmp_path)
    assert [job.state for job in read_jobs(tmp_path)] == ["unknown", "PENDING", "unknown"]


def test_slurm_is_asked_for_the_state_of_jobs(tmp_path, monkeypatch):
    write_jobs(tmp_path)
    for name, answer in (("squeue", "11|RUNNING"), ("sacct", "12|COMPLETED")):
        (tmp_path / name).write_text(f'#!/bin/sh\necho "$@" >> {tmp_path}/asked\necho "{answer}"\n')
        (tmp_path / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    assert [job.state for job in read_jobs(tmp_path)] == ["RUNNING", "COMPLETED", "unknown"]
    squeue, sacct = (tmp_path / "asked").read_text().splitlines()
    assert "--jobs=11,12,13" in squeue and "--jobs=12,13" in sacct


def test_the_command_shows_and_writes_everything(run, worker, tmp_path, capsys):
    write_report(run, 1.0, "elsewhere", HOSTILE)
    (run / "logs").mkdir()
    (run / "logs" / "rank0.log").write_text(f"error: {HOSTILE}\n")
    write_jobs(run)
    file = tmp_path / "page" / "status.html"
    with pytest.raises(SystemExit) as end:
        cli.main(["status", str(run), "--html", str(file)])
    said, html = capsys.readouterr().out, file.read_text()
    assert end.value.code == 0
    for text in ("running", "8 of 20 steps (40%)", "steps/min", "completions/s", "n1", "rank0.log", "PENDING"):
        assert text in " ".join(said.split()) and text in html, text
    assert "[bold]x" in said, "markup in an error is text"
    assert "<script" not in html and "&lt;script&gt;" in html
    assert "http://" not in html and "https://" not in html and "refresh" not in html


def test_watching_ends_when_all_is_done(run, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(status, "EVERY_S", 0.01)
    write_stage(run / "eval", {"eval": {}}, {"policies": []})
    (run / "report.html").touch()
    states = []

    def finish(seconds):
        states.append((tmp_path / "status.html").read_text())
        write_stage(run / "grpo", figures={"steps": 20})

    monkeypatch.setattr(status.time, "sleep", finish)
    assert status.main([str(run), "--watch", "--html", str(tmp_path / "status.html")]) == 0
    assert len(states) == 1 and 'http-equiv="refresh"' in states[0]
    last = (tmp_path / "status.html").read_text()
    assert last.count('"pill done"') == len(PIPELINE) and "refresh" not in last


def test_a_folder_without_a_run_is_named(tmp_path):
    with pytest.raises(UserError, match="no stage of a run in it; give the run's output_dir"):
        status.main([str(tmp_path)])
