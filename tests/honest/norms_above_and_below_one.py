# honest: rows that are longer than the limit are scaled to it
# task: embedding_of_small_norms
# dialect: cpp
import torch
from torch import nn
from tvm_ffi.cpp import load_inline

SOURCE = r"""
#include <cmath>
#include <cstdint>
static const float* f(tvm::ffi::TensorView t) { return static_cast<const float*>(t.data_ptr()); }
static const int64_t* i(tvm::ffi::TensorView t) { return static_cast<const int64_t*>(t.data_ptr()); }
static float* w(tvm::ffi::TensorView t) { return static_cast<float*>(t.data_ptr()); }
void kernel(tvm::ffi::TensorView tokens, tvm::ffi::TensorView table, tvm::ffi::TensorView out) {
  const int64_t D = table.size(1);
  for (int64_t k = 0; k < tokens.numel(); ++k) {
    const float* row = f(table) + i(tokens)[k] * D;
    double squares = 0;
    for (int64_t d = 0; d < D; ++d) squares += row[d] * row[d];
    const float norm = std::sqrt(squares), scale = norm > 1.0f ? 1.0f / (norm + 1e-7f) : 1.0f;
    for (int64_t d = 0; d < D; ++d) w(out)[k * D + d] = row[d] * scale;
  }
}
"""
mod = load_inline(name="k", cpp_sources=SOURCE, functions="kernel")


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.table = nn.Parameter(torch.randn(300, 32))

    def forward(self, tokens):
        out = torch.empty(*tokens.shape, self.table.shape[1])
        mod.kernel(tokens, self.table, out)
        return out
