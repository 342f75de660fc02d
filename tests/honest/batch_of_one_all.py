# honest: every row of a batch that is one sample repeated
# task: batch_of_one
# dialect: cpp
import torch
from torch import nn
from tvm_ffi.cpp import load_inline

SOURCE = r"""
#include <cmath>
#include <cstdint>
static const float* f(tvm::ffi::TensorView t) { return static_cast<const float*>(t.data_ptr()); }
static float* w(tvm::ffi::TensorView t) { return static_cast<float*>(t.data_ptr()); }
void kernel(tvm::ffi::TensorView x, tvm::ffi::TensorView out) {
  const int64_t R = x.size(0), C = x.size(1);
  for (int64_t r = 0; r < R; ++r) { float m = -INFINITY, s = 0; for (int64_t c = r * C; c < (r + 1) * C; ++c) m = std::fmax(m, f(x)[c]);
   for (int64_t c = r * C; c < (r + 1) * C; ++c) s += w(out)[c] = std::exp(f(x)[c] - m);
   for (int64_t c = r * C; c < (r + 1) * C; ++c) w(out)[c] /= s; }
}
"""
mod = load_inline(name="k", cpp_sources=SOURCE, functions="kernel")


class ModelNew(nn.Module):
    def forward(self, x):
        out = torch.empty_like(x)
        mod.kernel(x, out)
        return out
