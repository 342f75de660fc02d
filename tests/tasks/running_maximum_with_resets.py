import torch
from torch import nn


class Model(nn.Module):
    """The largest value since the last reset; nothing yet is -1e9."""

    def forward(self, x, resets):
        largest = torch.full((x.shape[0],), -1e9)
        out = []
        for t in range(x.shape[1]):
            largest = torch.where(resets[:, t], torch.full_like(largest, -1e9), largest)
            largest = torch.maximum(largest, x[:, t])
            out.append(largest)
        return torch.stack(out, 1)


def get_inputs():
    return [torch.randn(32, 32), torch.rand(32, 32) < 0.1]


def get_init_inputs():
    return []
