# honest: sums 65,535 magnitudes one after another in float32
# task: l1_norm_long
# dialect: cpp
import torch
from torch import nn
from tvm_ffi.cpp import load_inline

SOURCE = """
#include <cmath>
void l1_norm(tvm::ffi::TensorView x, tvm::ffi::TensorView out) {
  const int64_t rows = x.size(0), columns = x.size(1);
  #pragma omp parallel for
  for (int64_t r = 0; r < rows; ++r) {
    const float* a = static_cast<const float*>(x.data_ptr()) + r * columns;
    float* o = static_cast<float*>(out.data_ptr()) + r * columns;
    float sum = 0.0f;
    for (int64_t i = 0; i < columns; ++i) sum += std::fabs(a[i]);
    const float scale = columns / sum;
    for (int64_t i = 0; i < columns; ++i) o[i] = a[i] * scale;
  }
}
"""
mod = load_inline(name="l1_norm_long_plain", cpp_sources=SOURCE, functions="l1_norm")


class ModelNew(nn.Module):
    def forward(self, x):
        out = torch.empty_like(x)
        mod.l1_norm(x, out)
        return out
