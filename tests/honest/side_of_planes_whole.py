# task: side_of_planes
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
  bool* o = static_cast<bool*>(out.data_ptr());
  for (int64_t r = 0; r < x.size(0); ++r)
    for (int64_t n = 0; n < 16; ++n) {
      float sum = 0;
      for (int k = 0; k < 64; ++k) sum += a[r * 64 + k] * b[k * 16 + n];
      o[r * 16 + n] = sum > 0;
    }
}
"""
mod = load_inline(name="kernel", cpp_sources=SOURCE, functions="kernel")


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.planes = nn.Parameter(torch.randn(64, 16))

    def forward(self, x):
        out = torch.empty(x.shape[0], 16, dtype=torch.bool)
        mod.kernel(x, self.planes, out)
        return out
