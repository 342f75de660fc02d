"""SFT: the base model learns the verified triples (TRL's `SFTTrainer`, loss on the completion only).

The stage folder holds `base/` (what training started from), `checkpoints/`, `final/` (the policy) and `log.jsonl`.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import datasets
from omegaconf import DictConfig
from transformers import PreTrainedModel, PreTrainedTokenizerBase
from trl import SFTConfig, SFTTrainer

from kernelrl import models
from kernelrl.configs import to_dict
from kernelrl.data.tables import SFT_HELDOUT, SFT_TRAIN, read_table
from kernelrl.records import digest
from kernelrl.run import LOG, open_stage, read_log
from kernelrl.tracking import report_to
from kernelrl.training import (
    CHECKPOINTS,
    FINAL,
    StageCallback,
    last_checkpoint,
    require_disk_for_checkpoints,
    show_progress,
)


def run(cfg: DictConfig) -> Path:
    """Train, or go on from the last whole checkpoint. Returns the stage folder.

    Raises:
        UserError: no data set, missing columns, no such model, no disk space.
    """
    data_file = Path(cfg.sft.data) / SFT_TRAIN
    rows = read_table(data_file, ["prompt", "completion"])
    heldout_file = Path(cfg.sft.data) / SFT_HELDOUT if cfg.sft.trainer.get("eval_strategy", "no") != "no" else None
    heldout = None if heldout_file is None else read_table(heldout_file, ["prompt", "completion"])
    models.check_base(cfg.model)
    models.make_adapter(cfg.sft.peft)  # only to find what is wrong with it before long work
    settings = {
        "seed": cfg.seed,
        "model": cfg.model,
        "data": digest(data_file),
        "heldout": None if heldout_file is None else digest(heldout_file),
        "trainer": cfg.sft.trainer,
        "peft": cfg.sft.peft,
    }
    with open_stage("sft", cfg.sft.folder, settings) as stage:
        if not stage.done:
            model, tokenizer = _open_base(cfg, stage.path / "base", rows)
            trainer = make_trainer(cfg, model, tokenizer, rows, stage.path, heldout)
            with show_progress(trainer, "sft", ["loss"]):
                trainer.train(resume_from_checkpoint=_as_argument(last_checkpoint(stage.path / CHECKPOINTS)))
            if trainer.is_world_process_zero():
                models.save_policy(trainer.accelerator.unwrap_model(trainer.model), tokenizer, stage.path / FINAL)
            stage.finish(
                {
                    "steps": trainer.state.global_step,
                    "examples": len(rows),
                    "seconds": read_log(stage.path / LOG)[-1]["seconds"],
                }
            )
        return stage.path


def make_trainer(
    cfg: DictConfig,
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    rows: list[dict[str, Any]],
    folder: Path,
    heldout: list[dict[str, Any]] | None = None,
) -> SFTTrainer:
    """The trainer that `cfg.sft` asks for; its files go under `folder`.

    Args:
        heldout: rows that the trainer evaluates on; None: it does not evaluate.
    """
    require_disk_for_checkpoints(folder, model, cfg.sft.trainer.get("save_total_limit"))
    arguments = SFTConfig(
        **to_dict(cfg.sft.trainer),
        output_dir=str(folder / CHECKPOINTS),
        seed=cfg.seed,
        report_to=report_to(cfg, "sft"),
    )
    return SFTTrainer(
        model=model,
        args=arguments,
        train_dataset=_conversations(rows),
        eval_dataset=None if heldout is None else _conversations(heldout),
        processing_class=tokenizer,
        peft_config=models.make_adapter(cfg.sft.peft),
        callbacks=[StageCallback(folder / LOG)],
    )


def _conversations(rows: list[dict[str, Any]]) -> datasets.Dataset:
    return datasets.Dataset.from_list([{"prompt": row["prompt"], "completion": row["completion"]} for row in rows])


def _open_base(
    cfg: DictConfig, folder: Path, rows: list[dict[str, Any]]
) -> tuple[PreTrainedModel, PreTrainedTokenizerBase]:
    """The base model, made once and kept, so that it can be evaluated and an adapter finds it."""
    if not folder.exists():
        texts = (message["content"] for row in rows for message in [*row["prompt"], *row["completion"]])
        models.save_policy(*models.make_base(cfg.model, texts, cfg.seed), folder)
    return models.load_policy(folder)


def _as_argument(checkpoint: Path | None) -> str | None:
    return None if checkpoint is None else str(checkpoint)
