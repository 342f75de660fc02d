"""Planned against measured memory: what `kernelrl plan` says of three small models, and the peak that torch measures.

Each model is trained for two steps by the stage's own trainer, in a process of its own; torch's profiler adds up what
its CPU allocator hands out and gets back. On a GPU, `torch.cuda.max_memory_allocated` says the same.

    python benchmarks/training_memory.py
"""

from __future__ import annotations

import argparse
import json
import random
import string
import subprocess
import sys
import tempfile
from pathlib import Path

from kernelrl.commands.plan_memory import plan
from kernelrl.configs import compose_config
from kernelrl.training import memory

SMALL = ["tracker=none", "sft.trainer.max_steps=2", "sft.trainer.max_length=512", "sft.trainer.save_steps=10"]
MODELS = {
    "all weights": ["model.architecture.hidden_size=256", "sft.trainer.per_device_train_batch_size=8"],
    "all weights, wide": [
        "model.architecture.hidden_size=768",
        "model.architecture.intermediate_size=2304",
        "sft.trainer.per_device_train_batch_size=2",
    ],
    "LoRA, checkpointing": [
        "model.architecture.hidden_size=512",
        "model.architecture.num_hidden_layers=8",
        "sft.trainer.per_device_train_batch_size=4",
        "sft.trainer.gradient_checkpointing=true",
        "+sft.peft.r=16",
        "+sft.peft.target_modules=all-linear",
    ],
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--measure", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.measure:
        print(json.dumps(measure(options.measure)))
        return
    print(f"{'':22} planned MB  measured MB  ratio")
    for name in MODELS:
        found = compare(name)
        print(f"{name:22} {found['planned'] / 1e6:10.1f} {found['measured'] / 1e6:12.1f} {found['ratio']:6.2f}")


def compare(name: str) -> dict[str, float]:
    """Planned and measured peak of one model (in bytes), and their ratio; measured in a process of its own."""
    command = [sys.executable, __file__, "--measure", name]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    measured = json.loads(done.stdout.splitlines()[-1])
    cfg = compose_config("sft", [*SMALL, *MODELS[name], f"sft.trainer.max_length={measured['tokens']}"])
    cfg.model.bpe_tokens, cfg.model.line_tokens = measured["vocabulary"], 0
    planned = plan(cfg, memory.read_config(cfg.model), "sft", 1, None).peak
    return {"planned": planned, "measured": measured["peak"], "ratio": planned / measured["peak"]}


def measure(name: str) -> dict[str, int]:
    """The peak of a training (in bytes), the length of its rows and the size of its vocabulary."""
    import torch
    from torch.profiler import ProfilerActivity, profile

    from kernelrl import sft
    from kernelrl.policies import models

    dice = random.Random(0)
    text = "".join(dice.choices(string.ascii_letters, k=400))
    with tempfile.TemporaryDirectory() as folder:
        cfg = compose_config("sft", [*SMALL, *MODELS[name], f"output_dir={folder}"])
        base = Path(folder) / "base"
        models.save_policy(*models.make_base(cfg.model, [text], seed=0), base)
        row = {"prompt": [{"role": "user", "content": "?"}], "completion": [{"role": "assistant", "content": text}]}
        trainer = sft.make_trainer(cfg, base, Path(folder), [row] * 16)
        tokenizer, held = (
            trainer.processing_class,
            sum(it.numel() * it.element_size() for it in trainer.model.parameters()),
        )
        tokens = len(tokenizer.apply_chat_template(row["prompt"] + row["completion"])["input_ids"])
        with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as profiler:
            trainer.train()
        now = most = 0
        for event in profiler.profiler.kineto_results.events():
            if event.name() == "[memory]":
                now += event.nbytes()
                most = max(most, now)
        peak = torch.cuda.max_memory_allocated() if torch.cuda.is_available() else held + most
        return {"peak": peak, "tokens": tokens, "vocabulary": len(tokenizer)}


if __name__ == "__main__":
    main()
