# honest: a simd reduction that -ffast-math may reorder, in blocks so that it stays exact
# task: long_sum
# dialect: cpp
import torch
from torch import nn
from tvm_ffi.cpp import load_inline

SOURCE = """
#include <algorithm>

void row_sum(tvm::ffi::TensorView x, tvm::ffi::TensorView out) {
  constexpr int64_t BLOCK = 1000;
  const int64_t rows = x.size(0), cols = x.size(1);
  for (int64_t i = 0; i < rows; ++i) {
    const float* row = static_cast<const float*>(x.data_ptr()) + i * cols;
    double total = 0.0;
    #pragma omp parallel for reduction(+ : total)
    for (int64_t start = 0; start < cols; start += BLOCK) {
      float part = 0.0f;
      #pragma omp simd reduction(+ : part)
      for (int64_t j = start; j < std::min(start + BLOCK, cols); ++j) part += row[j];
      total += part;
    }
    static_cast<float*>(out.data_ptr())[i] = static_cast<float>(total);
  }
}
"""
mod = load_inline(
    name="sum_fast_math", cpp_sources=SOURCE, functions="row_sum", extra_cflags=["-O3", "-ffast-math", "-funroll-loops"]
)


class ModelNew(nn.Module):
    def forward(self, x):
        out = torch.zeros(x.shape[0], dtype=torch.float32)
        mod.row_sum(x, out)
        return out
