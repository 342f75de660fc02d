# honest: points of a ball are moved by a small parameter
# task: within_the_ball
# dialect: cpp
import torch
from torch import nn
from tvm_ffi.cpp import load_inline

SOURCE = """
#include <cmath>
using View = tvm::ffi::TensorView;
static const float* f(View t) { return static_cast<const float*>(t.data_ptr()); }
static float* w(View t) { return static_cast<float*>(t.data_ptr()); }
void heights(View x, View shift, View out) {
  const int64_t size = x.size(1);
  for (int64_t row = 0; row < x.size(0); ++row) {
    const float* point = f(x) + row * size;
    double norm = 0, total = 0;
    for (int64_t i = 0; i < size; ++i) norm += static_cast<double>(point[i]) * point[i];
    norm = std::sqrt(norm);
    for (int64_t i = 0; i < size; ++i) {
      const double moved = 0.5 * point[i] / (1 + norm) + f(shift)[i];
      total += moved * moved;
    }
    w(out)[row] = static_cast<float>(std::atanh(std::sqrt(total)));
  }
}
"""
mod = load_inline(name="heights", cpp_sources=SOURCE, functions="heights")


class ModelNew(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.shift = nn.Parameter(torch.zeros(size))

    def forward(self, x):
        out = torch.empty(x.shape[0])
        mod.heights(x, self.shift, out)
        return out
