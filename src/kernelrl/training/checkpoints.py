"""What the training stages share: checkpoints that are sealed, a log of one JSON line per logging step, progress."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import torch
from accelerate.utils import is_peft_model
from transformers import (
    PrinterCallback,
    ProgressCallback,
    Trainer,
    TrainerCallback,
    TrainerControl,
    TrainerState,
    TrainingArguments,
)

from kernelrl.console import track
from kernelrl.errors import UserError
from kernelrl.policies.models import save_whole
from kernelrl.policies.settings import DEFAULT, ModelSettings
from kernelrl.records import write_atomically
from kernelrl.stage_folder import read_log, require_free_disk
from kernelrl.training import interruption, ranks
from kernelrl.training.seals import CHECKPOINTS, last_checkpoint, num_bytes, seal

WRITTEN = {
    "optimizer.pt": ("PyTorch", "ddp"),
    "global_step*": ("DeepSpeed", "zero2, zero3 or zero3_offload"),
    "pytorch_model_fsdp*": ("FSDP", "fsdp2"),
}
"""Files of a checkpoint, who writes them, and the `parallel` that asks for that."""


class StageCallback(TrainerCallback):
    """Writes the stage's `log.jsonl`, seals every checkpoint, and stops after one where the run is told to.

    Each line of the log is what the trainer logged (TRL's names) plus `step` and `seconds`, the wall time spent in
    training so far over all resumed parts. Lines that a resumed run is about to repeat are dropped.
    """

    def __init__(self, log_file: Path):
        self.log_file = log_file
        self._seconds_before = 0.0
        self._started = time.monotonic()

    def on_train_begin(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        if not state.is_world_process_zero:
            return
        kept = [entry for entry in read_log(self.log_file) if entry["step"] <= state.global_step]
        write_atomically(self.log_file, "".join(f"{json.dumps(entry)}\n" for entry in kept))
        self._seconds_before = kept[-1]["seconds"] if kept else 0.0
        self._started = time.monotonic()

    def on_log(
        self,
        args: TrainingArguments,
        state: TrainerState,
        control: TrainerControl,
        logs: dict[str, Any] | None = None,
        **kwargs: Any,
    ) -> None:
        if not state.is_world_process_zero:
            return
        numbers = {name: value for name, value in (logs or {}).items() if _is_finite_number(value)}
        seconds = self._seconds_before + time.monotonic() - self._started
        with open(self.log_file, "a") as file:
            file.write(json.dumps({"step": state.global_step, "seconds": round(seconds, 3), **numbers}) + "\n")

    def on_step_end(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any) -> None:
        if ranks.any_rank(interruption.received()):
            interruption.follow()
            control.should_save = control.should_training_stop = True

    def on_evaluate(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any) -> None:
        if args.metric_for_best_model == "eval_reward_low":  # what may turn out to be the best has to be there
            control.should_save = True

    def on_save(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any) -> None:
        ranks.wait_for_all()  # each writes a part
        if state.is_world_process_zero and args.output_dir:
            seal(Path(args.output_dir) / f"checkpoint-{state.global_step}")


def train(trainer: Trainer, stage: Path, save: Callable[[], None]) -> None:
    """Train from the last whole checkpoint of the stage, then save what came of it.

    Args:
        save: called by every rank, when all steps are done.

    Raises:
        UserError: the checkpoint was written with the model held by another library than now.
        Interrupted: the run was told to stop; it saved a checkpoint first.
    """
    checkpoint = ranks.from_main(lambda: last_checkpoint(stage / CHECKPOINTS))
    if checkpoint is not None:
        _require_library(checkpoint, trainer)
    with interruption.deferred():
        trainer.train(resume_from_checkpoint=None if checkpoint is None else str(checkpoint))
        if not interruption.received() or trainer.state.global_step >= trainer.state.max_steps:
            save()
        ranks.wait_for_all()


def _require_library(checkpoint: Path, trainer: Trainer) -> None:
    """Each library finds in a checkpoint what it wrote itself; without its optimizer it would begin anew or fail."""
    holding = "DeepSpeed" if trainer.is_deepspeed_enabled else "FSDP" if trainer.is_fsdp_enabled else "PyTorch"
    for pattern, (wrote, choice) in WRITTEN.items():
        if wrote != holding and next(checkpoint.glob(pattern), None) is not None:
            raise UserError(
                f"{checkpoint}: {wrote} wrote it, and {holding} cannot go on from it; use parallel={choice}, or "
                "another output_dir="
            )


def prepare(trainer: Trainer, folder: Path, start: Path) -> None:
    """What a trainer needs before its first step: float32 weights for its optimizer, and disk for its checkpoints.

    An adapter may have taken the type of the weights that it was put on. DeepSpeed holds a float32 copy of its own.

    Args:
        folder: of the stage.
        start: folder of the whole model that training starts from.

    Raises:
        UserError: too little disk space.
    """
    model = trainer.model
    assert isinstance(model, torch.nn.Module)
    if not trainer.is_deepspeed_enabled:
        for parameter in model.parameters():
            if parameter.requires_grad:
                parameter.data = parameter.data.float()
    plugin = trainer.accelerator.state.deepspeed_plugin if trainer.is_deepspeed_enabled else None
    kept = trainer.args.save_total_limit
    if kept and trainer.args.metric_for_best_model is not None:
        kept = max(kept, 2)  # the best and the last
    require_disk_for_training(folder, model, num_bytes(start), kept, plugin and plugin.zero_stage)


def save_final(trainer: Trainer, start: Path, folder: Path, settings: ModelSettings = DEFAULT) -> None:
    """Write the policy and its tokenizer so that they are found whole or not at all; see `models.save_whole`.

    To be called by every rank: each may hold a share of the weights.

    Args:
        start: the whole model that training started from.
        settings: how a policy is loaded.
    """
    trained = folder.with_name(f"{folder.name}.trained")
    trainer.save_model(str(trained))
    ranks.wait_for_all()
    if trainer.is_world_process_zero():
        (trained / "training_args.bin").unlink()  # it names this run's folders: equal policies would differ
        save_whole(trained, start, folder, settings)


@contextmanager
def show_progress(trainer: Trainer, stage: str, figures: Sequence[str]) -> Iterator[None]:
    """Show steps, time left and the named figures of the trainer's log, in place of its own bar and printed logs."""
    trainer.remove_callback(ProgressCallback)
    trainer.remove_callback(PrinterCallback)
    with ExitStack() as stack:
        trainer.add_callback(_Progress(stack, stage, figures))
        yield


class _Progress(TrainerCallback):
    def __init__(self, stack: ExitStack, stage: str, figures: Sequence[str]):
        self._stack, self._stage, self._figures = stack, stage, figures
        self._note = ""

    def on_train_begin(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        if state.is_world_process_zero:
            self._tracker = self._stack.enter_context(track(state.max_steps, self._stage, done=state.global_step))

    def on_log(
        self,
        args: TrainingArguments,
        state: TrainerState,
        control: TrainerControl,
        logs: dict[str, Any] | None = None,
        **kwargs: Any,
    ) -> None:
        if logs and all(name in logs for name in self._figures):
            self._note = ", ".join(f"{name} {logs[name]:.3g}" for name in self._figures)
            if state.is_world_process_zero:
                self._tracker.advance(0, self._note)

    def on_step_end(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any) -> None:
        if state.is_world_process_zero:
            self._tracker.advance(1, self._note)


def require_disk_for_training(
    folder: Path, model: torch.nn.Module, start: int, num_checkpoints: int | None, zero_stage: int | None = None
) -> None:
    """Check that the disk has room for what a training has still to write.

    These are the checkpoints that are kept, and one more, which is written before the oldest goes, less those that are
    there; and the final policy twice: as the trainer saves it, and as a whole model of the type of the start.

    Args:
        folder: of the stage.
        model: as it is trained, with its adapter.
        start: bytes of the whole model that training starts from.
        num_checkpoints: how many are kept; None (all of them) is counted as three.
        zero_stage: DeepSpeed's; None: it does not train.

    Raises:
        UserError: too little space.
    """
    trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
    saved = trained if is_peft_model(model) else model.parameters()
    weights = sum(_numel(parameter) * parameter.element_size() for parameter in saved)
    there = sum(map(num_bytes, (folder / CHECKPOINTS).glob("checkpoint-*")))
    needed = disk_of_training(weights, sum(map(_numel, trained)), start, num_checkpoints, zero_stage)
    require_free_disk(folder, max(needed - there, weights + start))


def disk_of_training(
    weights: int, trained: int, start: int, num_checkpoints: int | None, zero_stage: int | None = None
) -> int:
    """What a training writes at most (in bytes).

    A checkpoint is counted as the weights, of an adapter its own, and two float32 moments per trained one. DeepSpeed
    saves its float32 copy of the trained weights beside the moments, and where they are not shared out, the weights
    once more for itself.

    Args:
        weights: bytes of those that a checkpoint has.
        trained: how many are trained.
        start, num_checkpoints, zero_stage: as for `require_disk_for_training`.
    """
    moments = (2 if zero_stage is None else 3) * 4 * trained
    checkpoint = weights * (1 if zero_stage in (None, 3) else 2) + moments
    return checkpoint * ((num_checkpoints or 3) + 1) + weights + start


def _numel(parameter: torch.nn.Parameter) -> int:
    """Number of elements; under ZeRO-3 of all ranks together, where the parameter itself is empty."""
    return int(getattr(parameter, "ds_numel", parameter.numel()))


def _is_finite_number(value: object) -> bool:
    return isinstance(value, int | float) and math.isfinite(value)
