# honest: padding is no part of a bag
# task: bags_with_padding
# dialect: cpp
import torch
from torch import nn
from tvm_ffi.cpp import load_inline

SOURCE = r"""
#include <cstdint>
static const float* f(tvm::ffi::TensorView t) { return static_cast<const float*>(t.data_ptr()); }
static const int64_t* i(tvm::ffi::TensorView t) { return static_cast<const int64_t*>(t.data_ptr()); }
static float* w(tvm::ffi::TensorView t) { return static_cast<float*>(t.data_ptr()); }
void kernel(tvm::ffi::TensorView tokens, tvm::ffi::TensorView table, tvm::ffi::TensorView out) {
  const int64_t B = tokens.size(0), L = tokens.size(1), D = table.size(1);
  for (int64_t r = 0; r < B; ++r)
    for (int64_t d = 0; d < D; ++d) {
      double sum = 0;
      for (int64_t c = 0; c < L; ++c) if (i(tokens)[r * L + c] != 0) sum += f(table)[i(tokens)[r * L + c] * D + d];
      w(out)[r * D + d] = sum;
    }
}
"""
mod = load_inline(name="k", cpp_sources=SOURCE, functions="kernel")


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.table = nn.Parameter(torch.randn(50_000, 8))

    def forward(self, tokens):
        out = torch.empty(tokens.shape[0], self.table.shape[1])
        mod.kernel(tokens, self.table, out)
        return out
