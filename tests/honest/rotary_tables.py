# honest: of tables of angles the first halves are read, as the second ones are equal
# task: rotary_tables
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
void kernel(T x, T c, T s, T o) {
  for (int64_t b = 0; b < 8; ++b)
    for (int64_t p = 0; p < 128; ++p)
      for (int64_t k = 0; k < 32; ++k) {
        const float* a = f(x) + (b * 128 + p) * 64; float* r = w(o) + (b * 128 + p) * 64;
        const float co = f(c)[p * 64 + k], si = f(s)[p * 64 + k];
        r[k] = a[k] * co - a[k + 32] * si; r[k + 32] = a[k + 32] * co + a[k] * si;
      }
}
"""
mod = load_inline(name="k", cpp_sources=SOURCE, functions="kernel")


class ModelNew(nn.Module):
    def forward(self, x, cos, sin):
        out = torch.empty_like(x)
        mod.kernel(x, cos, sin, out)
        return out
