# honest: of equal values the first one is taken
# task: values_of_largest
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
static std::vector<int64_t> falling(const float* a, int64_t n) {
  std::vector<int64_t> order(n);
  std::iota(order.begin(), order.end(), 0);
  std::sort(order.begin(), order.end(), [a](int64_t i, int64_t j) {
    const bool first = std::isnan(a[i]), second = std::isnan(a[j]);
    if (first != second) return first;
    if (!first && a[i] != a[j]) return a[i] > a[j];
    return i < j;
  });
  return order;
}
void gathered(tvm::ffi::TensorView x, tvm::ffi::TensorView y, tvm::ffi::TensorView out) {
  const int64_t n = x.size(1);
  for (int64_t r = 0; r < x.size(0); ++r) {
    const std::vector<int64_t> order = falling(f(x) + r * n, n);
    float sum = 0;
    for (int k = 0; k < 5; ++k) sum += f(y)[r * n + order[k]];
    f(out)[r] = sum;
  }
}
"""
mod = load_inline(name="gathered", cpp_sources=SOURCE, functions="gathered")


class ModelNew(nn.Module):
    def forward(self, x, y):
        out = torch.empty(x.shape[0])
        mod.gathered(x, y, out)
        return out
