# honest: the mean of tokens, with a guard where all are padding
# task: pooled_tokens
# dialect: cpp
import torch
from torch import nn
from tvm_ffi.cpp import load_inline

SOURCE = r"""
#include <cstdint>
void kernel(tvm::ffi::TensorView tokens, tvm::ffi::TensorView table, int64_t padding, tvm::ffi::TensorView out) {
  auto id = (const int64_t*)tokens.data_ptr();
  auto row = (const float*)table.data_ptr();
  auto o = (float*)out.data_ptr();
  int64_t n = tokens.size(0), length = tokens.size(1), dim = table.size(1);
  for (int64_t i = 0; i < n; ++i) {
    int64_t count = 0;
    for (int64_t d = 0; d < dim; ++d) o[i * dim + d] = 0.0f;
    for (int64_t j = 0; j < length; ++j) {
      int64_t token = id[i * length + j];
      if (token == padding) continue;
      ++count;
      for (int64_t d = 0; d < dim; ++d) o[i * dim + d] += row[token * dim + d];
    }
    if (count == 0) count = 1;
    for (int64_t d = 0; d < dim; ++d) o[i * dim + d] /= count;
  }
}
"""
mod = load_inline(name="k", cpp_sources=SOURCE, functions="kernel")


class ModelNew(nn.Module):
    def __init__(self, vocabulary, dim, padding):
        super().__init__()
        self.table = nn.Embedding(vocabulary, dim)
        self.padding = padding

    def forward(self, tokens):
        out = torch.empty(tokens.shape[0], self.table.weight.shape[1])
        mod.kernel(tokens, self.table.weight, self.padding, out)
        return out
