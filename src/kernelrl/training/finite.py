"""A training whose loss or gradient is no number stops at once, and leaves the batch to be looked at."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import torch
from transformers import Trainer, TrainerCallback, TrainerControl, TrainerState, TrainingArguments

from kernelrl.errors import InfrastructureError
from kernelrl.records import write_json
from kernelrl.training import ranks

FOLDER = "not_finite"


class FiniteCallback(TrainerCallback):
    """Looks at every micro-batch's loss and every step's gradient, on each rank at its own.

    A bad step that went on would be saved over the last good checkpoint. DeepSpeed keeps gradients to itself: there the
    loss alone is looked at, which the step after a bad gradient shows. With float16 too: there gradients overflow now
    and then, the step is left out, and the loss is scaled down.

    Args:
        folder: of the stage; gets `not_finite/stepN-rankR.pt` (what the trainer computed the loss of, by
            `torch.load`) and `.json` (step, loss, and the sequences as text).
    """

    def __init__(self, folder: Path):
        self.folder = folder / FOLDER
        self._inputs: Any = {}

    def watch(self, trainer: Trainer) -> None:
        """Look at the losses of a trainer, which has this callback."""
        compute_loss: Any = trainer.compute_loss

        def computed(model: Any, inputs: Any, *args: Any, **kwargs: Any) -> Any:
            result = compute_loss(model, inputs, *args, **kwargs)
            loss = result[0] if isinstance(result, tuple) else result
            if model.training:
                self._inputs = inputs
                if not torch.isfinite(loss).all():
                    self._stop("loss", loss.detach().float().mean().item(), trainer.state.global_step, trainer)
            return result

        trainer.compute_loss = computed  # type: ignore[method-assign]
        self._trainer = trainer

    def on_pre_optimizer_step(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        if args.fp16:
            return
        gradients = [_local(it.grad) for it in kwargs["model"].parameters() if it.grad is not None]
        if gradients:
            norm = torch.stack([it.float() for it in torch._foreach_norm(gradients)]).sum().item()
            if not math.isfinite(norm):
                self._stop("gradient", norm, state.global_step, self._trainer)

    def _stop(self, what: str, value: float, step: int, trainer: Trainer) -> None:
        name = f"step{step}-rank{ranks.rank()}"
        self.folder.mkdir(parents=True, exist_ok=True)
        inputs = {key: it.detach().cpu() if torch.is_tensor(it) else it for key, it in dict(self._inputs).items()}
        torch.save(inputs, self.folder / f"{name}.pt")
        texts = {
            key: trainer.processing_class.batch_decode(ids)  # type: ignore[union-attr]
            for key, ids in inputs.items()
            if key.endswith("_ids") and torch.is_tensor(ids) and ids.dim() == 2 and "position" not in key
        }
        write_json(self.folder / f"{name}.json", {"what": what, "value": str(value), "step": step, "texts": texts})
        raise InfrastructureError(
            f"the {what} of step {step} is {value}; the batch is in {self.folder / name}.pt (and .json), the "
            "checkpoints are from before it. A lower learning_rate or max_grad_norm needs an output_dir of its own"
        )


def _local(gradient: torch.Tensor) -> torch.Tensor:
    """This rank's share of a gradient that FSDP shares out."""
    share: Any = getattr(gradient, "to_local", None)
    return gradient if share is None else share()
