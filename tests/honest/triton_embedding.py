# honest: indices loaded first, then rows by pointers that depend on them
# task: embedding
# dialect: triton
import torch
import triton
import triton.language as tl
from torch import nn


@triton.jit
def embed(table_ptr, index_ptr, out_ptr, n, features, scale, ROWS: tl.constexpr, FEATURES: tl.constexpr):
    i = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    f = tl.arange(0, FEATURES)[None, :]
    word = tl.load(index_ptr + i, mask=i < n, other=0)
    mask = (i[:, None] < n) & (f < features)
    rows = tl.load(table_ptr + word[:, None] * features + f, mask=mask)
    tl.store(out_ptr + i[:, None] * features + f, rows * scale, mask=mask)


class ModelNew(nn.Module):
    def __init__(self, words, features, scale):
        super().__init__()
        self.table = nn.Embedding(words, features)
        self.scale = scale

    def forward(self, index):
        n, features = index.numel(), self.table.embedding_dim
        out = self.table.weight.new_empty(*index.shape, features)
        embed[(triton.cdiv(n, 128),)](self.table.weight, index, out, n, features, self.scale, ROWS=128, FEATURES=64)
        return out
