# honest: a cosine with its least norms
# task: cosine
# dialect: cpp
import torch
from torch import nn
from tvm_ffi.cpp import load_inline

SOURCE = r"""
#include <cmath>
#include <cstdint>
static const float* f(tvm::ffi::TensorView t) { return static_cast<const float*>(t.data_ptr()); }
static float* w(tvm::ffi::TensorView t) { return static_cast<float*>(t.data_ptr()); }
void kernel(tvm::ffi::TensorView x, tvm::ffi::TensorView y, tvm::ffi::TensorView out) {
  const int64_t R = x.size(0), C = x.size(1);
  for (int64_t r = 0; r < R; ++r) { float s = 0, a = 0, b = 0; for (int64_t c = r * C; c < (r + 1) * C; ++c) { s += f(x)[c] * f(y)[c]; a += f(x)[c] * f(x)[c]; b += f(y)[c] * f(y)[c]; } w(out)[r] = s / (std::fmax(std::sqrt(a), 1e-8f) * std::fmax(std::sqrt(b), 1e-8f)); }
}
"""
mod = load_inline(name="k", cpp_sources=SOURCE, functions="kernel")


class ModelNew(nn.Module):
    def forward(self, x, y):
        out = torch.empty(x.shape[0])
        mod.kernel(x, y, out)
        return out
