"""Attention: dense, causal, windowed, grouped, linear, with a cache, and whole layers of it."""

import math

import torch
import torch.nn.functional as F
from torch import nn


# %% scaled_dot_product, level 1
B, H, S, D = 2, 4, 128, 64
SHAPE_RANGES = {"B": (1, 3), "S": (1, 140)}


class Model(nn.Module):
    """softmax(Q K^T / sqrt(D)) V; the scores need never be in memory."""

    def forward(self, q, k, v):
        return F.scaled_dot_product_attention(q, k, v)


def get_inputs():
    return [torch.randn(B, H, S, D) for _ in range(3)]


# %% causal, level 1
B, H, S, D = 2, 4, 160, 64
SHAPE_RANGES = {"B": (1, 3), "S": (1, 170)}


class Model(nn.Module):
    """Each position looks at itself and what came before."""

    def forward(self, q, k, v):
        return F.scaled_dot_product_attention(q, k, v, is_causal=True)


def get_inputs():
    return [torch.randn(B, H, S, D) for _ in range(3)]


# %% cross_with_padding, level 2
B, H, S, T, D = 2, 4, 100, 150, 64
SHAPE_RANGES = {"B": (1, 3), "S": (1, 110), "T": (1, 160)}


class Model(nn.Module):
    """Attention to another sequence, some of whose places are empty; returns the weights' entropy too."""

    def forward(self, q, k, v, valid):
        scores = q @ k.transpose(-1, -2) / math.sqrt(q.shape[-1])
        weights = torch.softmax(scores.masked_fill(~valid[:, None, None], -1e9), dim=-1)
        return weights @ v, -(weights * torch.log(weights + 1e-9)).sum(dim=-1)


def get_inputs():
    valid = torch.rand(B, T) < 0.8
    valid[:, 0] = True
    return [torch.randn(B, H, S, D), torch.randn(B, H, T, D), torch.randn(B, H, T, D), valid]


# %% grouped_query, level 2
B, H, G, S, D = 2, 8, 2, 128, 64
SHAPE_RANGES = {"B": (1, 3), "S": (1, 140)}


class Model(nn.Module):
    """Causal attention in which four query heads share a head of keys and values."""

    def forward(self, q, k, v):
        groups = q.shape[1] // k.shape[1]
        k, v = k.repeat_interleave(groups, dim=1), v.repeat_interleave(groups, dim=1)
        return F.scaled_dot_product_attention(q, k, v, is_causal=True)


def get_inputs():
    return [torch.randn(B, H, S, D), torch.randn(B, G, S, D), torch.randn(B, G, S, D)]


# %% sliding_window, level 2
B, H, S, D, W = 2, 4, 192, 64, 32
SHAPE_RANGES = {"B": (1, 3), "S": (1, 200)}


class Model(nn.Module):
    """Causal attention to the last 32 positions: work that grows with S, not with its square."""

    def forward(self, q, k, v):
        positions = torch.arange(q.shape[-2])
        distance = positions[:, None] - positions
        visible = (distance >= 0) & (distance < W)
        return F.scaled_dot_product_attention(q, k, v, attn_mask=visible)


def get_inputs():
    return [torch.randn(B, H, S, D) for _ in range(3)]


# %% linear_biases, level 2
B, H, S, D = 2, 8, 128, 32
SHAPE_RANGES = {"B": (1, 3), "S": (1, 140)}


class Model(nn.Module):
    """Causal attention with a penalty that grows with distance, at a rate for each head (ALiBi)."""

    def forward(self, q, k, v):
        heads, size = q.shape[1], q.shape[2]
        slopes = torch.exp2(-8.0 * torch.arange(1, heads + 1, dtype=q.dtype) / heads)
        positions = torch.arange(size, dtype=q.dtype)
        distance = positions[:, None] - positions
        bias = -slopes[:, None, None] * distance
        bias = bias.masked_fill(distance < 0, float("-inf"))
        return torch.softmax(q @ k.transpose(-1, -2) / math.sqrt(q.shape[-1]) + bias, dim=-1) @ v


