import torch
from torch import nn


class Model(nn.Module):
    def forward(self, logits, labels, smoothing):
        logs = torch.log_softmax(logits, dim=1)
        losses = -logs.gather(1, labels[:, None])[:, 0]
        return ((1.0 - smoothing) * losses - smoothing * logs.mean(dim=1)).mean()


def get_inputs():
    return [torch.randn(64, 500), torch.randint(0, 500, (64,)), 0.0]


def get_init_inputs():
    return []
