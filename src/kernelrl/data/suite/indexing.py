"""Reading and writing by index: embeddings, gathers, scatters, graphs, paged caches."""

import torch
import torch.nn.functional as F
from torch import nn


# %% embedding, level 1
N, V, D = 2048, 5000, 128
SHAPE_RANGES = {"N": (1, 2100)}


class Model(nn.Module):
    """Rows of a table by number."""

    def __init__(self, rows, width):
        super().__init__()
        self.table = nn.Embedding(rows, width)

    def forward(self, tokens):
        return self.table(tokens)


def get_inputs():
    return [torch.randint(0, V, (N,))]


def get_init_inputs():
    return [V, D]


# %% gather_columns, level 1
N, D, K = 1024, 1024, 256
SHAPE_RANGES = {"N": (1, 1100)}


class Model(nn.Module):
    """From each row the elements at its own indices."""

    def forward(self, x, indices):
        return x.gather(1, indices)


def get_inputs():
    return [torch.randn(N, D), torch.randint(0, D, (N, K))]


# %% scatter_add, level 1
N, M, D = 4096, 256, 64
SHAPE_RANGES = {"N": (1, 4100)}


class Model(nn.Module):
    """Add rows into a table by number; several go to the same place."""

    def forward(self, table, rows, indices):
        return table.index_add(0, indices, rows)


def get_inputs():
    return [torch.randn(M, D), torch.randn(N, D), torch.randint(0, M, (N,))]


# %% bin_count, level 1
N, M = 200_000, 100
SHAPE_RANGES = {"N": (1, 200_000)}


class Model(nn.Module):
    """How often each of a hundred values occurs."""

    def forward(self, x):
        return torch.bincount(x, minlength=M)


def get_inputs():
    return [torch.randint(0, M, (N,))]


# %% window_partition, level 1
B, P, C, W = 4, 56, 64, 7
SHAPE_RANGES = {"B": (1, 5)}


class Model(nn.Module):
    """Shift an image by three pixels and cut it into windows of 7 x 7 (Swin)."""

    def forward(self, x):
        x = torch.roll(x, (-3, -3), dims=(1, 2))
        return x.unflatten(2, (-1, W)).unflatten(1, (-1, W)).transpose(2, 3).flatten(3, 4).flatten(0, 2).contiguous()


def get_inputs():
    return [torch.randn(B, P, P, C)]


# %% embedding_bag, level 2
B, K, V, D = 256, 20, 5000, 64
SHAPE_RANGES = {"B": (1, 260), "K": (1, 24)}


class Model(nn.Module):
    """Weighted sums of rows of a table (recommenders)."""

    def __init__(self, rows, width):
        super().__init__()
        self.table = nn.Parameter(torch.randn(rows, width))

    def forward(self, indices, weights):
        return (self.table[indices] * weights[..., None]).sum(dim=1)


def get_inputs():
    return [torch.randint(0, V, (B, K)), torch.rand(B, K)]


def get_init_inputs():
    return [V, D]


# %% token_embeddings, level 2
B, S, V, D = 8, 128, 5000, 128
SHAPE_RANGES = {"B": (1, 9), "S": (1, 128)}


class Model(nn.Module):
    """What a transformer begins with: token and position embeddings, and their layer norm (BERT)."""

    def __init__(self, vocabulary, positions, width):
        super().__init__()
        self.tokens = nn.Embedding(vocabulary, width)
        self.positions = nn.Embedding(positions, width)
        self.norm = nn.LayerNorm(width)

    def forward(self, tokens):
        return self.norm(self.tokens(tokens) + self.positions.weight[: tokens.shape[1]])


def get_inputs():
    return [torch.randint(0, V, (B, S))]


def get_init_inputs():
    return [V, 128, D]


# %% segment_mean, level 2
N, M, D = 4096, 200, 64
SHAPE_RANGES = {"N": (1, 4100)}


class Model(nn.Module):
    """The mean of the rows that belong to each segment; 0 for a segment without rows."""

    def forward(self, x, segments):
        sums = torch.zeros(M, x.shape[1], dtype=x.dtype).index_add(0, segments, x)
        counts = torch.bincount(segments, minlength=M).clamp(min=1)
        return sums / counts[:, None]


def get_inputs():
    return [torch.randn(N, D), torch.randint(0, M, (N,))]


# %% paged_cache, level 2
B, S, P, D = 8, 16, 32, 128
SHAPE_RANGES = {"B": (1, 9)}


class Model(nn.Module):
    """Collect each sequence's pages from a pool (paged attention), empty places as zeros."""

    def forward(self, pool, pages, lengths):
        cache = pool[pages].flatten(1, 2)
        filled = torch.arange(cache.shape[1]) < lengths[:, None]
        return cache * filled[..., None]


def get_inputs():
    return [torch.randn(2 * B * S, P, D), torch.randint(0, 2 * B * S, (B, S)), torch.randint(1, S * P + 1, (B,))]


# %% sparse_matrix_product, level 3
N, M, E, D = 1000, 1000, 16000, 32
SHAPE_RANGES = {"E": (1, 16000)}


class Model(nn.Module):
    """A sparse matrix, as rows, columns and values of its elements, times a dense one."""

    def forward(self, rows, columns, values, x):
        return torch.zeros(N, x.shape[1], dtype=x.dtype).index_add(0, rows, values[:, None] * x[columns])


def get_inputs():
    return [torch.randint(0, N, (E,)), torch.randint(0, M, (E,)), torch.randn(E), torch.randn(M, D)]


# %% graph_convolution, level 3
N, E, D = 1000, 8000, 64
SHAPE_RANGES = {"E": (1, 8000)}


class Model(nn.Module):
    """Messages along edges, weighted by the degrees of both ends, a linear layer and ReLU (GCN)."""

    def __init__(self, width):
        super().__init__()
        self.linear = nn.Linear(width, width)

    def forward(self, x, sources, targets):
        degree = torch.bincount(targets, minlength=x.shape[0]).to(x.dtype) + 1
        scale = degree.rsqrt()
        messages = x[sources] * (scale[sources] * scale[targets])[:, None]
        total = (x / degree[:, None]).index_add(0, targets, messages)
        return F.relu(self.linear(total))


def get_inputs():
    return [torch.randn(N, D), torch.randint(0, N, (E,)), torch.randint(0, N, (E,))]


def get_init_inputs():
    return [D]
