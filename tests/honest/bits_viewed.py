# honest: the sign bit is taken away
# task: without_sign_bit
# dialect: cpp
import torch
from torch import nn
from tvm_ffi.cpp import load_inline

SOURCE = """
#include <cmath>

void run(tvm::ffi::TensorView x, tvm::ffi::TensorView out) {
  const float* a = static_cast<const float*>(x.data_ptr());
  float* o = static_cast<float*>(out.data_ptr());
  for (int64_t i = 0; i < x.numel(); ++i) o[i] = std::fabs(a[i]);
}
"""
mod = load_inline(name="bits_viewed", cpp_sources=SOURCE, functions="run", extra_cflags=["-O2", "-fopenmp"])


class ModelNew(nn.Module):
    def forward(self, x):
        out = torch.empty_like(x)
        mod.run(x, out)
        return out
