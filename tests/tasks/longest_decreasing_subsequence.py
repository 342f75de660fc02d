import torch
import torch.nn.functional as F
from torch import nn


class Model(nn.Module):
    def forward(self, x):
        n = x.shape[1]
        best = [torch.ones(x.shape[0], dtype=torch.int64)]
        for j in range(1, n):
            prev = torch.stack(best, 1)
            ok = x[:, :j] > x[:, j:j + 1]
            best.append(1 + torch.where(ok, prev, 0).amax(1))
        return torch.stack(best, 1).amax(1)


def get_inputs():
    return [torch.randn(16, 48)]


def get_init_inputs():
    return []
