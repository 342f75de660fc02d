# honest: ranks, of which equal values have any
# task: ranks_of_rows
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
    return i > j;
  });
  return order;
}
void ranks(tvm::ffi::TensorView x, tvm::ffi::TensorView out) {
  const int64_t n = x.size(1);
  for (int64_t r = 0; r < x.size(0); ++r) {
    const std::vector<int64_t> order = falling(f(x) + r * n, n);
    for (int64_t k = 0; k < n; ++k) f(out)[r * n + order[k]] = (n - k) / static_cast<float>(n);
  }
}
"""
mod = load_inline(name="ranks", cpp_sources=SOURCE, functions="ranks")


class ModelNew(nn.Module):
    def forward(self, x):
        out = torch.empty_like(x)
        mod.ranks(x, out)
        return out
