"""Norms over rows, groups, channels and batches, and what is fused with them."""

import torch
import torch.nn.functional as F
from torch import nn


# %% layer_norm, level 1
N, D = 512, 1536
SHAPE_RANGES = {"N": (1, 520)}


class Model(nn.Module):
    """Layer norm of each row with scale and shift."""

    def __init__(self, width):
        super().__init__()
        self.norm = nn.LayerNorm(width)

    def forward(self, x):
        return self.norm(x)


def get_inputs():
    return [torch.randn(N, D)]


def get_init_inputs():
    return [D]


# %% rms_norm, level 1
N, D = 256, 2048
SHAPE_RANGES = {"N": (1, 520)}


class Model(nn.Module):
    """Root mean square norm of each row."""

    def __init__(self, width):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x):
        return self.weight * x * torch.rsqrt(x.pow(2).mean(dim=-1, keepdim=True) + 1e-6)


def get_inputs():
    return [torch.randn(N, D)]


def get_init_inputs():
    return [D]


# %% group_norm, level 1
B, C, P = 8, 64, 40
SHAPE_RANGES = {"B": (1, 9), "P": (2, 44)}


class Model(nn.Module):
    """Group norm of images, eight channels to a group."""

    def __init__(self, channels):
        super().__init__()
        self.norm = nn.GroupNorm(channels // 8, channels)

    def forward(self, x):
        return self.norm(x)


def get_inputs():
    return [torch.randn(B, C, P, P)]


def get_init_inputs():
    return [C]


# %% instance_norm, level 1
B, C, P = 8, 64, 40
SHAPE_RANGES = {"B": (1, 9), "P": (2, 44)}


class Model(nn.Module):
    """Each channel of each image to mean 0 and variance 1."""

    def forward(self, x):
        return F.instance_norm(x)


def get_inputs():
    return [torch.randn(B, C, P, P)]


# %% local_response_norm, level 1
B, C, P = 4, 32, 56
SHAPE_RANGES = {"B": (1, 5), "P": (1, 60)}


class Model(nn.Module):
    """Each element divided by a power of the squares of its neighbours over channels (AlexNet)."""

    def forward(self, x):
        return F.local_response_norm(x, size=5)


def get_inputs():
    return [torch.randn(B, C, P, P)]


# %% batch_statistics_norm, level 2
B, C, P = 8, 64, 40
SHAPE_RANGES = {"B": (2, 9), "P": (2, 44)}


class Model(nn.Module):
    """Batch norm by the batch's own statistics, and ReLU."""

    def __init__(self, channels):
        super().__init__()
        self.weight = nn.Parameter(torch.rand(channels) + 0.5)
        self.bias = nn.Parameter(torch.randn(channels))

    def forward(self, x):
        return torch.relu(F.batch_norm(x, None, None, self.weight, self.bias, training=True))


def get_inputs():
    return [torch.randn(B, C, P, P)]


def get_init_inputs():
    return [C]


# %% add_rms_norm, level 2
N, D = 512, 1536
SHAPE_RANGES = {"N": (1, 520)}


class Model(nn.Module):
    """The residual stream between two layers: its new value, and the norm of that."""

    def __init__(self, width):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x, residual):
        residual = residual + x
        scale = torch.rsqrt(residual.pow(2).mean(dim=-1, keepdim=True) + 1e-6)
        return residual, residual * scale * self.weight


def get_inputs():
    return [torch.randn(N, D), torch.randn(N, D)]


def get_init_inputs():
    return [D]


# %% adaptive_layer_norm, level 2
B, S, D = 8, 128, 512
SHAPE_RANGES = {"B": (1, 9), "S": (1, 140)}


class Model(nn.Module):
    """Layer norm whose scale and shift come with each example (diffusion transformers)."""

    def forward(self, x, scale, shift):
        return F.layer_norm(x, x.shape[-1:]) * (1 + scale[:, None]) + shift[:, None]


def get_inputs():
    return [torch.randn(B, S, D), torch.randn(B, D), torch.randn(B, D)]


# %% gated_rms_norm, level 2
N, D, G = 512, 1024, 128
SHAPE_RANGES = {"N": (1, 520)}


class Model(nn.Module):
    """A gate, then an RMS norm of each group of 128 (Mamba 2)."""

    def __init__(self, width):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x, gate):
        x = x * F.silu(gate)
        groups = x.unflatten(-1, (-1, G))
        groups = groups * torch.rsqrt(groups.pow(2).mean(dim=-1, keepdim=True) + 1e-5)
        return groups.flatten(-2) * self.weight


def get_inputs():
    return [torch.randn(N, D), torch.randn(N, D)]


def get_init_inputs():
    return [D]


# %% weight_norm_linear, level 3
N, D, M = 256, 256, 256
SHAPE_RANGES = {"N": (1, 260)}


class Model(nn.Module):
    """A linear layer whose weights have a learnt length, layer norm of its output, and GELU."""

    def __init__(self, width, outputs):
        super().__init__()
        self.direction = nn.Parameter(torch.randn(outputs, width))
        self.length = nn.Parameter(torch.rand(outputs) + 0.5)
        self.norm = nn.LayerNorm(outputs)

    def forward(self, x):
        weight = self.length[:, None] * F.normalize(self.direction, dim=-1)
        return F.gelu(self.norm(F.linear(x, weight)))


def get_inputs():
    return [torch.randn(N, D)]


def get_init_inputs():
    return [D, M]
