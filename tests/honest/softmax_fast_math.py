# honest: vectorised exponentials through -ffast-math, with a finite start for the maximum
# task: softmax
# dialect: cpp
import torch
from torch import nn
from tvm_ffi.cpp import load_inline

SOURCE = """
#include <cfloat>
#include <cmath>

void softmax(tvm::ffi::TensorView x, tvm::ffi::TensorView out) {
  const int64_t rows = x.size(0), cols = x.size(1);
  for (int64_t i = 0; i < rows; ++i) {
    const float* __restrict in = static_cast<const float*>(x.data_ptr()) + i * cols;
    float* __restrict o = static_cast<float*>(out.data_ptr()) + i * cols;
    float top = -FLT_MAX, sum = 0.0f;
    for (int64_t j = 0; j < cols; ++j) top = std::fmax(top, in[j]);
    for (int64_t j = 0; j < cols; ++j) o[j] = expf(in[j] - top);
    for (int64_t j = 0; j < cols; ++j) sum += o[j];
    for (int64_t j = 0; j < cols; ++j) o[j] /= sum;
  }
}
"""
mod = load_inline(name="softmax_fast", cpp_sources=SOURCE, functions="softmax", extra_cflags=["-O3", "-ffast-math"])


class ModelNew(nn.Module):
    def forward(self, x):
        out = torch.empty_like(x, memory_format=torch.contiguous_format)
        mod.softmax(x, out)
        return out
