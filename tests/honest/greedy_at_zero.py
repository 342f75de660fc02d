# honest: softmax by exponentials, with the branch of a temperature of zero
# task: greedy_at_zero
# dialect: python
import torch
from torch import nn


class ModelNew(nn.Module):
    def forward(self, x, temperature):
        if temperature == 0.0:
            return torch.nn.functional.one_hot(x.argmax(-1), x.shape[-1]).float()
        e = ((x - x.amax(-1, keepdim=True)) * (1 / temperature)).exp()
        return e / e.sum(-1, keepdim=True)
