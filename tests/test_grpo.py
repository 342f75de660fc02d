"""GRPO: the judge, and how training goes on after a kill."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from transformers import TrainerState

from conftest import KERNELS, REFERENCE
from curated import training_config, write_data
from kernelrl import grpo, sft
from kernelrl.errors import UserError
from kernelrl.executor.api import make_executor
from kernelrl.grpo.judge import Judge
from kernelrl.records import Ledger
from kernelrl.rewards import make_reward
from kernelrl.task import Task
from kernelrl.training import read_log
from kernelrl.verdict import Verdict

TASK = Task(id="relu2", source=REFERENCE)
REWARD = {"name": "plain", "terms": {"correct": {"gates": ["rule"]}}}


def judge(executor, ledger, texts, step=7):
    metrics = {}
    rewards = Judge(executor, make_reward(REWARD), ledger, "cpp", policy="p")(
        prompts=[[{"role": "user", "content": "?"}]] * len(texts),
        completions=[[{"role": "assistant", "content": text}] for text in texts],
        task=[TASK.model_dump_json()] * len(texts),
        trainer_state=TrainerState(global_step=step),
        log_metric=metrics.__setitem__,
        completion_ids=[[1]] * len(texts),
    )
    return rewards, metrics


def test_every_completion_gets_a_reward_and_a_record(tmp_path, executor_cache):
    texts = [f"<think>\nwhy\n</think>\n```python\n{source}```\n" for source in KERNELS.values()] + ["no kernel"]
    ledger = Ledger(tmp_path)
    with make_executor({"timing": False, "cache_dir": str(executor_cache)}) as executor:
        rewards, metrics = judge(executor, ledger, texts)
    assert rewards == [1.0, 0.0, 0.0, 0.0, 0.0]
    records = list(ledger)
    assert [record.id for record in records] == [f"grpo/7/{index}" for index in range(5)]
    assert [record.completion for record in records] == texts
    assert [record.verdict.status for record in records][:3] == ["correct", "incorrect", "compile_error"]
    assert metrics["correct"] == 0.2 and metrics["parsed"] == 0.8 and metrics["legal"] == 0.6
    assert metrics["compiled"] == 0.4 and metrics["infrastructure"] == 0.0
    assert metrics["broke/no_kernel"] == 0.4 and metrics["broke/library_call"] == 0.2 and metrics["coverage"] > 0.5


class Broken:
    """An executor that learns nothing."""

    def evaluate(self, requests):
        return [
            Verdict(
                task_id=r.task.id,
                candidate=None,
                status="infrastructure",
                fault="executor",
                stage="none",
                dialect="cpp",
                device="cpu",
            )
            for r in requests
        ]


def test_an_outage_is_no_reward_rather_than_zero(tmp_path):
    rewards, metrics = judge(Broken(), Ledger(tmp_path), ["a", "b"])
    assert rewards == [None, None]
    assert metrics == {"infrastructure": 1.0}


@pytest.fixture
def cfg(tmp_path):
    cfg = training_config(tmp_path)
    write_data(cfg)
    sft.run(cfg)
    return cfg


def ids(folder):
    return [record.id for record in Ledger(folder / "records")]


EVERY_ID = [f"grpo/{step}/{index}" for step in range(4) for index in range(4)]


def test_it_leaves_final_records_and_log_and_goes_on_after_a_kill(cfg, caplog):
    folder = grpo.run(cfg)
    assert (folder / "final" / "config.json").exists()
    assert ids(folder) == EVERY_ID
    entries = [entry for entry in read_log(folder / "log.jsonl") if "reward" in entry]
    assert [entry["step"] for entry in entries] == [1, 2, 3, 4]
    assert {"parsed", "legal", "compiled", "correct", "loss", "entropy"} <= entries[0].keys()

    (folder / "done.json").unlink()  # as if killed after step 4, with a checkpoint that is not whole
    (folder / "checkpoints" / "checkpoint-4" / "seal.json").unlink()
    grpo.run(cfg)
    assert ids(folder) == EVERY_ID
    assert "8 record(s) of step 2 and later set aside" in caplog.text
    assert [entry["step"] for entry in read_log(folder / "log.jsonl") if "reward" in entry] == [1, 2, 3, 4]


def test_what_is_missing_is_one_line(tmp_path):
    cfg = training_config(tmp_path)
    with pytest.raises(UserError, match=r"tasks_train.parquet: no such file; run kernelrl curate first"):
        grpo.run(cfg)
    write_data(cfg)
    with pytest.raises(UserError, match=r"no model there; run the stage that writes it"):
        grpo.run(cfg)


@pytest.mark.slow
def test_killed_at_any_moment_no_record_is_lost_or_doubled(cfg):
    script = f"from curated import *; from kernelrl import grpo; grpo.run(training_config({cfg.output_dir!r}))"
    environment = {**os.environ, "PYTHONPATH": os.path.dirname(__file__)}
    ledger = Path(cfg.grpo.folder) / "records" / "rank0.jsonl"
    for _ in range(3):  # each time as soon as a batch has reached the ledger
        size = ledger.stat().st_size if ledger.exists() else 0
        process = subprocess.Popen([sys.executable, "-c", script], env=environment)
        while process.poll() is None and (not ledger.exists() or ledger.stat().st_size <= size):
            time.sleep(0.02)
        process.kill()
        assert process.wait() == -signal.SIGKILL, "it was still at work"
    subprocess.run([sys.executable, "-c", script], env=environment, check=True)
    assert ids(Path(cfg.grpo.folder)) == EVERY_ID
