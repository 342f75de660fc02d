# honest: a learning rate that warms up and decays
# task: warm_up
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
void kernel(T g, T step, T o) {
  const float t = float(*static_cast<const int64_t*>(step.data_ptr()));
  const float rate = t < 1000.0f ? t / 1000.0f : std::sqrt(1000.0f / t);
  for (int64_t i = 0; i < 65536; ++i) w(o)[i] = f(g)[i] * rate;
}
"""
mod = load_inline(name="k", cpp_sources=SOURCE, functions="kernel")


class ModelNew(nn.Module):
    def forward(self, g, step):
        out = torch.empty_like(g)
        mod.kernel(g, step, out)
        return out
