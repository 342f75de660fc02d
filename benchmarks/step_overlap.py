"""How much of the reward's time is hidden behind generation, where a candidate takes a second to judge.

A step of GRPO's generation and judging with a real policy and TRL's trainer; the executor is a stand-in that takes
`--judge-s` for each candidate on `--workers` workers and uses no core, as one on another node would. The policy's
completions end at lengths drawn evenly up to `--tokens`.

    python benchmarks/step_overlap.py
"""

from __future__ import annotations

import argparse
import random
import tempfile
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import datasets
import torch
from transformers import LogitsProcessor
from trl import GRPOConfig

from kernelrl.configs import compose_config
from kernelrl.executor.api import Executor, NodeHealth, Request
from kernelrl.grpo.reward_function import RewardFunction, SharedRewardFunction
from kernelrl.grpo.trainer import KernelGRPOTrainer
from kernelrl.policies import models
from kernelrl.records import Ledger
from kernelrl.rewards import make_reward
from kernelrl.task import Task
from kernelrl.verdict import Verdict

SOURCE = "import torch\n\nclass Model(torch.nn.Module):\n    def forward(self, x):\n        return x\n"
KERNEL = "```python\nclass ModelNew: number = {number}\n```\n"


class Slow(Executor):
    """Takes its time for every candidate, on some workers."""

    def __init__(self, seconds: float, workers: int):
        self.seconds, self.threads = seconds, ThreadPoolExecutor(workers)

    def stream(self, requests: Sequence[Request]) -> Iterator[tuple[int, Verdict]]:
        futures = {self.threads.submit(self._judge, request): index for index, request in enumerate(requests)}
        for future in as_completed(futures):
            yield futures[future], future.result()

    def _judge(self, request: Request) -> Verdict:
        time.sleep(self.seconds)
        return Verdict(
            task_id=request.task.id, candidate="c", status="correct", stage="correct", dialect="cpp", device="cpu"
        )

    def health(self) -> list[NodeHealth]:
        return []

    def close(self) -> None:
        self.threads.shutdown()


class Script(LogitsProcessor):
    """Makes each row write a kernel of its own, pause, and end at a length of its own."""

    def __init__(self, texts: list[list[int]], pause: int, pauses: list[int], end: int):
        self.texts = [text + [pause] * count + [end] for text, count in zip(texts, pauses, strict=True)]
        self.start: int | None = None

    def __call__(self, input_ids: torch.LongTensor, scores: torch.FloatTensor) -> torch.FloatTensor:
        if self.start is None or input_ids.shape[1] < self.start:
            self.start = input_ids.shape[1]
        at = input_ids.shape[1] - self.start
        scores[:] = -torch.inf
        for row, text in enumerate(self.texts):
            scores[row, text[min(at, len(text) - 1)]] = 0.0
        return scores


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--judge-s", type=float, default=1.0)
    parser.add_argument("--workers", type=int, default=4)
    parser.add_argument("--batch", type=int, default=24)
    parser.add_argument("--tokens", type=int, default=300)
    options = parser.parse_args()
    torch.set_num_threads(1)  # a model this small is slower on several
    waited = {ahead: step(options, ahead) for ahead in (False, True)}
    for ahead, (generating, judging) in waited.items():
        print(
            f"{'judged ahead' if ahead else 'judged after'}: generation {generating:.1f} s, then {judging:.1f} s more"
        )
    print(f"hidden: {1 - waited[True][1] / waited[False][1]:.0%} of the reward's time")


def step(options: argparse.Namespace, ahead: bool) -> tuple[float, float]:
    """Seconds of generation, and of waiting for verdicts after it."""
    with tempfile.TemporaryDirectory() as folder:
        cfg = compose_config("grpo", [f"output_dir={folder}"])
        texts = [KERNEL.format(number=number) for number in range(options.batch)]
        model, tokenizer = models.make_base(cfg.model, texts, seed=0)
        task = Task(id="t", source=SOURCE).model_dump_json()
        executor = Slow(options.judge_s, options.workers)
        reward = RewardFunction(executor, make_reward(cfg.reward), Ledger(Path(folder) / "records"), "cpp", "p", {})
        if not ahead:
            reward.begin = lambda task, text: None  # type: ignore[method-assign]
        rows = [{"prompt": [{"role": "user", "content": "?"}], "task": task, "task_id": "t"}] * options.batch
        trainer = KernelGRPOTrainer(
            model=model,
            reward_funcs=SharedRewardFunction(reward),
            args=GRPOConfig(
                output_dir=folder,
                per_device_train_batch_size=options.batch,
                num_generations=options.batch,
                max_completion_length=options.tokens + 100,
                max_steps=1,
                report_to=[],
                use_cpu=True,
                bf16=False,
                gradient_checkpointing=False,
            ),
            train_dataset=datasets.Dataset.from_list(rows),
            processing_class=tokenizer,
        )
        with written(type(model), tokenizer, texts, options.tokens):
            trainer.train()
        figures: dict[str, Any] = next(entry for entry in trainer.state.log_history if "generate_seconds" in entry)
        executor.close()
        return figures["generate_seconds"], figures["judge_seconds"]


@contextmanager
def written(model: type[Any], tokenizer: Any, texts: list[str], num_tokens: int) -> Iterator[None]:
    """Policies of that class write these texts meanwhile; generation takes the time that it takes."""
    dice = random.Random(0)
    pauses = [dice.randrange(num_tokens) for _ in texts]
    ids = [tokenizer(text, add_special_tokens=False)["input_ids"] for text in texts]
    pause = tokenizer("\n", add_special_tokens=False)["input_ids"][0]
    generate = model.generate

    def scripted(self: Any, *args: Any, **kwargs: Any) -> Any:
        return generate(self, *args, logits_processor=[Script(ids, pause, pauses, tokenizer.eos_token_id)], **kwargs)

    model.generate = scripted
    try:
        yield
    finally:
        model.generate = generate


if __name__ == "__main__":
    main()
