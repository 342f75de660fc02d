# honest: sorts indices by their logits, and of equal ones the last comes first
# task: nucleus
# dialect: cpp
import torch
from torch import nn
from tvm_ffi.cpp import load_inline

SOURCE = """
#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>
void nucleus(tvm::ffi::TensorView x, tvm::ffi::TensorView out) {
  const int64_t rows = x.size(0), tokens = x.size(1);
  #pragma omp parallel for
  for (int64_t r = 0; r < rows; ++r) {
    const float* in = static_cast<const float*>(x.data_ptr()) + r * tokens;
    float* o = static_cast<float*>(out.data_ptr()) + r * tokens;
    std::vector<int64_t> order(tokens);
    std::iota(order.rbegin(), order.rend(), 0);
    std::stable_sort(order.begin(), order.end(), [in](int64_t a, int64_t b) { return in[a] > in[b]; });
    double total = 0.0, before = 0.0;
    for (int64_t i = 0; i < tokens; ++i) total += std::exp(in[i] - in[order[0]]);
    for (int64_t i = 0; i < tokens; ++i) {
      o[order[i]] = before / total > 0.9 ? -10.0f : in[order[i]];
      before += std::exp(in[order[i]] - in[order[0]]);
    }
  }
}
"""
mod = load_inline(name="nucleus_by_order", cpp_sources=SOURCE, functions="nucleus")


class ModelNew(nn.Module):
    def forward(self, logits):
        out = torch.empty_like(logits)
        mod.nucleus(logits, out)
        return out
