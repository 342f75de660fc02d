# honest: a number beside the tensors, which may be another one
# task: normalized_rows
# dialect: cpp
import torch
from torch import nn
from tvm_ffi.cpp import load_inline

SOURCE = """
#include <cmath>
void normalize(tvm::ffi::TensorView x, tvm::ffi::TensorView out, double eps) {
  const int64_t rows = x.size(0), cols = x.size(1);
  const float* a = static_cast<const float*>(x.data_ptr());
  float* o = static_cast<float*>(out.data_ptr());
  for (int64_t i = 0; i < rows; ++i) {
    float sum = 0.0f;
    for (int64_t j = 0; j < cols; ++j) sum += a[i * cols + j] * a[i * cols + j];
    const float factor = 1.0f / (std::sqrt(sum) + static_cast<float>(eps));
    for (int64_t j = 0; j < cols; ++j) o[i * cols + j] = a[i * cols + j] * factor;
  }
}
"""
mod = load_inline(name="normalize", cpp_sources=SOURCE, functions="normalize", extra_cflags=["-O3"])


class ModelNew(nn.Module):
    def forward(self, x, eps):
        out = torch.empty_like(x)
        mod.normalize(x, out, eps)
        return out
