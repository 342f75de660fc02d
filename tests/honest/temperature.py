# honest: a softmax with a temperature, by its inverse
# task: temperature
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
void kernel(T x, T t, T o) {
  const float by = 1.0f / *f(t);
  for (int64_t i = 0; i < 64; ++i) {
    const float* a = f(x) + i * 256; float* r = w(o) + i * 256;
    const float top = *std::max_element(a, a + 256);
    float s = 0; for (int64_t j = 0; j < 256; ++j) s += r[j] = std::exp((a[j] - top) * by);
    for (int64_t j = 0; j < 256; ++j) r[j] /= s;
  }
}
"""
mod = load_inline(name="k", cpp_sources=SOURCE, functions="kernel")


class ModelNew(nn.Module):
    def forward(self, x, temperature):
        out = torch.empty_like(x)
        mod.kernel(x, temperature, out)
        return out
