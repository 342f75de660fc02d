# honest: cross entropy by logsumexp and gather
# task: cross_entropy
# dialect: python
import torch
import torch.nn as nn


def row_losses(logits: "torch.Tensor", target: "torch.Tensor") -> "torch.Tensor":
    picked = logits.gather(1, target.unsqueeze(1)).squeeze(1)
    return torch.logsumexp(logits, dim=1) - picked


class ModelNew(nn.Module):
    def forward(self, logits, target):
        losses = row_losses(logits, target)
        return losses.mean() if losses.numel() > 0 else losses.sum()
