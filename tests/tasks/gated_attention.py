import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, q, k, v, f):
        B, T, D = q.shape
        S = torch.zeros(B, D, D)
        g = torch.sigmoid(f)
        out = []
        for t in range(T):
            S = g[:, t].unsqueeze(-1) * S + k[:, t].unsqueeze(-1) * v[:, t].unsqueeze(1)
            out.append((q[:, t].unsqueeze(1) @ S).squeeze(1))
        return torch.stack(out, 1)


def get_inputs():
    return [torch.randn(2, 64, 16), torch.randn(2, 64, 16), torch.randn(2, 64, 16), torch.randn(2, 64, 16)]


def get_init_inputs():
    return []
