# honest: NaN is zero, and infinities are the largest numbers
# task: nan_to_largest
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
    const float y = std::log(a[i] < 0.0f ? 0.0f : a[i]);
    o[i] = std::isnan(y) ? 0.0f : y > FLT_MAX ? FLT_MAX : y < -FLT_MAX ? -FLT_MAX : y;
  }
}
"""
mod = load_inline(name="nan_to_num_of_logarithms", cpp_sources=SOURCE, functions="run", extra_cflags=["-O2", "-fopenmp"])


class ModelNew(nn.Module):
    def forward(self, x):
        out = torch.empty_like(x)
        mod.run(x, out)
        return out
