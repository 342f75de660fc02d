# honest: a softmax of rows that may be minus infinity
# task: guarded_softmax
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
  for (int64_t i = 0; i < 64; ++i) {
    const float* a = f(x) + i * 256; float* r = w(o) + i * 256;
    float top = *std::max_element(a, a + 256); if (top == -INFINITY) top = 0.0f;
    float s = 0; for (int64_t j = 0; j < 256; ++j) s += r[j] = std::exp(a[j] - top);
    for (int64_t j = 0; j < 256; ++j) r[j] /= s + 1e-9f;
  }
}
"""
mod = load_inline(name="k", cpp_sources=SOURCE, functions="kernel")


class ModelNew(nn.Module):
    def forward(self, x):
        out = torch.empty_like(x)
        mod.kernel(x, out)
        return out
