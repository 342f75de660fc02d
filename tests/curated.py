"""A small data folder in the form that curation writes, made without judging anything: for tests of training."""

import os
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path

from omegaconf import DictConfig, OmegaConf

from kernelrl.configs import compose_config
from kernelrl.data import sources
from kernelrl.data.rows import sft_row, task_row
from kernelrl.data.tables import SFT_COLUMNS, TASK_COLUMNS, Row, verdict_columns, write_table
from kernelrl.data.teachers import Proposal, make_teacher
from kernelrl.task import Task
from kernelrl.verdict import Verdict

NUM_TRIPLES = 24


def training_config(folder: Path, *overrides: str) -> DictConfig:
    """A run that takes seconds: two layers, a few steps."""
    return compose_config(
        "pipeline",
        [
            f"output_dir={folder}",
            "recipe=toy",
            "tracker=none",
            "filters.min_ms=0",  # what is kept must not depend on how fast the machine is just now
            "filters.max_ms=10000",
            "model.architecture.num_hidden_layers=2",
            "model.architecture.hidden_size=32",
            "model.architecture.intermediate_size=64",
            "sft.trainer.max_steps=6",
            "sft.trainer.save_steps=2",
            "sft.trainer.logging_steps=1",
            "sft.trainer.per_device_train_batch_size=4",
            "grpo.trainer.max_steps=4",
            "grpo.trainer.save_steps=2",
            "grpo.trainer.per_device_train_batch_size=4",
            "grpo.trainer.num_generations=2",
            "grpo.trainer.max_completion_length=16",
            "executor.draws=tests",  # the same inputs in every run, as in the tests of the executor
            f"executor.cache_dir={os.environ['KERNELRL_TESTS']}/cache",
            *overrides,
        ],
    )


def run(module: str, folder: str, overrides: Sequence[str]) -> None:
    """Run a stage with `training_config`: for processes of their own."""
    import_module(module).run(training_config(Path(folder), *overrides))


def write_data(cfg: DictConfig) -> None:
    """The triples' and the tasks' tables, from the teacher's unjudged proposals."""
    teacher = make_teacher(OmegaConf.create({"name": "template"}), cfg.dialect)
    tasks = sources.load(cfg.tasks).train[:NUM_TRIPLES]
    folder = Path(cfg.curate.folder)
    for split in ("train", "heldout"):
        triples = [triple(task, teacher.propose(task, cfg.dialect)[0], cfg.dialect) for task in tasks]
        rows = [sft_row(task, row, cfg.prompt.style) for task, row in zip(tasks, triples, strict=True)]
        write_table(folder / f"sft_{split}.parquet", rows, SFT_COLUMNS)
        rows = [task_row(task, cfg.dialect, cfg.prompt.style, None) for task in tasks]
        write_table(folder / f"tasks_{split}.parquet", rows, TASK_COLUMNS)


def triple(task: Task, proposal: Proposal, dialect: str, **verdict: object) -> Row:
    """The columns of a verified proposal, judged `correct` unless `verdict` says otherwise."""
    fields = {"status": "correct", "stage": "correct", "dialect": dialect, "device": "cpu"} | verdict
    return {
        "task_id": task.id,
        "dialect": dialect,
        "teacher": "template",
        "kernel_level": proposal.level,
        "completion": proposal.completion(),
        "reasoning": proposal.reasoning,
        "kernel": proposal.source,
        "verdict": verdict_columns(Verdict(task_id=task.id, candidate="0", **fields)),
        "record": f"curate/{task.id}",
    }
