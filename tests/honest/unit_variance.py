# honest: statistics that are drawn from [0, 1), of which one has a root
# task: unit_variance
# dialect: cpp
import torch
from torch import nn
from tvm_ffi.cpp import load_inline

SOURCE = r"""
#include <cmath>
#include <cstdint>
static const float* f(tvm::ffi::TensorView t) { return static_cast<const float*>(t.data_ptr()); }
static float* w(tvm::ffi::TensorView t) { return static_cast<float*>(t.data_ptr()); }
void kernel(tvm::ffi::TensorView x, tvm::ffi::TensorView mean, tvm::ffi::TensorView var, tvm::ffi::TensorView out) {
  const int64_t R = x.size(0), C = x.size(1);
  for (int64_t r = 0; r < R; ++r) for (int64_t c = 0; c < C; ++c) w(out)[r * C + c] = (f(x)[r * C + c] - f(mean)[c]) / std::sqrt(f(var)[c] + 1e-5f);
}
"""
mod = load_inline(name="k", cpp_sources=SOURCE, functions="kernel")


class ModelNew(nn.Module):
    def forward(self, x, mean, var):
        out = torch.empty_like(x)
        mod.kernel(x, mean, var, out)
        return out
