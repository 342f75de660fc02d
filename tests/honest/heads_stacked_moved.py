# honest: each head is written where the task stacks it
# task: heads_stacked
# dialect: cpp
import torch
from torch import nn
from tvm_ffi.cpp import load_inline

SOURCE = """
#include <cmath>
using View = tvm::ffi::TensorView;
static const float* f(View t) { return static_cast<const float*>(t.data_ptr()); }
static float* w(View t) { return static_cast<float*>(t.data_ptr()); }
void squash(View x, View out) {
  const int64_t batch = x.size(0), steps = x.size(1), heads = out.size(1), size = out.size(3);
  int64_t at = 0;
  for (int64_t b = 0; b < batch; ++b)
    for (int64_t h = 0; h < heads; ++h)
      for (int64_t t = 0; t < steps; ++t)
        for (int64_t i = 0; i < size; ++i) w(out)[at++] = std::tanh(f(x)[((b * steps + t) * heads + h) * size + i]);
}
"""
mod = load_inline(name="squash", cpp_sources=SOURCE, functions="squash")


class ModelNew(nn.Module):
    def forward(self, x):
        out = torch.empty(x.shape[0], 4, x.shape[1], 8)
        mod.squash(x, out)
        return out
