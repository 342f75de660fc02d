"""Few bits: quantising, packing, unpacking, and products of quantised matrices."""

import torch
import torch.nn.functional as F
from torch import nn


# %% quantize_rows, level 1
N, D = 512, 1024
SHAPE_RANGES = {"N": (1, 520)}


class Model(nn.Module):
    """Each row to 8-bit integers by its largest absolute value; returns them and the scales."""

    def forward(self, x):
        scale = x.abs().amax(dim=-1, keepdim=True).clamp(min=1e-5) / 127.0
        return torch.round(x / scale).clamp(-128, 127).to(torch.int8), scale


def get_inputs():
    return [torch.randn(N, D)]


# %% dequantize_channels, level 1
N, D = 1024, 1024
SHAPE_RANGES = {"N": (1, 1100)}


class Model(nn.Module):
    """8-bit codes to numbers, by scale and zero of each column."""

    def forward(self, codes, scale, zero):
        return (codes.float() - zero) * scale


def get_inputs():
    return [torch.randint(-128, 128, (N, D), dtype=torch.int8), torch.rand(D) + 0.1, torch.randn(D)]


# %% unpack_int4, level 1
N, D = 1024, 512
SHAPE_RANGES = {"N": (1, 1100)}


class Model(nn.Module):
    """Two 4-bit numbers from each byte, the low one first, minus 8."""

    def forward(self, packed):
        low, high = packed & 15, packed >> 4
        return torch.stack((low, high), dim=-1).flatten(-2).to(torch.int8) - 8


def get_inputs():
    return [torch.randint(0, 256, (N, D), dtype=torch.uint8)]


# %% fake_quantize, level 2
N, D = 512, 1024
SHAPE_RANGES = {"N": (1, 520)}


class Model(nn.Module):
    """Quantise to 8 bits with a scale for each column, and back: what quantisation-aware training computes."""

    def __init__(self, width):
        super().__init__()
        self.scale = nn.Parameter(torch.rand(width) * 0.02 + 0.01)

    def forward(self, x):
        return torch.round(x / self.scale).clamp(-128, 127) * self.scale


def get_inputs():
    return [torch.randn(N, D)]


def get_init_inputs():
    return [D]


# %% block_dequantize_nf4, level 2
N, G, S = 2048, 4, 64
SHAPE_RANGES = {"N": (1, 2100)}


class Model(nn.Module):
    """4-bit codes to numbers by a table of sixteen values, and a scale for each block of 64 (QLoRA)."""

    def __init__(self):
        super().__init__()
        self.register_buffer("table", torch.tensor([
            -1.0, -0.6962, -0.5251, -0.3949, -0.2844, -0.1848, -0.0911, 0.0,
            0.0796, 0.1609, 0.2461, 0.3379, 0.4407, 0.5626, 0.7230, 1.0,
        ]))

    def forward(self, packed, scales):
        codes = torch.stack((packed >> 4, packed & 15), dim=-1).flatten(-2).long()
        values = self.table[codes].unflatten(-1, (-1, S))
        return (values * scales[..., None]).flatten(-2)


def get_inputs():
    return [torch.randint(0, 256, (N, G * S // 2), dtype=torch.uint8), torch.rand(N, G) + 0.1]


# %% int8_product, level 2
N, K, M = 64, 256, 64
SHAPE_RANGES = {"N": (1, 70), "K": (1, 260)}


class Model(nn.Module):
    """The product of two 8-bit matrices, summed in 32 bits, with a scale for each row and column."""

    def forward(self, a, b, row_scale, column_scale):
        total = (a.int()[:, :, None] * b.int()[None]).sum(dim=1)
        return total.float() * row_scale[:, None] * column_scale


def get_inputs():
    a, b = (torch.randint(-128, 128, size, dtype=torch.int8) for size in ((N, K), (K, M)))
    return [a, b, torch.rand(N) * 0.01, torch.rand(M) * 0.01]


# %% weight_only_linear, level 2
N, D, M, G = 64, 512, 512, 64
SHAPE_RANGES = {"N": (1, 70)}


class Model(nn.Module):
    """A linear layer with 8-bit weights and a scale for each group of 64: unpack while multiplying."""

    def forward(self, x, codes, scales):
        weight = codes.to(x.dtype).unflatten(-1, (-1, G)) * scales[..., None]
        return x @ weight.flatten(-2).t()


def get_inputs():
    codes = torch.randint(-128, 128, (M, D), dtype=torch.int8)
    return [torch.randn(N, D), codes, torch.rand(M, D // G) * 0.01]


# %% ternary_linear, level 3
N, D, M = 128, 256, 256
SHAPE_RANGES = {"N": (1, 130)}


class Model(nn.Module):
    """A layer of BitNet b1.58: weights of -1, 0 and 1 with one scale, inputs after an RMS norm."""

    def forward(self, x, ternary, scale):
        x = x * torch.rsqrt(x.pow(2).mean(dim=-1, keepdim=True) + 1e-6)
        return (x @ ternary.to(x.dtype).t()) * scale


def get_inputs():
    return [torch.randn(N, D), torch.randint(-1, 2, (M, D), dtype=torch.int8), torch.rand(1) + 0.5]


# %% product_codebooks, level 3
N, G, V, D = 1024, 4, 128, 8
SHAPE_RANGES = {"N": (1, 1100)}


class Model(nn.Module):
    """Product quantisation: for each quarter of a row the nearest of 128 vectors, and the row made of them."""

    def __init__(self, groups, size, width):
        super().__init__()
        self.books = nn.Parameter(torch.randn(groups, size, width))

    def forward(self, x):
        parts = x.unflatten(-1, (self.books.shape[0], -1)).transpose(0, 1)
        distance = (self.books**2).sum(-1)[:, None] - 2 * parts @ self.books.transpose(1, 2)
        codes = distance.argmin(dim=-1)
        chosen = self.books.gather(1, codes[..., None].expand(-1, -1, self.books.shape[-1]))
        return codes.t(), chosen.transpose(0, 1).flatten(-2)


def get_inputs():
    return [torch.randn(N, G * D)]


def get_init_inputs():
    return [G, V, D]


# %% quantized_cache_attention, level 3
B, H, S, D = 4, 4, 256, 64
SHAPE_RANGES = {"B": (1, 5), "S": (1, 260)}


class Model(nn.Module):
    """One query per head against a cache of 8-bit keys and values with a scale for each position."""

    def forward(self, q, keys, values, key_scale, value_scale):
        k, v = keys.to(q.dtype) * key_scale[..., None], values.to(q.dtype) * value_scale[..., None]
        return F.scaled_dot_product_attention(q[:, :, None], k, v)[:, :, 0]


def get_inputs():
    codes = [torch.randint(-128, 128, (B, H, S, D), dtype=torch.int8) for _ in range(2)]
    return [torch.randn(B, H, D), *codes, torch.rand(B, H, S) * 0.02, torch.rand(B, H, S) * 0.02]
