# task: accuracy
# dialect: cpp
import torch
from torch import nn
from tvm_ffi.cpp import load_inline

SOURCE = r"""
#include <cmath>
#include <cstdint>
#include <cstring>

static float* floats(tvm::ffi::TensorView t) { return static_cast<float*>(t.data_ptr()); }

void kernel(tvm::ffi::TensorView x, tvm::ffi::TensorView w, tvm::ffi::TensorView bias, tvm::ffi::TensorView y,
            tvm::ffi::TensorView out) {
  const float *a = floats(x), *b = floats(w);
  const int64_t* labels = static_cast<int64_t*>(y.data_ptr());
  int64_t right = 0, rows = x.size(0);
  for (int64_t r = 0; r < rows; ++r) {
    float best = -INFINITY;
    int64_t chosen = 0;
    for (int64_t n = 0; n < 10; ++n) {
      float sum = floats(bias)[n];
      for (int k = 0; k < 64; ++k) sum += a[r * 64 + k] * b[n * 64 + k];
      if (sum > best) best = sum, chosen = n;
    }
    right += chosen == labels[r];
  }
  floats(out)[0] = static_cast<float>(right) / rows;
}
"""
mod = load_inline(name="kernel", cpp_sources=SOURCE, functions="kernel")


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(64, 10)

    def forward(self, x, labels):
        out = torch.empty(())
        mod.kernel(x, self.layer.weight, self.layer.bias, labels, out)
        return out
