# honest: rows of counts
# task: rows_of_counts
# dialect: cpp
import torch
from torch import nn
from tvm_ffi.cpp import load_inline

SOURCE = r"""
#include <cmath>
void kernel(tvm::ffi::TensorView table, tvm::ffi::TensorView n, tvm::ffi::TensorView out) {
  auto T = static_cast<const float*>(table.data_ptr());
  auto N = static_cast<const float*>(n.data_ptr());
  auto O = static_cast<float*>(out.data_ptr());
  for (int64_t i = 0; i < n.numel(); ++i) {
    int64_t row = (int64_t)N[i] < 31 ? (int64_t)N[i] : 31;
    for (int64_t j = 0; j < 16; ++j) O[i * 16 + j] = std::exp(T[row * 16 + j]);
  }
}
"""
mod = load_inline(name="kernel", cpp_sources=SOURCE, functions="kernel")


class ModelNew(nn.Module):
    def forward(self, table, n):
        out = torch.empty(n.shape[0], 16)
        mod.kernel(table, n, out)
        return out
