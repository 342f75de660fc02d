"""What a training that goes on may change: how far it goes, how it is watched and saved, on which hardware it runs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kernelrl.stage_folder import StageFolder, read_figures

FREE = frozenset(
    f"trainer.{name}"
    for name in (
        "max_steps logging_steps logging_first_step logging_strategy save_steps save_total_limit save_strategy "
        "eval_strategy eval_steps eval_on_start per_device_eval_batch_size metric_for_best_model greater_is_better "
        "gradient_checkpointing dataloader_num_workers dataloader_pin_memory dataloader_prefetch_factor ddp_timeout "
        "disable_tqdm log_completions num_completions_to_print run_name report_to "
        "vllm_mode vllm_server_base_url vllm_server_timeout vllm_gpu_memory_utilization vllm_tensor_parallel_size "
        "vllm_enable_sleep_mode vllm_max_model_length ds3_gather_for_generation"
    ).split()
)
"""Fields of the trainers' arguments that change no step's mathematics."""
BATCH, ACCUMULATION = "trainer.per_device_train_batch_size", "trainer.gradient_accumulation_steps"
GENERATION = "trainer.steps_per_generation"


def deciding(settings: Mapping[str, Any]) -> dict[str, Any]:
    """What decides a training's results, of its flattened settings.

    The batch counts as a whole, not how it is cut into micro-batches: a machine with less memory cuts it finer.
    """
    kept = {key: value for key, value in settings.items() if key not in FREE and not key.startswith(_KWARGS)}
    if BATCH in kept:
        rows = kept.pop(BATCH)
        steps = kept.pop(ACCUMULATION, None) or 1
        kept["batch"] = rows * steps
        kept["generated at a time"] = rows * (kept.pop(GENERATION, None) or steps)
    return kept


_KWARGS = "trainer.gradient_checkpointing_kwargs"


def is_finished(stage: StageFolder, max_steps: int) -> bool:
    """Whether a training stage has done all the steps that it is asked for now.

    Args:
        max_steps: not positive: it is asked for epochs, and has done them.
    """
    return stage.done and read_figures(stage.path).get("steps", max_steps) >= max_steps
