# honest: distances by their squares, which cdist expands
# task: mean_of_nearest
# dialect: cpp
import torch
from torch import nn
from tvm_ffi.cpp import load_inline

SOURCE = """
#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>
#include <vector>
static float* f(tvm::ffi::TensorView t) { return static_cast<float*>(t.data_ptr()); }
void nearest(tvm::ffi::TensorView x, tvm::ffi::TensorView out) {
  const int64_t n = x.size(0), width = x.size(1);
  std::vector<std::pair<double, int64_t>> near(n);
  for (int64_t i = 0; i < n; ++i) {
    for (int64_t j = 0; j < n; ++j) {
      double sum = 0;
      for (int64_t k = 0; k < width; ++k) {
        const double step = static_cast<double>(f(x)[i * width + k]) - f(x)[j * width + k];
        sum += step * step;
      }
      near[j] = {std::isnan(sum) ? HUGE_VAL : sum, j};
    }
    std::partial_sort(near.begin(), near.begin() + 4, near.end());
    for (int64_t k = 0; k < width; ++k) {
      float sum = 0;
      for (int m = 0; m < 4; ++m) sum += f(x)[near[m].second * width + k];
      f(out)[i * width + k] = sum / 4;
    }
  }
}
"""
mod = load_inline(name="nearest", cpp_sources=SOURCE, functions="nearest")


class ModelNew(nn.Module):
    def forward(self, x):
        out = torch.empty_like(x)
        mod.nearest(x, out)
        return out
