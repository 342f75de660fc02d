"""Each element by itself: activations, gates, rotations."""

import math

import torch
import torch.nn.functional as F
from torch import nn


# %% squared_relu, level 1
N, D = 256, 2048
SHAPE_RANGES = {"N": (1, 600)}


class Model(nn.Module):
    """Squared ReLU (Primer)."""

    def forward(self, x):
        return torch.relu(x) ** 2


def get_inputs():
    return [torch.randn(N, D)]


# %% gelu_tanh, level 1
N, D = 256, 2048
SHAPE_RANGES = {"N": (1, 600)}


class Model(nn.Module):
    """GELU by its tanh approximation."""

    def forward(self, x):
        return F.gelu(x, approximate="tanh")


def get_inputs():
    return [torch.randn(N, D)]


# %% softplus, level 1
N = 1_000_003
SHAPE_RANGES = {"N": (1, 1_000_003)}


class Model(nn.Module):
    """log(1 + exp(2x)) / 2 of a vector whose length is no multiple of anything."""

    def forward(self, x):
        return F.softplus(x, beta=2.0)


def get_inputs():
    return [torch.randn(N)]


# %% silu_strided, level 1
N, D = 2048, 512
SHAPE_RANGES = {"N": (1, 2048)}


class Model(nn.Module):
    """SiLU of a matrix whose columns are contiguous; the output's rows are."""

    def forward(self, x):
        return F.silu(x).contiguous()


def get_inputs():
    return [torch.randn(D, N).t()]


# %% snake, level 2
B, C, T = 8, 64, 2048
SHAPE_RANGES = {"B": (1, 9), "T": (1, 2100)}


class Model(nn.Module):
    """x + sin(ax)^2 / a with a frequency for each channel (neural vocoders)."""

    def __init__(self, channels):
        super().__init__()
        self.alpha = nn.Parameter(torch.rand(channels) + 0.5)

    def forward(self, x):
        alpha = self.alpha[:, None]
        return x + torch.sin(alpha * x) ** 2 / alpha


def get_inputs():
    return [torch.randn(B, C, T)]


def get_init_inputs():
    return [C]


# %% swiglu, level 2
N, D = 512, 1376
SHAPE_RANGES = {"N": (1, 520)}


class Model(nn.Module):
    """The gate of a transformer's MLP: SiLU of the first half of a row times its second half."""

    def forward(self, x):
        gate, up = x.chunk(2, dim=-1)
        return F.silu(gate) * up


def get_inputs():
    return [torch.randn(N, 2 * D)]


# %% bias_gelu_residual, level 2
N, D = 512, 1024
SHAPE_RANGES = {"N": (1, 520)}


class Model(nn.Module):
    """What follows a projection: bias, GELU, scale per channel, residual."""

    def __init__(self, width):
        super().__init__()
        self.bias = nn.Parameter(torch.randn(width))
        self.scale = nn.Parameter(torch.randn(width))

    def forward(self, x, residual):
        return residual + self.scale * F.gelu(x + self.bias)


def get_inputs():
    return [torch.randn(N, D), torch.randn(N, D)]


def get_init_inputs():
    return [D]


# %% rotary_embedding, level 2
B, H, S, D = 2, 8, 512, 64
SHAPE_RANGES = {"B": (1, 3), "S": (1, 600)}


class Model(nn.Module):
    """Rotate the two halves of each query and key by an angle that grows with its position (RoPE)."""

    def forward(self, q, k):
        positions = torch.arange(q.shape[-2], dtype=q.dtype)
        half = q.shape[-1] // 2
        frequencies = torch.exp(torch.arange(half, dtype=q.dtype) * (-math.log(10000.0) / half))
        angles = positions[:, None] * frequencies
        cos, sin = angles.cos(), angles.sin()

        def rotate(x):
            a, b = x.chunk(2, dim=-1)
            return torch.cat((a * cos - b * sin, a * sin + b * cos), dim=-1)

        return rotate(q), rotate(k)


def get_inputs():
    return [torch.randn(B, H, S, D), torch.randn(B, H, S, D)]


# %% diffusion_step, level 3
B, C, P = 4, 3, 256
SHAPE_RANGES = {"B": (1, 5), "P": (1, 260)}


class Model(nn.Module):
    """One DDIM step with classifier-free guidance: predicted noise, image, clipping, step."""

    def forward(self, x, conditional, unconditional, alpha, next_alpha):
        noise = unconditional + 7.5 * (conditional - unconditional)
        a, b = alpha.view(-1, 1, 1, 1), next_alpha.view(-1, 1, 1, 1)
        image = ((x - (1 - a).sqrt() * noise) / a.sqrt()).clamp(-1, 1)
        noise = (x - a.sqrt() * image) / (1 - a).sqrt()
        return b.sqrt() * image + (1 - b).sqrt() * noise


def get_inputs():
    images = [torch.randn(B, C, P, P) for _ in range(3)]
    return [*images, torch.rand(B) * 0.4 + 0.2, torch.rand(B) * 0.3 + 0.6]
