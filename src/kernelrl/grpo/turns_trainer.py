"""The trainer that compares returns as `grpo.turns.baseline` says."""

from __future__ import annotations

import torch
from torch import Tensor

from kernelrl.grpo.returns import Baseline, advantages
from kernelrl.grpo.trainer import KernelGRPOTrainer


class TurnsGRPOTrainer(KernelGRPOTrainer):
    """TRL's trainer with the advantages of `returns.py`; the baseline `group` is TRL's own."""

    baseline: Baseline = "group"

    def _compared(self) -> Tensor:
        if self.baseline != "turn_leave_one_out":
            return super()._compared()
        return torch.tensor(self.shared.turns, device=self._rewards.device)

    def _set_advantages(self, output: dict[str, Tensor], mine: slice) -> None:
        assert self.num_generations is not None and self.model is not None
        if self.baseline != "group" and self.model.training:
            returns = self._rewards[:, 0]
            turns = torch.tensor(self.shared.turns, device=returns.device)
            scaled = advantages(returns, turns, self.num_generations, self.baseline, self.scale_rewards)
            output["advantages"] = scaled[mine]
