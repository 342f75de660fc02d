"""A small data folder in the form that curation writes, made without judging anything: for tests of training."""

from pathlib import Path

from omegaconf import DictConfig, OmegaConf

from kernelrl.configs import compose_config
from kernelrl.data import curate, sources
from kernelrl.data.tables import write_table
from kernelrl.data.teachers import make_teacher
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
            f"executor.cache_dir={folder}/cache",
            *overrides,
        ],
    )


def write_data(cfg: DictConfig) -> None:
    """`sft.parquet` and the task tables, from the teacher's unjudged proposals."""
    teacher = make_teacher(OmegaConf.create({"name": "template"}), cfg.dialect)
    tasks = sources.load(cfg.tasks).train[:NUM_TRIPLES]
    triples = []
    for task in tasks:
        verdict = Verdict(
            task_id=task.id, candidate="0", status="correct", stage="correct", dialect="cpp", device="cpu"
        )
        triples.append(curate.Triple(task, teacher.propose(task, cfg.dialect)[0], verdict))
    folder = Path(cfg.curate.folder)
    write_table(folder / "sft.parquet", [triple.row(cfg, teacher) for triple in triples], curate.TRIPLE_COLUMNS)
    for name in ("train", "heldout"):
        rows = [curate.task_row(task, cfg) for task in tasks]
        write_table(folder / f"tasks_{name}.parquet", rows, curate.TASK_COLUMNS)
