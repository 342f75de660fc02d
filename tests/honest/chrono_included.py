# honest: a header of clocks that it never looks at, and variables with names of the C library's
# task: relu_scale
# dialect: cpp
import torch
from torch import nn
from tvm_ffi.cpp import load_inline

SOURCE = r"""
#include <chrono>
static float advance(float system, float fork) { return system > 0.0f ? system * fork : 0.0f; }
void kernel(tvm::ffi::TensorView x, tvm::ffi::TensorView out) {
  const float* a = static_cast<const float*>(x.data_ptr());
  float* o = static_cast<float*>(out.data_ptr());
  const float fork = 2.0f;
  #pragma omp parallel for
  for (int64_t i = 0; i < x.numel(); ++i) {
    const float system = a[i];
    o[i] = advance(system, fork);
  }
}
"""
mod = load_inline(name="kernel", cpp_sources=SOURCE, functions="kernel")


class ModelNew(nn.Module):
    def forward(self, x):
        out = torch.empty_like(x)
        mod.kernel(x, out)
        return out
