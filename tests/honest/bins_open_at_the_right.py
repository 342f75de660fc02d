# honest: values at a bin's edge are in the next one
# task: edges_of_bins
# dialect: cpp
import torch
from torch import nn
from tvm_ffi.cpp import load_inline

SOURCE = r"""
#include <cmath>
#include <cstdint>
static const float* f(tvm::ffi::TensorView t) { return static_cast<const float*>(t.data_ptr()); }
void kernel(tvm::ffi::TensorView x, tvm::ffi::TensorView out) {
  const int64_t n = x.numel();
  int64_t* o = static_cast<int64_t*>(out.data_ptr()); const float e[4] = {-1.0f, -0.25f, 0.5f, 2.0f};
  for (int64_t k = 0; k < n; ++k) { int64_t b = 0; for (int j = 0; j < 4; ++j) b += f(x)[k] >= e[j]; o[k] = b; }
}
"""
mod = load_inline(name="k", cpp_sources=SOURCE, functions="kernel")


class ModelNew(nn.Module):
    def forward(self, x):
        out = torch.empty(x.shape, dtype=torch.int64)
        mod.kernel(x, out)
        return out
