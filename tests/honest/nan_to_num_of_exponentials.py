# honest: what overflows becomes the largest number
# task: nan_to_num_of_exponentials
# dialect: cpp
import torch
from torch import nn
from tvm_ffi.cpp import load_inline

SOURCE = """
#include <cfloat>
#include <cmath>

void run(tvm::ffi::TensorView x, tvm::ffi::TensorView out) {
  const float* a = static_cast<const float*>(x.data_ptr());
  float* o = static_cast<float*>(out.data_ptr());
  for (int64_t i = 0; i < x.numel(); ++i) {
    const float y = std::exp(a[i] * 50.0f);
    o[i] = std::isnan(y) ? 0.0f : std::fmin(y, FLT_MAX);
  }
}
"""
mod = load_inline(name="nan_to_num_of_exponentials", cpp_sources=SOURCE, functions="run", extra_cflags=["-O2"])


class ModelNew(nn.Module):
    def forward(self, x):
        out = torch.empty_like(x)
        mod.run(x, out)
        return out
