"""GRPO in which the plan's tokens and the code's have rewards of their own.

Source: TritonRL (arXiv 2510.17891): `J = alpha J_plan + J_code`, where the tokens before the kernel are the plan.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from transformers import PreTrainedTokenizerBase

from kernelrl.candidate import Completion
from kernelrl.grpo.reward_function import SharedRewardFunction
from kernelrl.grpo.trainer import KernelGRPOTrainer
from kernelrl.policies.prompts import Reasoning


class PlanReward:
    """The second reward function: what the plans earn of the completions that the first has just scored."""

    __name__ = "plan"

    def __init__(self, first: SharedRewardFunction):
        self.first = first

    def __call__(self, prompts: list[Any], **columns: Any) -> list[float | None]:
        return self.first.plans


class HierarchicalGRPOTrainer(KernelGRPOTrainer):
    """The trainer with an advantage for each token: its first reward function pays the code, its second the plan.

    The second of `reward_weights` is alpha; it multiplies the plan's advantages. With `scale_rewards=group`, as in the
    paper, it alone decides how much the plan counts; otherwise the size of the two rewards does too.
    """

    def _set_advantages(self, output: dict[str, Tensor], mine: slice) -> None:
        size = self.num_generations
        assert size is not None
        code, plan = (group_advantages(column, size, self.scale_rewards)[mine] for column in self._rewards.T)
        plan = plan * self.reward_weights[1].item()
        lengths = output["completion_mask"].sum(1).tolist()
        assert isinstance(self.processing_class, PreTrainedTokenizerBase)
        (code_reward, _) = self.reward_funcs
        assert isinstance(code_reward, SharedRewardFunction)
        is_plan = plan_mask(self.processing_class, output["completion_ids"], lengths, code_reward.reasoning)
        output["advantages"] = torch.where(is_plan, plan[:, None], code[:, None])


def group_advantages(rewards: Tensor, num_generations: int, scale: str) -> Tensor:
    """Advantages of N rewards in groups of `num_generations`, as in `GRPOTrainer`; 0 where the reward is NaN.

    Args:
        rewards: (N,) NaN: left out.
        scale: `group`, `batch` or `none`: by which standard deviation they are divided.
    """
    grouped = rewards.view(-1, num_generations)
    centred = (grouped - grouped.nanmean(1, keepdim=True)).flatten()
    spread = {"group": grouped, "batch": rewards[None], "none": None}[scale]
    if spread is not None:
        counts = (~spread.isnan()).sum(1, keepdim=True)
        squares = (spread - spread.nanmean(1, keepdim=True)).square().nansum(1, keepdim=True)
        deviation = (squares / (counts - 1).clamp(min=1)).sqrt()
        centred = centred / (deviation.expand_as(grouped if scale == "group" else spread).flatten() + 1e-4)
    return centred.nan_to_num(0.0)


def plan_mask(
    tokenizer: PreTrainedTokenizerBase, completion_ids: Tensor, lengths: Sequence[int], reasoning: Reasoning
) -> Tensor:
    """(N, T) True for the tokens that begin before the kernel's block; for all of them where there is no kernel.

    Args:
        completion_ids: (N, T) tokens, padded behind.
        lengths: N numbers of tokens without padding.
        reasoning: how the policy marks it.
    """
    mask = torch.zeros_like(completion_ids, dtype=torch.bool)
    for row, (ids, length) in enumerate(zip(completion_ids.tolist(), lengths, strict=True)):
        text = str(tokenizer.decode(ids[:length], skip_special_tokens=True))
        restored = reasoning.restore(text)
        code_length = len(restored) - Completion.parse(restored).plan_end  # what is restored stands before the code
        mask[row, : _num_tokens(tokenizer, ids[:length], len(text) - code_length)] = True
    return mask


def _num_tokens(tokenizer: PreTrainedTokenizerBase, ids: list[int], num_chars: int) -> int:
    """The smallest number of tokens whose text is at least so long (by bisection: decoding is not token by token)."""
    low, high = 0, len(ids)
    while low < high:
        middle = (low + high) // 2
        if len(tokenizer.decode(ids[:middle], skip_special_tokens=True)) < num_chars:
            low = middle + 1
        else:
            high = middle
    return low
