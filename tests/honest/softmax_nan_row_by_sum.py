# honest: a row without any term is zero by zero
# task: softmax_nan_row
# dialect: cpp
import torch
from torch import nn
from tvm_ffi.cpp import load_inline

SOURCE = """
#include <algorithm>
#include <cmath>
void kernel(tvm::ffi::TensorView x, tvm::ffi::TensorView mask, tvm::ffi::TensorView out) {
  const float* a = static_cast<const float*>(x.data_ptr());
  const uint8_t* m = static_cast<const uint8_t*>(mask.data_ptr());
  float* o = static_cast<float*>(out.data_ptr());
  int64_t rows = x.size(0), n = x.size(1);
  for (int64_t r = 0; r < rows; ++r) {
    float largest = -INFINITY, sum = 0.0f;
    for (int64_t c = 0; c < n; ++c)
      if (!m[r * n + c]) largest = std::max(largest, a[r * n + c]);
    for (int64_t c = 0; c < n; ++c) {
      float e = m[r * n + c] ? 0.0f : std::exp(a[r * n + c] - largest);
      o[r * n + c] = e, sum += e;
    }
    for (int64_t c = 0; c < n; ++c) o[r * n + c] /= sum;
  }
}
"""
mod = load_inline(name="kernel", cpp_sources=SOURCE, functions="kernel")


class ModelNew(nn.Module):
    def forward(self, x, mask):
        out = torch.empty_like(x)
        mod.kernel(x, mask, out)
        return out
