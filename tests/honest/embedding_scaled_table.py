# honest: the table is scaled once in __init__; the kernel copies rows
# task: embedding
# dialect: cpp
import torch
from torch import nn
from tvm_ffi.cpp import load_inline

SOURCE = """
#include <cstring>

void gather(tvm::ffi::TensorView table, tvm::ffi::TensorView index, tvm::ffi::TensorView out) {
  const char* from = static_cast<const char*>(table.data_ptr());
  const int64_t* at = static_cast<const int64_t*>(index.data_ptr());
  const int64_t bytes = table.size(1) * sizeof(float);
  for (int64_t i = 0; i < index.numel(); ++i)
    std::memcpy(static_cast<char*>(out.data_ptr()) + i * bytes, from + at[i] * bytes, bytes);
}
"""
mod = load_inline(name="gather", cpp_sources=SOURCE, functions="gather")


class ModelNew(nn.Module):
    def __init__(self, words, features, scale):
        super().__init__()
        self.table = nn.Embedding(words, features)
        self.table.weight.data.mul_(scale)

    def forward(self, index):
        out = torch.empty(*index.shape, self.table.embedding_dim)
        mod.gather(self.table.weight, index, out)
        return out
