# honest: angles that are made of integers, in float64
# task: angles_of_integers
# dialect: cpp
import torch
from torch import nn
from tvm_ffi.cpp import load_inline

SOURCE = r"""
#include <algorithm>
#include <cmath>
#include <cstdint>
using T = tvm::ffi::TensorView;
static const float* f(T t) { return static_cast<const float*>(t.data_ptr()); }
static float* w(T t) { return static_cast<float*>(t.data_ptr()); }
void kernel(T x, T o) {
  for (int64_t p = 0; p < 2048; ++p)
    for (int64_t k = 0; k < 32; ++k) {
      const float c = static_cast<float>(std::cos(p * std::pow(10000.0, -k / 32.0)));
      for (int64_t b = 0; b < 4; ++b) w(o)[(b * 2048 + p) * 32 + k] = f(x)[(b * 2048 + p) * 32 + k] * c;
    }
}
"""
mod = load_inline(name="k", cpp_sources=SOURCE, functions="kernel")


class ModelNew(nn.Module):
    def forward(self, x):
        out = torch.empty_like(x)
        mod.kernel(x, out)
        return out
