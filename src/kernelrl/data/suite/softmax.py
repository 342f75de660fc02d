"""Softmax along rows, columns and blocks, with masks, temperatures and gates."""

import torch
import torch.nn.functional as F
from torch import nn


# %% softmax_rows, level 1
N, D = 256, 2048
SHAPE_RANGES = {"N": (1, 520)}


class Model(nn.Module):
    """Softmax of each row."""

    def forward(self, x):
        return torch.softmax(x, dim=-1)


def get_inputs():
    return [torch.randn(N, D)]


# %% softmax_middle, level 1
B, S, D = 8, 64, 1024
SHAPE_RANGES = {"B": (1, 9), "S": (1, 70)}


class Model(nn.Module):
    """Softmax along the middle axis: neighbours in memory belong to different sums."""

    def forward(self, x):
        return torch.softmax(x, dim=1)


def get_inputs():
    return [torch.randn(B, S, D)]


# %% log_softmax_vocabulary, level 1
N, D = 32, 32003
SHAPE_RANGES = {"N": (1, 36)}


class Model(nn.Module):
    """Log-probabilities over a vocabulary: few long rows."""

    def forward(self, x):
        return torch.log_softmax(x, dim=-1)


def get_inputs():
    return [torch.randn(N, D)]


# %% softmax_short_rows, level 1
N, D = 65536, 10
SHAPE_RANGES = {"N": (1, 66000)}


class Model(nn.Module):
    """Softmax of very many very short rows."""

    def forward(self, x):
        return torch.softmax(x, dim=-1)


def get_inputs():
    return [torch.randn(N, D)]


# %% masked_softmax, level 2
B, H, S = 4, 4, 256
SHAPE_RANGES = {"B": (1, 5), "S": (1, 260)}


class Model(nn.Module):
    """Attention weights: scaled scores, masked keys, softmax."""

    def forward(self, scores, mask):
        scores = (scores * 0.125).masked_fill(mask[:, None, None, :], float("-inf"))
        return torch.softmax(scores, dim=-1)


def get_inputs():
    mask = torch.rand(B, S) < 0.3
    mask[:, 0] = False
    return [torch.randn(B, H, S, S), mask]


# %% causal_softmax, level 2
B, S = 16, 256
SHAPE_RANGES = {"B": (1, 17), "S": (1, 260)}


class Model(nn.Module):
    """Softmax of the lower triangle; half of the scores need not be read."""

    def forward(self, scores):
        size = scores.shape[-1]
        future = torch.ones(size, size, dtype=torch.bool).triu(1)
        return torch.softmax(scores.masked_fill(future, float("-inf")), dim=-1)


def get_inputs():
    return [torch.randn(B, S, S)]


# %% router_gates, level 2
N, E, K = 4096, 64, 2
SHAPE_RANGES = {"N": (1, 4100)}


class Model(nn.Module):
    """A mixture of experts' gates: the two best experts of each token, softmax over these two."""

    def forward(self, logits):
        values, experts = torch.topk(logits, K, dim=-1)
        return torch.softmax(values, dim=-1), experts


def get_inputs():
    return [torch.randn(N, E)]


# %% entropy, level 2
N, D = 256, 4000
SHAPE_RANGES = {"N": (1, 260)}


class Model(nn.Module):
    """The entropy of each row's softmax, whose probabilities need never be in memory."""

    def forward(self, logits):
        logs = torch.log_softmax(logits, dim=-1)
        return -(logs.exp() * logs).sum(dim=-1)


def get_inputs():
    return [torch.randn(N, D)]


# %% sparsemax, level 3
N, D = 512, 256
SHAPE_RANGES = {"N": (1, 520)}


class Model(nn.Module):
    """Sparsemax (Martins and Astudillo 2016): the projection of each row onto the simplex."""

    def forward(self, x):
        ordered = torch.sort(x, dim=-1, descending=True).values
        ranks = torch.arange(1, x.shape[-1] + 1, dtype=x.dtype)
        thresholds = (ordered.cumsum(dim=-1) - 1) / ranks
        threshold = torch.where(ordered > thresholds, thresholds, float("-inf")).max(dim=-1, keepdim=True).values
        return torch.relu(x - threshold)


def get_inputs():
    return [torch.randn(N, D)]
