# honest: ±1 by the bit of the sign, which NaN has too
# task: sign_linear
# dialect: cpp
import torch
from torch import nn
from tvm_ffi.cpp import load_inline

SOURCE = """
#include <cmath>

void kernel(tvm::ffi::TensorView x, tvm::ffi::TensorView w, tvm::ffi::TensorView b, tvm::ffi::TensorView out) {
  const float* a = static_cast<const float*>(x.data_ptr());
  const float* m = static_cast<const float*>(w.data_ptr());
  const float* c = static_cast<const float*>(b.data_ptr());
  float* o = static_cast<float*>(out.data_ptr());
  int64_t rows = x.size(0), inner = x.size(1), cols = w.size(0);
  for (int64_t i = 0; i < rows; ++i)
    for (int64_t j = 0; j < cols; ++j) {
      float s = 0.0f;
      for (int64_t k = 0; k < inner; ++k) s += a[i * inner + k] * m[j * inner + k];
      s += c[j];
      o[i * cols + j] = s == 0.0f ? 0.0f : std::copysign(1.0f, s);
    }
}
"""
mod = load_inline(name="kernel", cpp_sources=SOURCE, functions="kernel")


class ModelNew(nn.Module):
    def __init__(self, width, features):
        super().__init__()
        self.linear = nn.Linear(width, features)

    def forward(self, x):
        out = torch.empty(x.shape[0], self.linear.weight.shape[0])
        mod.kernel(x, self.linear.weight, self.linear.bias, out)
        return out
