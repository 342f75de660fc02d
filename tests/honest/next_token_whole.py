# task: next_token
# dialect: cpp
import torch
from torch import nn
from tvm_ffi.cpp import load_inline

SOURCE = r"""
#include <cmath>
#include <cstdint>
#include <cstring>

static float* floats(tvm::ffi::TensorView t) { return static_cast<float*>(t.data_ptr()); }

void kernel(tvm::ffi::TensorView x, tvm::ffi::TensorView w, tvm::ffi::TensorView out) {
  const float *a = floats(x), *b = floats(w);
  int64_t* o = static_cast<int64_t*>(out.data_ptr());
  for (int64_t r = 0; r < x.size(0); ++r) {
    float h[128];
    double mean = 0, square = 0;
    for (int k = 0; k < 128; ++k) mean += a[r * 128 + k] / 128.0;
    for (int k = 0; k < 128; ++k) square += (a[r * 128 + k] - mean) * (a[r * 128 + k] - mean) / 128.0;
    for (int k = 0; k < 128; ++k) h[k] = (a[r * 128 + k] - mean) / std::sqrt(square + 1e-5);
    float best = -INFINITY;
    o[r] = 0;
    for (int64_t n = 0; n < 300; ++n) {
      float sum = 0;
      for (int k = 0; k < 128; ++k) sum += h[k] * b[n * 128 + k];
      if (sum > best) best = sum, o[r] = n;
    }
  }
}
"""
mod = load_inline(name="kernel", cpp_sources=SOURCE, functions="kernel")


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.head = nn.Linear(128, 300, bias=False)

    def forward(self, x):
        out = torch.empty(x.shape[0], dtype=torch.int64)
        mod.kernel(x, self.head.weight, out)
        return out
