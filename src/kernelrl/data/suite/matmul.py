"""Matrix products: square, tall, batched, triangular, low-rank, and what is fused with them."""

import torch
import torch.nn.functional as F
from torch import nn


# %% square, level 1
N = 256
SHAPE_RANGES = {"N": (1, 260)}


class Model(nn.Module):
    """The product of two square matrices."""

    def forward(self, a, b):
        return a @ b


def get_inputs():
    return [torch.randn(N, N), torch.randn(N, N)]


# %% tall_skinny, level 1
N, K, M = 8192, 48, 32
SHAPE_RANGES = {"N": (1, 8200)}


class Model(nn.Module):
    """A very tall matrix times a small one."""

    def forward(self, a, b):
        return a @ b


def get_inputs():
    return [torch.randn(N, K), torch.randn(K, M)]


# %% long_inner, level 1
N, K, M = 32, 16384, 32
SHAPE_RANGES = {"K": (1, 16400)}


class Model(nn.Module):
    """A small output with a very long inner dimension: split it, or most cores idle."""

    def forward(self, a, b):
        return a @ b


def get_inputs():
    return [torch.randn(N, K), torch.randn(K, M)]


# %% transposed, level 1
N, K, M = 200, 256, 300
SHAPE_RANGES = {"N": (1, 210), "K": (1, 260), "M": (1, 310)}


class Model(nn.Module):
    """Both factors lie transposed in memory."""

    def forward(self, a, b):
        return a.t() @ b.t()


def get_inputs():
    return [torch.randn(K, N), torch.randn(M, K)]


# %% batched, level 1
B, N, K, M = 32, 64, 64, 64
SHAPE_RANGES = {"B": (1, 33), "N": (1, 70)}


class Model(nn.Module):
    """Many small products."""

    def forward(self, a, b):
        return torch.bmm(a, b)


def get_inputs():
    return [torch.randn(B, N, K), torch.randn(B, K, M)]


# %% matrix_vector, level 1
N, K = 1024, 1024
SHAPE_RANGES = {"N": (1, 1100), "K": (1, 1100)}


class Model(nn.Module):
    """A matrix times a vector: every weight is used once."""

    def forward(self, a, x):
        return a @ x


def get_inputs():
    return [torch.randn(N, K), torch.randn(K)]


# %% triangular, level 1
N = 256
SHAPE_RANGES = {"N": (1, 260)}


class Model(nn.Module):
    """The product of two lower triangular matrices, five sixths of which is zeros."""

    def forward(self, a, b):
        return torch.tril(a) @ torch.tril(b)


def get_inputs():
    return [torch.randn(N, N), torch.randn(N, N)]


# %% linear_gelu, level 2
N, D, M = 256, 256, 512
SHAPE_RANGES = {"N": (1, 260)}


class Model(nn.Module):
    """A linear layer and GELU."""

    def __init__(self, width, outputs):
        super().__init__()
        self.linear = nn.Linear(width, outputs)

    def forward(self, x):
        return F.gelu(self.linear(x))


def get_inputs():
    return [torch.randn(N, D)]


def get_init_inputs():
    return [D, M]


# %% low_rank_adapter, level 2
N, D, M, R = 256, 256, 256, 8
SHAPE_RANGES = {"N": (1, 260)}


class Model(nn.Module):
    """A linear layer with an adapter of rank 8 (LoRA)."""

    def __init__(self, width, outputs, rank):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(outputs, width) * width**-0.5)
        self.down = nn.Parameter(torch.randn(rank, width) * width**-0.5)
        self.up = nn.Parameter(torch.randn(outputs, rank))

    def forward(self, x):
        return x @ self.weight.t() + 2.0 * (x @ self.down.t()) @ self.up.t()


def get_inputs():
    return [torch.randn(N, D)]


def get_init_inputs():
    return [D, M, R]


# %% gram, level 2
N, D = 1024, 128
SHAPE_RANGES = {"N": (1, 1100)}


class Model(nn.Module):
    """The regularised Gram matrix of centred columns; it is symmetric."""

    def forward(self, x):
        x = x - x.mean(dim=0)
        return x.t() @ x / x.shape[0] + 0.1 * torch.eye(x.shape[1])


def get_inputs():
    return [torch.randn(N, D)]


# %% linear_max_scale, level 2
N, D, M = 256, 256, 512
SHAPE_RANGES = {"N": (1, 260)}


class Model(nn.Module):
    """A linear layer, the larger of each pair of outputs, and their sum: the output is a vector."""

    def __init__(self, width, outputs):
        super().__init__()
        self.linear = nn.Linear(width, outputs)

    def forward(self, x):
        return 0.5 * self.linear(x).unflatten(-1, (-1, 2)).amax(dim=-1).sum(dim=-1)


def get_inputs():
    return [torch.randn(N, D)]


def get_init_inputs():
    return [D, M]


# %% mixture_of_experts, level 3
N, D, H, E = 128, 64, 128, 8
SHAPE_RANGES = {"N": (1, 130)}


class Model(nn.Module):
    """Each token through the two experts of eight that its router likes best."""

    def __init__(self, width, hidden, experts):
        super().__init__()
        self.router = nn.Linear(width, experts, bias=False)
        self.up = nn.Parameter(torch.randn(experts, width, hidden) * width**-0.5)
        self.down = nn.Parameter(torch.randn(experts, hidden, width) * hidden**-0.5)

    def forward(self, x):
        values, chosen = torch.topk(self.router(x), 2, dim=-1)
        gates = torch.zeros(x.shape[0], self.up.shape[0], dtype=x.dtype)
        gates = gates.scatter(1, chosen, torch.softmax(values, dim=-1))
        hidden = F.silu(torch.einsum("nd,edh->enh", x, self.up))
        return torch.einsum("enh,ehd,ne->nd", hidden, self.down, gates)


def get_inputs():
    return [torch.randn(N, D)]


def get_init_inputs():
    return [D, H, E]
