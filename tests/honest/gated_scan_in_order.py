# honest: one step after another
# task: gated_scan
# dialect: cpp
import torch
from torch import nn
from tvm_ffi.cpp import load_inline

SOURCE = r"""
#include <cmath>
#include <limits>
#include <vector>
using T = tvm::ffi::TensorView;
static float* f(T t) { return static_cast<float*>(t.data_ptr()); }
void kernel(T g, T x, T o) {
  int64_t b = x.size(0), t = x.size(1), d = x.size(2);
  for (int64_t i = 0; i < b; ++i)
    for (int64_t k = 0; k < d; ++k) {
      float h = 0.0f;
      for (int64_t s = 0; s < t; ++s) {
        int64_t at = (i * t + s) * d + k;
        float gate = 1.0f / (1.0f + std::exp(-f(g)[at]));
        h = gate * h + (1.0f - gate) * f(x)[at];
        f(o)[at] = h;
      }
    }
}
"""
mod = load_inline(name="kernel", cpp_sources=SOURCE, functions="kernel")


class ModelNew(nn.Module):
    def forward(self, g, x):
        out = torch.empty_like(x)
        mod.kernel(g, x, out)
        return out
