# honest: the largest in falling order, where any order is right
# task: routed_to_any_order
# dialect: cpp
import torch
from torch import nn
from tvm_ffi.cpp import load_inline

SOURCE = """
#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>
void route(tvm::ffi::TensorView logits, tvm::ffi::TensorView weights, tvm::ffi::TensorView chosen) {
  const int64_t tokens = logits.size(0), experts = logits.size(1), count = weights.size(1);
  const float* x = static_cast<const float*>(logits.data_ptr());
  float* w = static_cast<float*>(weights.data_ptr());
  int64_t* c = static_cast<int64_t*>(chosen.data_ptr());
  std::vector<int64_t> order(experts);
  for (int64_t t = 0; t < tokens; ++t, x += experts, w += count, c += count) {
    std::iota(order.begin(), order.end(), 0);
    auto before = [&](int64_t i, int64_t j) {
      if (std::isnan(x[i]) || std::isnan(x[j])) return std::isnan(x[i]) && !std::isnan(x[j]);
      return x[i] > x[j];
    };
    std::partial_sort(order.begin(), order.begin() + count, order.end(), before);
    float top = -INFINITY, sum = 0.0f;
    for (int64_t k = 0; k < count; ++k) top = std::isnan(x[order[k]]) ? x[order[k]] : std::max(top, x[order[k]]);
    for (int64_t k = 0; k < count; ++k) sum += w[k] = std::exp(x[order[k]] - top);
    for (int64_t k = 0; k < count; ++k) {
      w[k] /= sum;
      c[k] = order[k];
    }
  }
}
"""
mod = load_inline(name="route", cpp_sources=SOURCE, functions="route", extra_cflags=["-O3"])


class ModelNew(nn.Module):
    def forward(self, logits):
        weights = torch.empty(logits.shape[0], 8)
        chosen = torch.empty(logits.shape[0], 8, dtype=torch.int64)
        mod.route(logits, weights, chosen)
        return weights, chosen
