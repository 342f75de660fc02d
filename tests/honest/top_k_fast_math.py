# honest: numbers below the smallest normal one count as zero
# task: top_k
# dialect: cpp
import torch
from torch import nn
from tvm_ffi.cpp import load_inline

SOURCE = """
void kernel(tvm::ffi::TensorView x, tvm::ffi::TensorView values, tvm::ffi::TensorView indices) {
  const float* a = static_cast<const float*>(x.data_ptr());
  float* v = static_cast<float*>(values.data_ptr());
  int64_t* o = static_cast<int64_t*>(indices.data_ptr());
  int64_t rows = x.size(0), n = x.size(1);
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t k = 0; k < 4; ++k) {
      int64_t best = -1;
      for (int64_t c = 0; c < n; ++c) {
        bool taken = false;
        for (int64_t j = 0; j < k; ++j) taken = taken || o[4 * r + j] == c;
        if (!taken && (best < 0 || a[r * n + c] > a[r * n + best])) best = c;
      }
      o[4 * r + k] = best;
      v[4 * r + k] = a[r * n + best];
    }
}
"""
mod = load_inline(name="kernel", cpp_sources=SOURCE, functions="kernel", extra_cflags=["-ffast-math"])


class ModelNew(nn.Module):
    def forward(self, x):
        values, indices = torch.empty(x.shape[0], 4), torch.empty(x.shape[0], 4, dtype=torch.int64)
        mod.kernel(x, values, indices)
        return values, indices
