"""Whole blocks of well-known networks."""

import torch
import torch.nn.functional as F
from torch import nn


# %% mlp, level 2
N, D, H = 256, 128, 256
SHAPE_RANGES = {"N": (1, 260)}


class Model(nn.Module):
    """Three linear layers with ReLU between them."""

    def __init__(self, width, hidden):
        super().__init__()
        self.layers = nn.Sequential(
            nn.Linear(width, hidden), nn.ReLU(), nn.Linear(hidden, hidden), nn.ReLU(), nn.Linear(hidden, width)
        )

    def forward(self, x):
        return self.layers(x)


def get_inputs():
    return [torch.randn(N, D)]


def get_init_inputs():
    return [D, H]


# %% gated_mlp, level 2
N, D, H = 256, 128, 344
SHAPE_RANGES = {"N": (1, 260)}


class Model(nn.Module):
    """RMS norm, the gated MLP of Llama, and the residual."""

    def __init__(self, width, hidden):
        super().__init__()
        self.norm = nn.Parameter(torch.ones(width))
        self.gate = nn.Linear(width, hidden, bias=False)
        self.up = nn.Linear(width, hidden, bias=False)
        self.down = nn.Linear(hidden, width, bias=False)

    def forward(self, x):
        y = x * torch.rsqrt(x.pow(2).mean(dim=-1, keepdim=True) + 1e-6) * self.norm
        return x + self.down(F.silu(self.gate(y)) * self.up(y))


def get_inputs():
    return [torch.randn(N, D)]


def get_init_inputs():
    return [D, H]


# %% encoder_layer, level 3
B, S, D, H = 2, 64, 96, 4
SHAPE_RANGES = {"B": (1, 3), "S": (1, 70)}


class Model(nn.Module):
    """A transformer's encoder layer, norms first, GELU."""

    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.norms = nn.ModuleList([nn.LayerNorm(width), nn.LayerNorm(width)])
        self.inward, self.outward = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        y = self.inward(self.norms[0](x)).chunk(3, dim=-1)
        q, k, v = (part.unflatten(-1, (self.heads, -1)).transpose(1, 2) for part in y)
        x = x + self.outward(F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2))
        return x + self.down(F.gelu(self.up(self.norms[1](x))))


def get_inputs():
    return [torch.randn(B, S, D)]


def get_init_inputs():
    return [D, H]


# %% basic_residual, level 3
B, C, P = 2, 32, 28
SHAPE_RANGES = {"B": (1, 3), "P": (3, 32)}


class Model(nn.Module):
    """A basic block of ResNet in evaluation: two convolutions with batch norms, and the residual."""

    def __init__(self, channels):
        super().__init__()
        self.first = nn.Conv2d(channels, channels, 3, padding=1, bias=False)
        self.second = nn.Conv2d(channels, channels, 3, padding=1, bias=False)
        self.norms = nn.ModuleList([nn.BatchNorm2d(channels).eval(), nn.BatchNorm2d(channels).eval()])

    def forward(self, x):
        y = torch.relu(self.norms[0](self.first(x)))
        return torch.relu(x + self.norms[1](self.second(y)))


def get_inputs():
    return [torch.randn(B, C, P, P)]


def get_init_inputs():
    return [C]


# %% inverted_residual, level 3
B, C, P = 2, 24, 28
SHAPE_RANGES = {"B": (1, 3), "P": (3, 32)}


class Model(nn.Module):
    """An inverted residual of MobileNet 2: widen, filter each channel, narrow."""

    def __init__(self, channels):
        super().__init__()
        wide = 6 * channels
        self.widen = nn.Conv2d(channels, wide, 1)
        self.filter = nn.Conv2d(wide, wide, 3, padding=1, groups=wide)
        self.narrow = nn.Conv2d(wide, channels, 1)

    def forward(self, x):
        return x + self.narrow(F.relu6(self.filter(F.relu6(self.widen(x)))))


def get_inputs():
    return [torch.randn(B, C, P, P)]


def get_init_inputs():
    return [C]


# %% convnext, level 3
B, C, P = 2, 48, 28
SHAPE_RANGES = {"B": (1, 3), "P": (7, 32)}


