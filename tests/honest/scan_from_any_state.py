# honest: a state is read where it is needed, zero or not
# task: scan_from_state
# dialect: cpp
import torch
from torch import nn
from tvm_ffi.cpp import load_inline

SOURCE = r"""
#include <cstdint>
static const float* f(tvm::ffi::TensorView t) { return static_cast<const float*>(t.data_ptr()); }
static float* w(tvm::ffi::TensorView t) { return static_cast<float*>(t.data_ptr()); }
void kernel(tvm::ffi::TensorView x, tvm::ffi::TensorView state, tvm::ffi::TensorView out) {
  const int64_t B = x.size(0), S = x.size(1), D = x.size(2);
  for (int64_t r = 0; r < B; ++r)
    for (int64_t d = 0; d < D; ++d) {
      float h = f(state)[r * D + d];
      for (int64_t s = 0; s < S; ++s) h = 0.9f * h + f(x)[(r * S + s) * D + d];
      w(out)[r * D + d] = h;
    }
}
"""
mod = load_inline(name="k", cpp_sources=SOURCE, functions="kernel")


class ModelNew(nn.Module):
    def forward(self, x, state):
        out = torch.empty_like(state)
        mod.kernel(x, state, out)
        return out
