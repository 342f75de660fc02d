# honest: what lies at the edge is zero
# task: hardshrink
# dialect: cpp
import torch
from torch import nn
from tvm_ffi.cpp import load_inline

SOURCE = """
#include <cmath>

void run(tvm::ffi::TensorView x, tvm::ffi::TensorView out) {
  const float* a = static_cast<const float*>(x.data_ptr());
  float* o = static_cast<float*>(out.data_ptr());
  for (int64_t i = 0; i < x.numel(); ++i) o[i] = std::fabs(a[i]) > 0.5f ? a[i] : 0.0f;
}
"""
mod = load_inline(name="hardshrink_strictly", cpp_sources=SOURCE, functions="run", extra_cflags=["-O2", "-fopenmp"])


class ModelNew(nn.Module):
    def forward(self, x):
        out = torch.empty_like(x)
        mod.run(x, out)
        return out
