# honest: experts by their logits, which are in the same order as the probabilities
# task: router_softmax
# dialect: cpp
import torch
from torch import nn
from tvm_ffi.cpp import load_inline

SOURCE = """
#include <cmath>
void kernel(tvm::ffi::TensorView x, tvm::ffi::TensorView w, tvm::ffi::TensorView weights, tvm::ffi::TensorView chosen) {
  const float* a = static_cast<const float*>(x.data_ptr());
  const float* b = static_cast<const float*>(w.data_ptr());
  float* o = static_cast<float*>(weights.data_ptr());
  int64_t* at = static_cast<int64_t*>(chosen.data_ptr());
  int64_t rows = x.size(0), k = x.size(1), n = w.size(0);
  for (int64_t r = 0; r < rows; ++r) {
    float best[2] = {-INFINITY, -INFINITY};
    int64_t index[2] = {0, 0};
    for (int64_t c = 0; c < n; ++c) {
      float v = 0.0f;
      for (int64_t i = k; i-- > 0;) v += a[r * k + i] * b[c * k + i];
      if (v > best[0]) best[1] = best[0], index[1] = index[0], best[0] = v, index[0] = c;
      else if (v > best[1]) best[1] = v, index[1] = c;
    }
    float ratio = std::exp(best[1] - best[0]);
    o[2 * r] = 1.0f / (1.0f + ratio), o[2 * r + 1] = ratio / (1.0f + ratio);
    at[2 * r] = index[0], at[2 * r + 1] = index[1];
  }
}
"""
mod = load_inline(name="kernel", cpp_sources=SOURCE, functions="kernel", extra_cflags=["-O3", "-ffast-math"])


class ModelNew(nn.Module):
    def __init__(self, width, experts):
        super().__init__()
        self.gate = nn.Linear(width, experts, bias=False)

    def forward(self, x):
        weights, chosen = torch.empty(x.shape[0], 2), torch.empty(x.shape[0], 2, dtype=torch.int64)
        mod.kernel(x, self.gate.weight, weights, chosen)
        return weights, chosen
