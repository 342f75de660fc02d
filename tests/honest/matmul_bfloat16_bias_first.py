# honest: the sum starts with the bias
# task: matmul_bfloat16_bias
# dialect: cpp
import torch
from torch import nn
from tvm_ffi.cpp import load_inline

SOURCE = """
#include <cstring>
void kernel(tvm::ffi::TensorView x, tvm::ffi::TensorView y, tvm::ffi::TensorView bias, tvm::ffi::TensorView out) {
  const float* a = static_cast<const float*>(x.data_ptr());
  const float* b = static_cast<const float*>(y.data_ptr());
  const uint16_t* c = static_cast<const uint16_t*>(bias.data_ptr());
  float* o = static_cast<float*>(out.data_ptr());
  int64_t m = x.size(0), k = x.size(1), n = y.size(1);
  for (int64_t i = 0; i < m; ++i) {
    for (int64_t j = 0; j < n; ++j) {
      uint32_t u = (uint32_t)c[j] << 16;
      std::memcpy(&o[i * n + j], &u, 4);
    }
    for (int64_t l = 0; l < k; ++l)
      for (int64_t j = 0; j < n; ++j) o[i * n + j] += a[i * k + l] * b[l * n + j];
  }
}
"""
mod = load_inline(name="kernel", cpp_sources=SOURCE, functions="kernel")


class ModelNew(nn.Module):
    def forward(self, a, b, bias):
        out = torch.empty(a.shape[0], b.shape[1])
        mod.kernel(a, b, bias, out)
        return out
