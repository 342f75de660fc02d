# honest: distances by differences
# task: nearest_other
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
void kernel(T x, T o) {
  int64_t n = x.size(0), d = x.size(1);
  for (int64_t i = 0; i < n; ++i) {
    float least = std::numeric_limits<float>::infinity();
    for (int64_t j = 0; j < n; ++j) {
      float sum = 0.0f;
      for (int64_t k = 0; k < d; ++k) {
        float step = f(x)[i * d + k] - f(x)[j * d + k];
        sum += step * step;
      }
      if (sum != 0.0f && !(sum >= least)) least = sum;
    }
    f(o)[i] = least;
  }
}
"""
mod = load_inline(name="kernel", cpp_sources=SOURCE, functions="kernel")


class ModelNew(nn.Module):
    def forward(self, x):
        out = torch.empty(x.shape[0])
        mod.kernel(x, out)
        return out
