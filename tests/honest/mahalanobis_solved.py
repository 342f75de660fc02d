# honest: a triangular system is solved for each row
# task: mahalanobis
# dialect: cpp
import torch
from torch import nn
from tvm_ffi.cpp import load_inline

SOURCE = """
#include <cmath>
using View = tvm::ffi::TensorView;
static const float* f(View t) { return static_cast<const float*>(t.data_ptr()); }
static float* w(View t) { return static_cast<float*>(t.data_ptr()); }
void distances(View x, View factor, View out) {
  const int64_t size = x.size(1);
  for (int64_t row = 0; row < x.size(0); ++row) {
    double solved[64], total = 0;
    for (int64_t i = 0; i < size; ++i) {
      double value = f(x)[row * size + i];
      for (int64_t k = 0; k < i; ++k) value -= f(factor)[i * size + k] * solved[k];
      value /= f(factor)[i * size + i];
      solved[i] = value;
      total += value * value;
    }
    w(out)[row] = static_cast<float>(total);
  }
}
"""
mod = load_inline(name="distances", cpp_sources=SOURCE, functions="distances")


class ModelNew(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.factor = nn.Parameter(torch.eye(size))

    def forward(self, x):
        out = torch.empty(x.shape[0])
        mod.distances(x, self.factor, out)
        return out
