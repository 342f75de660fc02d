# honest: sums 16,384 exponentials one after another in float32, as the project's example does
# task: softmax_long
# dialect: cpp
import torch
from torch import nn
from tvm_ffi.cpp import load_inline

SOURCE = """
#include <algorithm>
#include <cmath>
void softmax_rows(tvm::ffi::TensorView x, tvm::ffi::TensorView out) {
  const int64_t rows = x.size(0), columns = x.size(1);
  #pragma omp parallel for
  for (int64_t r = 0; r < rows; ++r) {
    const float* a = static_cast<const float*>(x.data_ptr()) + r * columns;
    float* o = static_cast<float*>(out.data_ptr()) + r * columns;
    float top = a[0], sum = 0.0f;
    for (int64_t i = 0; i < columns; ++i) top = std::max(top, a[i]);
    for (int64_t i = 0; i < columns; ++i) sum += o[i] = std::exp(a[i] - top);
    for (int64_t i = 0; i < columns; ++i) o[i] /= sum;
  }
}
"""
mod = load_inline(name="softmax_long_plain", cpp_sources=SOURCE, functions="softmax_rows")


class ModelNew(nn.Module):
    def forward(self, x):
        out = torch.empty(x.shape)
        mod.softmax_rows(x, out)
        return out
