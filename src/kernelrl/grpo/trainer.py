"""TRL's `GRPOTrainer` that says where its time goes, and validates on held-out tasks."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from torch import Tensor
from trl import GRPOTrainer

from kernelrl.grpo.ahead import handing_over
from kernelrl.grpo.attempt_rewards import AttemptRewardFunction
from kernelrl.grpo.figures import BROKE
from kernelrl.grpo.group_choice import GroupChoice
from kernelrl.grpo.reward_function import SharedRewardFunction
from kernelrl.stats import ratio_interval
from kernelrl.training.rates import set_rates

REWARD_LOW = "reward_low"
"""Lower end of the 95 % interval of the mean reward on the held-out tasks: what the best checkpoint is chosen by."""


class KernelGRPOTrainer(GRPOTrainer):
    """Logs, in seconds: `generate_seconds` of a batch and `train_seconds` of a step, beside TRL's `step_time` and the
    reward's `judge_seconds`; and `tokens_per_second`, those generated on all ranks per second of generation.

    With `eval_strategy=steps` it validates every `eval_steps`: `eval_reward`, and the lower end of its interval by
    which `metric_for_best_model` chooses.
    """

    groups: GroupChoice | None = None
    """Chooses tasks and replaces silent groups; None: tasks come in the sampler's order, and every group is kept."""
    rates: Mapping[str, float] = {}
    """Learning rates of parameters by patterns of their names; all others have the trainer's."""
    rewards_N: Tensor
    """(N,) What this rank's rows of the last batch earned; NaN: left out."""
    compared_N: Tensor
    """(N,) Rows of a group with the same number are compared with each other."""
    _rewards: Tensor
    _scored_s = 0.0
    """Of generating and scoring all batches of this step so far: with `groups.resample` there are several."""
    _trained_s = 0.0
    _rules: frozenset[str] = frozenset()
    """Names of the shares of the rules that somebody has broken so far."""

    def create_optimizer(self, model: Any = None) -> torch.optim.Optimizer:
        is_new = self.optimizer is None
        optimizer: torch.optim.Optimizer = super().create_optimizer(model)
        if is_new and self.rates:
            trained: Any = self.model if model is None else model
            set_rates(optimizer, trained.named_parameters(), self.rates)
        return optimizer

    def _generate_and_score_completions(self, inputs: list[dict[str, Any]]) -> dict[str, Tensor]:
        assert self.model is not None
        if self.groups is None or not self.model.training:
            return self.generated(inputs)
        return self.groups.make(self, inputs)

    def generated(self, inputs: list[dict[str, Any]]) -> dict[str, Tensor]:
        """Completions of these rows with their advantages, as the loss takes them."""
        started = time.monotonic()
        with self._judging_ahead([str(row["task"]) for row in inputs]):
            output: dict[str, Tensor] = super()._generate_and_score_completions(inputs)
        scored_s = time.monotonic() - started
        self._scored_s += scored_s
        generated_s = max(scored_s - self.shared.seconds, 1e-6)
        num_tokens = self.accelerator.gather(output["completion_mask"].sum()).sum().item()
        assert self.model is not None
        metrics = self._metrics["train" if self.model.training else "eval"]
        metrics["generate_seconds"].append(generated_s)
        metrics["tokens_per_second"].append(num_tokens / generated_s)
        mine = slice(self.accelerator.process_index * len(inputs), (self.accelerator.process_index + 1) * len(inputs))
        totals = (self._rewards * self.reward_weights.to(self._rewards.device)).nansum(1)
        totals[self._rewards.isnan().all(1)] = torch.nan
        self.rewards_N = totals[mine]
        self.compared_N = self._compared()[mine]
        self._set_advantages(output, mine)
        return output

    def _calculate_rewards(self, *args: Any) -> Tensor:
        self._rewards = super()._calculate_rewards(*args)
        return self._rewards

    def _compared(self) -> Tensor:
        """`compared_N` of all ranks: here whole groups are."""
        return torch.zeros(len(self._rewards), dtype=torch.long, device=self._rewards.device)

    def _set_advantages(self, output: dict[str, Tensor], mine: slice) -> None:
        """Change the advantages that TRL computed.

        Args:
            mine: the rows of all ranks (`_rewards`) that are in the output.
        """

    def log_probabilities(self, batch: dict[str, Tensor]) -> Tensor:
        """(B, C) of the tokens of the completions, under the policy as it is."""
        ids = torch.cat([batch["prompt_ids"], batch["completion_ids"]], 1)
        mask = torch.cat([batch["prompt_mask"], batch["completion_mask"]], 1)
        with torch.no_grad():
            logps, _, _ = self._get_per_token_logps_and_entropies(
                self.model,
                ids,
                mask,
                batch["completion_ids"].shape[1],
                batch_size=self.args.per_device_train_batch_size,
            )
        return logps  # type: ignore[no-any-return]

    def log_figure(self, name: str, value: float) -> None:
        """Add a figure of this rank's rows of a training batch to the log."""
        self._metrics["train"][name].append(value)

    def training_step(self, model: Any, inputs: Any, num_items_in_batch: Any = None) -> Tensor:
        started = time.monotonic()
        self._scored_s = 0.0
        loss: Tensor = super().training_step(model, inputs, num_items_in_batch)  # type: ignore[no-untyped-call]
        self._trained_s += time.monotonic() - started - self._scored_s
        if self._step % self.current_gradient_accumulation_steps == 0:
            self._metrics["train"]["train_seconds"].append(self._trained_s)
            self._trained_s = 0.0
        return loss

    def log(self, logs: dict[str, float], start_time: float | None = None) -> None:
        """Log means over the batches since the last time; in a batch where nobody broke a rule, its share is 0."""
        metrics = self._metrics["train"]
        self._rules |= {name for name in metrics if name.startswith(BROKE)}
        num_batches = len(metrics.get("legal", ()))  # whose verdicts are known
        for name in self._rules if num_batches else ():
            metrics[name] += [0.0] * (num_batches - len(metrics[name]))
        super().log(logs, start_time)

    def evaluate(self, *args: Any, **kwargs: Any) -> dict[str, float]:
        with self.shared.validation() as rewards:
            metrics: dict[str, float] = super().evaluate(*args, **kwargs)
        low = {f"{kwargs.get('metric_key_prefix', 'eval')}_{REWARD_LOW}": lower_bound(rewards)}
        self.log(dict(low))
        return metrics | low

    @contextmanager
    def _judging_ahead(self, tasks: list[str]) -> Iterator[None]:
        """Completions of this rank go to the reward function as soon as they have ended, where it is here."""
        reward = self.shared.reward_function
        if reward is None or isinstance(reward, AttemptRewardFunction) or self.use_vllm:
            yield
            return
        tokenizer: Any = self.processing_class

        def ended(row: int, ids: list[int]) -> None:
            reward.begin(tasks[row], tokenizer.decode(ids, skip_special_tokens=True))

        model = self.accelerator.unwrap_model(self.model_wrapped)
        with handing_over(model, ended, self.eos_token_ids):
            yield

    @property
    def shared(self) -> SharedRewardFunction:
        """The reward function."""
        first = self.reward_funcs[0]
        assert isinstance(first, SharedRewardFunction)
        return first


def lower_bound(rewards: Sequence[tuple[str, float]]) -> float:
    """Lower end of the 95 % interval of the mean reward, where tasks and not samples are independent.

    Args:
        rewards: (task id, reward) of every completion that has a reward; none: -inf; of one task alone, which has no
            interval: the mean.
    """
    if not rewards:
        return float("-inf")
    by_task: defaultdict[str, list[float]] = defaultdict(list)
    for task, reward in rewards:
        by_task[task].append(reward)
    groups = list(by_task.values())
    if len(groups) == 1:
        return float(np.mean(groups[0]))
    return ratio_interval(np.array([sum(group) for group in groups]), np.array([len(group) for group in groups]))[0]
