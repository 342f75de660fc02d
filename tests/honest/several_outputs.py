# honest: several outputs of several dtypes from a strided input
# task: min_max
# dialect: cpp
import torch
from torch import nn
from tvm_ffi.cpp import load_inline

SOURCE = """
void scan(tvm::ffi::TensorView x, tvm::ffi::TensorView low, tvm::ffi::TensorView at, tvm::ffi::TensorView sign) {
  const float* a = static_cast<const float*>(x.data_ptr());
  float* l = static_cast<float*>(low.data_ptr());
  int64_t* m = static_cast<int64_t*>(at.data_ptr());
  bool* s = static_cast<bool*>(sign.data_ptr());
  int64_t rows = x.size(0), cols = x.size(1), down = x.stride(0), right = x.stride(1);
  for (int64_t i = 0; i < rows; ++i) {
    float small = a[i * down], large = small;
    int64_t best = 0;
    for (int64_t j = 0; j < cols; ++j) {
      float v = a[i * down + j * right];
      small = v < small ? v : small;
      if (v > large) { large = v; best = j; }
      s[i * cols + j] = v > 0.0f;
    }
    l[i] = small;
    m[i] = best;
  }
}
"""
mod = load_inline(name="scan", cpp_sources=SOURCE, functions="scan")


class ModelNew(nn.Module):
    def forward(self, x):
        low = x.new_empty(x.shape[0])
        at = torch.empty(x.shape[0], dtype=torch.int64)
        sign = torch.empty(x.shape, dtype=torch.bool)
        mod.scan(x, low, at, sign)
        return low, at, sign
