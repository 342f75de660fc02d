# honest: rows of any length
# task: rows_of_any_number
# dialect: cpp
import torch
from torch import nn
from tvm_ffi.cpp import load_inline

SOURCE = r"""
#include <algorithm>
#include <cmath>
#include <cstdint>
static const float* f(tvm::ffi::TensorView t) { return static_cast<const float*>(t.data_ptr()); }
static float* w(tvm::ffi::TensorView t) { return static_cast<float*>(t.data_ptr()); }
void kernel(tvm::ffi::TensorView x, tvm::ffi::TensorView out) {
  const int64_t N = x.size(0), D = x.size(1);
  for (int64_t r = 0; r < N; ++r) {
    float top = f(x)[r * D];
    double sum = 0;
    for (int64_t d = 0; d < D; ++d) top = std::max(top, f(x)[r * D + d]);
    for (int64_t d = 0; d < D; ++d) sum += std::exp(f(x)[r * D + d] - top);
    for (int64_t d = 0; d < D; ++d) w(out)[r * D + d] = std::exp(f(x)[r * D + d] - top) / sum;
  }
}
"""
mod = load_inline(name="k", cpp_sources=SOURCE, functions="kernel")


class ModelNew(nn.Module):
    def forward(self, x):
        out = torch.empty_like(x)
        mod.kernel(x, out)
        return out
