"""SFT: the base model learns the verified triples (TRL's `SFTTrainer`, loss on the completion only).

The stage folder holds `base/` (what training started from), `checkpoints/`, `final/` (the policy) and `log.jsonl`.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import datasets
from omegaconf import DictConfig
from transformers import PreTrainedTokenizerBase
from trl import SFTConfig, SFTTrainer

from kernelrl.configs import read_node, to_dict
from kernelrl.data.tables import SFT_HELDOUT, SFT_TRAIN, read_table
from kernelrl.policies import models
from kernelrl.policies.prompts import marks_of, without_marks
from kernelrl.policies.settings import ModelSettings
from kernelrl.records import digest
from kernelrl.sft.template import fit_template
from kernelrl.stage_folder import LOG, is_main_rank, open_stage, read_log
from kernelrl.training import ranks, tracking
from kernelrl.training.checkpoints import StageCallback, disk_of_training, prepare, save_final, show_progress, train
from kernelrl.training.extending import deciding, is_finished
from kernelrl.training.finite import FiniteCallback
from kernelrl.training.lengths import keep_short_conversations
from kernelrl.training.seals import CHECKPOINTS, FINAL


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
    model_settings = read_node(ModelSettings, cfg.model, "model")
    models.check_quantization(model_settings, models.make_adapter(cfg.sft.peft), "sft")
    kind = {name: value for name, value in to_dict(cfg.model).items() if name not in ModelSettings.model_fields}
    settings = {
        "seed": cfg.seed,
        "model": kind | (model_settings.deciding or {}),
        "data": digest(data_file),
        "heldout": None if heldout_file is None else digest(heldout_file),
        "trainer": cfg.sft.trainer,
        "peft": cfg.sft.peft,
    }
    with open_stage("sft", cfg.sft.folder, settings, deciding=deciding) as stage:
        if not is_finished(stage, cfg.sft.trainer.max_steps):
            base = stage.path / "base"
            _make_base(cfg, base, rows)
            trainer = make_trainer(cfg, base, stage.path, rows, heldout)

            def save() -> None:
                save_final(trainer, base, stage.path / FINAL, model_settings)
                seconds = read_log(stage.path / LOG)[-1]["seconds"]
                num_examples = len(cast(datasets.Dataset, trainer.train_dataset))
                stage.finish({"steps": trainer.state.global_step, "examples": num_examples, "seconds": seconds})

            with show_progress(trainer, "sft", ["loss"]):
                train(trainer, stage.path, save)
        return stage.path


def make_trainer(
    cfg: DictConfig, policy: Path, folder: Path, rows: list[dict[str, Any]], heldout: list[dict[str, Any]] | None = None
) -> SFTTrainer:
    """The trainer that `cfg.sft` asks for.

    Args:
        policy: folder of the model to train.
        folder: gets the trainer's files.
        heldout: rows that the trainer evaluates on; None: it does not evaluate.
    """
    arguments = SFTConfig(
        **tracking.start(cfg, "sft") | ranks.trainer_fields("sft", cfg.sft.trainer, cfg.parallel),
        output_dir=str(folder / CHECKPOINTS),
        seed=cfg.seed,
    )
    adapter = models.make_adapter(cfg.sft.peft)
    # after the arguments: they say how the ranks share it
    settings = read_node(ModelSettings, cfg.model, "model")
    model, tokenizer = models.load_policy(policy, models.training_dtype(adapter), settings, adapter)
    rows = _as_asked(rows, tokenizer)
    heldout = None if heldout is None else _as_asked(heldout, tokenizer)
    if arguments.chat_template_path is None:
        ends = models.end_ids(model, tokenizer)
        if arguments.eos_token is not None:
            ends |= set(tokenizer.encode(arguments.eos_token, add_special_tokens=False))
        rows = fit_template(rows, tokenizer, settings, ends)
        heldout = None if heldout is None else fit_template(heldout, tokenizer, settings, ends)
    rows = keep_short_conversations(rows, tokenizer, settings, arguments.max_length)
    if heldout is not None:
        heldout = keep_short_conversations(heldout, tokenizer, settings, arguments.max_length, "held-out rows")
    finite = FiniteCallback(folder)
    trainer = SFTTrainer(
        model=model,
        args=arguments,
        train_dataset=_conversations(rows, settings),
        eval_dataset=None if heldout is None else _conversations(heldout, settings),
        processing_class=tokenizer,
        peft_config=adapter,
        callbacks=[StageCallback(folder / LOG), finite],
    )
    finite.watch(trainer)
    prepare(trainer, folder, policy)
    return trainer


def _as_asked(rows: list[dict[str, Any]], tokenizer: PreTrainedTokenizerBase) -> list[dict[str, Any]]:
    """The rows with their prompts as the policy will meet them."""
    marks = marks_of(tokenizer)
    return [row | {"prompt": without_marks(row["prompt"], marks)} for row in rows]


def _conversations(rows: list[dict[str, Any]], settings: ModelSettings) -> datasets.Dataset:
    template = {"chat_template_kwargs": settings.chat_template_kwargs} if settings.chat_template_kwargs else {}
    columns = [{"prompt": row["prompt"], "completion": row["completion"], **template} for row in rows]
    return datasets.Dataset.from_list(columns)


def _make_base(cfg: DictConfig, folder: Path, rows: list[dict[str, Any]]) -> None:
    """The base model, made once and kept, so that it can be evaluated and an adapter finds it."""
    if is_main_rank() and not folder.exists():
        texts = (message["content"] for row in rows for message in [*row["prompt"], *row["completion"]])
        model, tokenizer = models.make_base(cfg.model, texts, cfg.seed)
        size = models.num_bytes(model)
        number = 0 if cfg.sft.peft else model.num_parameters()  # how large an adapter is, is seen when it is made
        training = disk_of_training(4 * number, number, size, cfg.sft.trainer.get("save_total_limit"))
        models.save_policy(model, tokenizer, folder, training)
    ranks.await_path(folder)
