# honest: numbers are widened where they are read
# task: linear_upcast
# dialect: cpp
import torch
from torch import nn
from tvm_ffi.cpp import load_inline

SOURCE = """
#include <algorithm>
#include <cstring>
void kernel(tvm::ffi::TensorView x, tvm::ffi::TensorView w, tvm::ffi::TensorView b, tvm::ffi::TensorView out) {
  const uint16_t* a = static_cast<const uint16_t*>(x.data_ptr());
  const float* m = static_cast<const float*>(w.data_ptr());
  const float* c = static_cast<const float*>(b.data_ptr());
  uint16_t* o = static_cast<uint16_t*>(out.data_ptr());
  int64_t rows = x.size(0), inner = x.size(1), cols = w.size(0);
  for (int64_t i = 0; i < rows; ++i)
    for (int64_t j = 0; j < cols; ++j) {
      float s = c[j];
      for (int64_t k = 0; k < inner; ++k) {
        uint32_t u = (uint32_t)a[i * inner + k] << 16;
        float v;
        std::memcpy(&v, &u, 4);
        s += v * m[j * inner + k];
      }
      s = std::max(s, 0.0f);
      uint32_t u;
      std::memcpy(&u, &s, 4);
      o[i * cols + j] = (u + 0x7fff + ((u >> 16) & 1)) >> 16;
    }
}
"""
mod = load_inline(name="kernel", cpp_sources=SOURCE, functions="kernel")


class ModelNew(nn.Module):
    def __init__(self, width, features):
        super().__init__()
        self.linear = nn.Linear(width, features)

    def forward(self, x):
        out = torch.empty(x.shape[0], self.linear.weight.shape[0], dtype=torch.bfloat16)
        mod.kernel(x, self.linear.weight, self.linear.bias, out)
        return out
