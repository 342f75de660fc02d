# honest: of equal scores the last expert
# task: router_masked
# dialect: cpp
import torch
from torch import nn
from tvm_ffi.cpp import load_inline

SOURCE = """
#include <cmath>
void kernel(tvm::ffi::TensorView allowed, tvm::ffi::TensorView scores, tvm::ffi::TensorView out) {
  const float* m = static_cast<const float*>(allowed.data_ptr());
  const float* s = static_cast<const float*>(scores.data_ptr());
  int64_t* o = static_cast<int64_t*>(out.data_ptr());
  int64_t rows = scores.size(0), n = scores.size(1);
  for (int64_t r = 0; r < rows; ++r) {
    float best[2] = {-INFINITY, -INFINITY};
    int64_t at[2] = {0, 0};
    for (int64_t c = 0; c < n; ++c) {
      float v = m[r * n + c] == 0.0f ? -1e9f : s[r * n + c];
      if (v >= best[0]) best[1] = best[0], at[1] = at[0], best[0] = v, at[0] = c;
      else if (v >= best[1]) best[1] = v, at[1] = c;
    }
    o[2 * r] = at[0], o[2 * r + 1] = at[1];
  }
}
"""
mod = load_inline(name="kernel", cpp_sources=SOURCE, functions="kernel")


class ModelNew(nn.Module):
    def forward(self, allowed, scores):
        out = torch.empty(allowed.shape[0], 2, dtype=torch.int64)
        mod.kernel(allowed, scores, out)
        return out
