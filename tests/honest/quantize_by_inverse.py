# honest: multiplies by the inverse of the scale
# task: quantize_rows
# dialect: cpp
import torch
from torch import nn
from tvm_ffi.cpp import load_inline

SOURCE = """
#include <algorithm>
#include <cmath>
#include <cstdint>
void kernel(tvm::ffi::TensorView x, tvm::ffi::TensorView q, tvm::ffi::TensorView scales) {
  const float* a = static_cast<const float*>(x.data_ptr());
  int8_t* o = static_cast<int8_t*>(q.data_ptr());
  float* s = static_cast<float*>(scales.data_ptr());
  int64_t rows = x.size(0), cols = x.size(1);
  for (int64_t i = 0; i < rows; ++i) {
    float largest = 1e-8f;
    for (int64_t j = 0; j < cols; ++j) largest = std::max(largest, std::fabs(a[i * cols + j]));
    s[i] = largest / 127.0f;
    const float inverse = 127.0f / largest;
    for (int64_t j = 0; j < cols; ++j)
      o[i * cols + j] = static_cast<int8_t>(std::clamp(std::nearbyint(a[i * cols + j] * inverse), -128.0f, 127.0f));
  }
}
"""
mod = load_inline(name="kernel", cpp_sources=SOURCE, functions="kernel")


class ModelNew(nn.Module):
    def forward(self, x):
        q, scales = torch.empty(x.shape, dtype=torch.int8), x.new_empty(x.shape[:-1])
        mod.kernel(x, q, scales)
        return q, scales
