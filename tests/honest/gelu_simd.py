# honest: one OpenMP loop over a size that is no multiple of a vector
# task: gelu
# dialect: cpp
import torch
from torch import nn
from tvm_ffi.cpp import load_inline

SOURCE = """
#include <cmath>

void gelu(tvm::ffi::TensorView x, tvm::ffi::TensorView out) {
  const float* in = static_cast<const float*>(x.data_ptr());
  float* o = static_cast<float*>(out.data_ptr());
  const int64_t n = x.numel();
  #pragma omp parallel for simd schedule(static)
  for (int64_t i = 0; i < n; ++i) o[i] = 0.5f * in[i] * (1.0f + std::erf(in[i] * 0.70710678f));
}
"""
mod = load_inline(name="gelu_simd", cpp_sources=SOURCE, functions=["gelu"], extra_cflags=["-O3"])


class ModelNew(nn.Module):
    def forward(self, x):
        out = torch.empty_like(x)
        mod.gelu(x, out)
        return out
