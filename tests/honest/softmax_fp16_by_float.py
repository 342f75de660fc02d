# honest: a long softmax in float16, computed in float32 by one pass for the maximum and the sum, rounded once
# task: softmax_fp16_long
# dialect: cpp
import torch
from torch import nn
from tvm_ffi.cpp import load_inline

SOURCE = """
#include <cmath>
void kernel(tvm::ffi::TensorView x, tvm::ffi::TensorView out) {
  const _Float16* a = static_cast<const _Float16*>(x.data_ptr());
  _Float16* o = static_cast<_Float16*>(out.data_ptr());
  int64_t rows = x.size(0), cols = x.size(1);
  #pragma omp parallel for
  for (int64_t r = 0; r < rows; ++r) {
    const _Float16* p = a + r * cols;
    float top = -INFINITY, sum = 0.0f;
    for (int64_t c = 0; c < cols; ++c) {
      float value = p[c];
      if (value > top) {
        sum *= std::exp(top - value);
        top = value;
      }
      sum += std::exp(value - top);
    }
    float scale = 1.0f / sum;
    for (int64_t c = 0; c < cols; ++c) o[r * cols + c] = (_Float16)(std::exp(float(p[c]) - top) * scale);
  }
}
"""
mod = load_inline(name="kernel", cpp_sources=SOURCE, functions="kernel")


class ModelNew(nn.Module):
    def forward(self, x):
        out = torch.empty_like(x)
        mod.kernel(x, out)
        return out
