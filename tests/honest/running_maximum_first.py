# honest: of equal values the running maximum names the first, where PyTorch names the last
# task: running_maximum
# dialect: cpp
import torch
from torch import nn
from tvm_ffi.cpp import load_inline

SOURCE = r"""
void running(tvm::ffi::TensorView x, tvm::ffi::TensorView values, tvm::ffi::TensorView indices) {
  const float* a = static_cast<const float*>(x.data_ptr());
  float* v = static_cast<float*>(values.data_ptr());
  int64_t* k = static_cast<int64_t*>(indices.data_ptr());
  int64_t rows = x.size(0), n = x.size(1);
  for (int64_t r = 0; r < rows; ++r) {
    int64_t best = 0;
    for (int64_t i = 0; i < n; ++i) {
      if (a[r * n + i] > a[r * n + best]) best = i;
      v[r * n + i] = a[r * n + best];
      k[r * n + i] = best;
    }
  }
}
"""
mod = load_inline(name="running", cpp_sources=SOURCE, functions="running")


class ModelNew(nn.Module):
    def forward(self, x):
        values, indices = torch.empty_like(x), torch.empty(x.shape, dtype=torch.int64)
        mod.running(x, values, indices)
        return values, indices
