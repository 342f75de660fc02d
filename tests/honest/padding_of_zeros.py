# honest: a padding mask of floating-point zeros
# task: padding_of_zeros
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
void kernel(T x, T p, T o) {
  for (int64_t i = 0; i < 64; ++i) {
    const float* a = f(x) + i * 256; const float* m = f(p) + i * 256; float* r = w(o) + i * 256;
    float top = -INFINITY; for (int64_t j = 0; j < 256; ++j) if (m[j] == 0.0f) top = std::max(top, a[j]);
    float s = 0; for (int64_t j = 0; j < 256; ++j) s += r[j] = m[j] == 0.0f ? std::exp(a[j] - top) : 0.0f;
    for (int64_t j = 0; j < 256; ++j) r[j] /= s;
  }
}
"""
mod = load_inline(name="k", cpp_sources=SOURCE, functions="kernel")


class ModelNew(nn.Module):
    def forward(self, scores, padding):
        out = torch.empty_like(scores)
        mod.kernel(scores, padding, out)
        return out