def get_inputs():
    return [torch.randn(B, H, S, D) for _ in range(3)]


# %% softcapped, level 2
B, H, S, D = 2, 4, 128, 64
SHAPE_RANGES = {"B": (1, 3), "S": (1, 140)}


class Model(nn.Module):
    """Attention whose scores are bent to stay within 30 (Gemma 2)."""

    def forward(self, q, k, v):
        scores = q @ k.transpose(-1, -2) / math.sqrt(q.shape[-1])
        return torch.softmax(30.0 * torch.tanh(scores / 30.0), dim=-1) @ v


def get_inputs():
    return [torch.randn(B, H, S, D) for _ in range(3)]


# %% linear_attention, level 2
B, H, S, D = 2, 4, 512, 32
SHAPE_RANGES = {"B": (1, 3), "S": (1, 520)}


class Model(nn.Module):
    """Attention without softmax, by positive features of queries and keys (Katharopoulos et al. 2020)."""

    def forward(self, q, k, v):
        q, k = F.elu(q) + 1, F.elu(k) + 1
        normaliser = (q * k.sum(dim=-2, keepdim=True)).sum(dim=-1, keepdim=True)
        return q @ (k.transpose(-1, -2) @ v) / normaliser


def get_inputs():
    return [torch.randn(B, H, S, D) for _ in range(3)]


# %% decode_with_cache, level 2
B, H, S, D = 8, 8, 512, 64
SHAPE_RANGES = {"B": (1, 9), "S": (1, 520)}


class Model(nn.Module):
    """One new query per sequence against a cache that is filled to a different length for each."""

    def forward(self, q, keys, values, lengths):
        scores = (keys @ q[..., None])[..., 0] / math.sqrt(q.shape[-1])
        empty = torch.arange(keys.shape[2]) >= lengths[:, None]
        weights = torch.softmax(scores.masked_fill(empty[:, None], float("-inf")), dim=-1)
        return (weights[..., None, :] @ values)[..., 0, :]


def get_inputs():
    lengths = torch.randint(1, S + 1, (B,))
    return [torch.randn(B, H, D), torch.randn(B, H, S, D), torch.randn(B, H, S, D), lengths]


# %% self_attention_layer, level 3
B, S, D, H = 2, 96, 128, 4
SHAPE_RANGES = {"B": (1, 3), "S": (1, 100)}


class Model(nn.Module):
    """A causal attention layer: one projection to queries, keys and values, heads, and the projection back."""

    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.inward = nn.Linear(width, 3 * width)
        self.outward = nn.Linear(width, width)

    def forward(self, x):
        q, k, v = (part.unflatten(-1, (self.heads, -1)).transpose(1, 2) for part in self.inward(x).chunk(3, dim=-1))
        return self.outward(F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).flatten(2))


def get_inputs():
    return [torch.randn(B, S, D)]


def get_init_inputs():
    return [D, H]


# %% latent_attention, level 3
B, S, D, H, R = 2, 96, 128, 4, 32
SHAPE_RANGES = {"B": (1, 3), "S": (1, 100)}


class Model(nn.Module):
    """Keys and values of all heads from one small latent vector per position (DeepSeek's MLA, without positions)."""

    def __init__(self, width, heads, rank):
        super().__init__()
        self.heads = heads
        self.query = nn.Linear(width, width, bias=False)
        self.down = nn.Linear(width, rank, bias=False)
        self.up = nn.Linear(rank, 2 * width, bias=False)
        self.out = nn.Linear(width, width, bias=False)

    def forward(self, x):
        k, v = self.up(self.down(x)).chunk(2, dim=-1)
        q, k, v = (part.unflatten(-1, (self.heads, -1)).transpose(1, 2) for part in (self.query(x), k, v))
        return self.out(F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).flatten(2))


def get_inputs():
    return [torch.randn(B, S, D)]


def get_init_inputs():
    return [D, H, R]