class Model(nn.Module):
    """A block of ConvNeXt: 7 x 7 of each channel, layer norm over channels, a wide MLP, a learnt scale."""

    def __init__(self, channels):
        super().__init__()
        self.conv = nn.Conv2d(channels, channels, 7, padding=3, groups=channels)
        self.norm = nn.LayerNorm(channels)
        self.up, self.down = nn.Linear(channels, 4 * channels), nn.Linear(4 * channels, channels)
        self.scale = nn.Parameter(torch.rand(channels))

    def forward(self, x):
        y = self.norm(self.conv(x).permute(0, 2, 3, 1))
        y = self.scale * self.down(F.gelu(self.up(y)))
        return x + y.permute(0, 3, 1, 2)


def get_inputs():
    return [torch.randn(B, C, P, P)]


def get_init_inputs():
    return [C]


# %% mixer, level 3
B, S, D = 4, 64, 96
SHAPE_RANGES = {"B": (1, 5)}


class Model(nn.Module):
    """A layer of MLP-Mixer: an MLP over places, an MLP over channels."""

    def __init__(self, places, width):
        super().__init__()
        self.norms = nn.ModuleList([nn.LayerNorm(width), nn.LayerNorm(width)])
        self.tokens = nn.Sequential(nn.Linear(places, 2 * places), nn.GELU(), nn.Linear(2 * places, places))
        self.channels = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x):
        x = x + self.tokens(self.norms[0](x).transpose(1, 2)).transpose(1, 2)
        return x + self.channels(self.norms[1](x))


def get_inputs():
    return [torch.randn(B, S, D)]


def get_init_inputs():
    return [S, D]


# %% diffusion_transformer, level 3
B, S, D, H = 2, 64, 64, 4
SHAPE_RANGES = {"B": (1, 3), "S": (1, 70)}


class Model(nn.Module):
    """A block of a diffusion transformer: norms, gates and shifts come from the condition (adaLN-Zero)."""

    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.condition = nn.Linear(width, 6 * width)
        self.inward, self.outward = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x, c):
        parts = self.condition(F.silu(c))[:, None].chunk(6, dim=-1)
        y = F.layer_norm(x, x.shape[-1:]) * (1 + parts[1]) + parts[0]
        q, k, v = (p.unflatten(-1, (self.heads, -1)).transpose(1, 2) for p in self.inward(y).chunk(3, dim=-1))
        x = x + parts[2] * self.outward(F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2))
        y = F.layer_norm(x, x.shape[-1:]) * (1 + parts[4]) + parts[3]
        return x + parts[5] * self.down(F.gelu(self.up(y), approximate="tanh"))


def get_inputs():
    return [torch.randn(B, S, D), torch.randn(B, D)]


def get_init_inputs():
    return [D, H]


# %% graph_attention, level 3
N, D, H = 128, 64, 4
SHAPE_RANGES = {"N": (1, 130)}


class Model(nn.Module):
    """A layer of a graph attention network on a dense matrix of edges."""

    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.linear = nn.Linear(width, width, bias=False)
        self.source = nn.Parameter(torch.randn(heads, width // heads) * 0.3)
        self.target = nn.Parameter(torch.randn(heads, width // heads) * 0.3)

    def forward(self, x, edges):
        h = self.linear(x).unflatten(-1, (self.heads, -1))
        scores = F.leaky_relu((h * self.target).sum(-1)[:, None] + (h * self.source).sum(-1)[None], 0.2)
        weights = torch.softmax(scores.masked_fill(~edges[..., None], -1e9), dim=1)
        return F.elu(torch.einsum("nmh,mhd->nhd", weights, h).flatten(1))


def get_inputs():
    edges = (torch.rand(N, N) < 0.1) | torch.eye(N, dtype=torch.bool)
    return [torch.randn(N, D), edges]


def get_init_inputs():
    return [D, H]


# %% small_classifier, level 3
B, P = 16, 28
SHAPE_RANGES = {"B": (1, 17)}


class Model(nn.Module):
    """LeNet: two convolutions with pooling, three linear layers."""

    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Conv2d(1, 6, 5, padding=2), nn.Conv2d(6, 16, 5)
        self.linear = nn.ModuleList([nn.Linear(400, 120), nn.Linear(120, 84), nn.Linear(84, 10)])

    def forward(self, x):
        x = F.max_pool2d(torch.relu(self.first(x)), 2)
        x = F.max_pool2d(torch.relu(self.second(x)), 2).flatten(1)
        x = torch.relu(self.linear[1](torch.relu(self.linear[0](x))))
        return self.linear[2](x)


def get_inputs():
    return [torch.randn(B, 1, P, P)]
