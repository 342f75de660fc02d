# honest: the number of a step
# task: first_step
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
void kernel(T m, T g, T step, T o) {
  const float by = 1.0f - std::pow(0.9f, float(*static_cast<const int64_t*>(step.data_ptr())));
  for (int64_t i = 0; i < 65536; ++i) w(o)[i] = (0.9f * f(m)[i] + 0.1f * f(g)[i]) / by;
}
"""
mod = load_inline(name="k", cpp_sources=SOURCE, functions="kernel")


class ModelNew(nn.Module):
    def forward(self, m, g, step):
        out = torch.empty_like(m)
        mod.kernel(m, g, step, out)
        return out
