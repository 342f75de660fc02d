"""Many numbers to few: sums, extremes, norms, moments."""

import torch
import torch.nn.functional as F
from torch import nn


# %% sum_rows, level 1
N, D = 512, 1023
SHAPE_RANGES = {"N": (1, 1100), "D": (1, 1100)}


class Model(nn.Module):
    """The sum of each row."""

    def forward(self, x):
        return x.sum(dim=-1)


def get_inputs():
    return [torch.randn(N, D)]


# %% mean_columns, level 1
N, D = 2048, 512
SHAPE_RANGES = {"N": (1, 2100)}


class Model(nn.Module):
    """The mean of each column."""

    def forward(self, x):
        return x.mean(dim=0)


def get_inputs():
    return [torch.randn(N, D)]


# %% max_with_index, level 1
N, D = 1024, 1000
SHAPE_RANGES = {"N": (1, 1100)}


class Model(nn.Module):
    """The largest value of each row and where it stands."""

    def forward(self, x):
        values, indices = x.max(dim=-1)
        return values, indices


def get_inputs():
    return [torch.randn(N, D)]


# %% logsumexp_middle, level 1
B, S, D = 16, 128, 512
SHAPE_RANGES = {"B": (1, 18), "S": (1, 140)}


class Model(nn.Module):
    """log sum exp over the middle axis."""

    def forward(self, x):
        return torch.logsumexp(x, dim=1)


def get_inputs():
    return [torch.randn(B, S, D)]


# %% moments_of_channels, level 2
B, C, P = 8, 64, 40
SHAPE_RANGES = {"B": (2, 9), "P": (2, 44)}


class Model(nn.Module):
    """Mean and variance of each channel over batch and image, in one pass over memory if you can."""

    def forward(self, x):
        variance, mean = torch.var_mean(x, dim=(0, 2, 3), correction=0)
        return mean, variance


def get_inputs():
    return [torch.randn(B, C, P, P)]


# %% cosine_similarity, level 2
N, D = 1024, 512
SHAPE_RANGES = {"N": (1, 1100)}


class Model(nn.Module):
    """The cosine of the angle between the rows of two matrices."""

    def forward(self, x, y):
        return F.cosine_similarity(x, y, dim=-1)


def get_inputs():
    return [torch.randn(N, D), torch.randn(N, D)]


# %% masked_mean, level 2
B, S, D = 16, 128, 384
SHAPE_RANGES = {"B": (1, 18), "S": (1, 140)}


class Model(nn.Module):
    """A sentence's embedding: the mean over its valid tokens, of unit length."""

    def forward(self, x, mask):
        weights = mask.to(x.dtype)[..., None]
        mean = (x * weights).sum(dim=1) / weights.sum(dim=1).clamp(min=1.0)
        return F.normalize(mean, dim=-1)


def get_inputs():
    return [torch.randn(B, S, D), torch.rand(B, S) < 0.7]


# %% top_k, level 2
N, D, K = 512, 1024, 8
SHAPE_RANGES = {"N": (1, 520)}


class Model(nn.Module):
    """The eight largest values of each row, in order, and where they stand."""

    def forward(self, x):
        values, indices = torch.topk(x, K, dim=-1)
        return values, indices


def get_inputs():
    return [torch.randn(N, D)]


# %% nearest_neighbour, level 3
N, M, D = 512, 256, 32
SHAPE_RANGES = {"N": (1, 520), "M": (1, 260)}


class Model(nn.Module):
    """For each point the squared distance to the nearest of M others; the N x M distances need never be in memory."""

    def forward(self, x, y):
        squared = (x * x).sum(-1)[:, None] - 2 * (x @ y.t()) + (y * y).sum(-1)
        return squared.min(dim=-1).values


def get_inputs():
    return [torch.randn(N, D), torch.randn(M, D)]
