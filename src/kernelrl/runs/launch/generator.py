"""The vLLM server of a job: `python -m kernelrl.runs.launch.generator CONFIG PORT` becomes it, on a node of its own.

Not run by any test: vLLM needs a GPU. What it is asked for is tested.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Mapping
from pathlib import Path

from omegaconf import OmegaConf
from transformers import AutoConfig, PretrainedConfig

from kernelrl.configs import read_node, to_dict
from kernelrl.policies.models import find_policy, is_adapter, is_hub_id
from kernelrl.policies.settings import DEFAULT, ModelSettings
from kernelrl.runs.launch.agent import run_as_task

POLL_S = 1.0
AS_TRL_NEEDS = {
    "weight-transfer-config": '{"backend": "nccl"}',
    "logprobs-mode": "processed_logprobs",
    "max-logprobs": -1,
}


def main(config: Path, port: int) -> None:
    """Become the server, once the policy that training starts from is there as a whole model."""
    cfg = OmegaConf.load(config)
    settings = read_node(ModelSettings, cfg.model, "model")
    policy = Path(cfg.grpo.policy).expanduser()
    if is_hub_id(policy):
        policy = find_policy(policy, cfg.model.get("revision") if cfg.grpo.policy == cfg.model.get("name") else None)
    if is_adapter(policy):  # the trainer merges it
        policy = Path(cfg.grpo.folder) / "start"
    while not policy.exists():
        time.sleep(POLL_S)
    gpus = max(1, cfg.launcher.gpus_per_node)
    command = serve_command(policy, port, gpus, to_dict(cfg.launcher.vllm), settings)
    os.execve(sys.executable, [sys.executable, *command], {**os.environ, "VLLM_SERVER_DEV_MODE": "1"})


def serve_command(
    policy: Path, port: int, num_gpus: int, options: Mapping[str, object], settings: ModelSettings = DEFAULT
) -> list[str]:
    """What Python is asked to run.

    Args:
        policy: folder of a whole model.
        options: further ones of `vllm serve`, by their long names; they replace those that are chosen here.
        settings: how the model is loaded.
    """
    config = AutoConfig.from_pretrained(policy, trust_remote_code=settings.trust_remote_code)
    tensor, data = split_gpus(config, num_gpus)
    chosen: dict[str, object] = {
        "port": port,
        "tensor-parallel-size": tensor,
        "data-parallel-size": data,
        "dtype": settings.dtype,
        **({"trust-remote-code": True} if settings.trust_remote_code else {}),
        **AS_TRL_NEEDS,
        **options,
    }
    words = [f"--{name}" if value is True else f"--{name}={value}" for name, value in chosen.items()]
    return ["-m", "vllm.entrypoints.cli.main", "serve", str(policy), *words]


def split_gpus(config: PretrainedConfig, num_gpus: int) -> tuple[int, int]:
    """(tensor, data) parallel sizes whose product is the number of GPUs.

    vLLM shares out attention heads, and key-value heads or copies of them, so the tensor parallel size is the largest
    divisor of the number of GPUs that divides the heads (Qwen2.5-7B has 28: four of eight GPUs); the rest are copies
    of the server.
    """
    text = config.get_text_config()
    heads = text.num_attention_heads
    key_value_heads = getattr(text, "num_key_value_heads", None) or heads
    fitting = (
        size
        for size in range(num_gpus, 0, -1)
        if num_gpus % size == heads % size == 0 and (key_value_heads % size == 0 or size % key_value_heads == 0)
    )
    tensor = next(fitting)
    return tensor, num_gpus // tensor


if __name__ == "__main__":
    run_as_task(lambda: main(Path(sys.argv[1]), int(sys.argv[2])))
