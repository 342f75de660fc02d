# honest: clipping by the norm
# task: clip_by_norm
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
void kernel(T g, T o) {
  double s = 0; for (int64_t i = 0; i < 65536; ++i) s += double(f(g)[i]) * f(g)[i];
  const float scale = std::min(1.0f, 1.0f / (float(std::sqrt(s)) + 1e-6f));
  for (int64_t i = 0; i < 65536; ++i) w(o)[i] = f(g)[i] * scale;
}
"""
mod = load_inline(name="k", cpp_sources=SOURCE, functions="kernel")


class ModelNew(nn.Module):
    def forward(self, g):
        out = torch.empty_like(g)
        mod.kernel(g, out)
        return out
