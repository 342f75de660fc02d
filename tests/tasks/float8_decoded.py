import torch
from torch import nn


class Model(nn.Module):
    """Numbers of eight bits, four of them the exponent's (e4m3)."""

    def forward(self, x):
        bits = x.to(torch.int32)
        sign = 1.0 - 2.0 * (bits >> 7).float()
        exponent = (bits >> 3) & 15
        mantissa = (bits & 7).float() / 8
        normal = torch.ldexp(1.0 + mantissa, exponent - 7)
        return sign * torch.where(exponent == 0, mantissa * 2.0**-6, normal)


def get_inputs():
    return [torch.randint(0, 127, (96, 80), dtype=torch.uint8)]


def get_init_inputs():
    return []
