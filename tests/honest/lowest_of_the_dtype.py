# honest: what is not among the largest is the lowest number of its dtype
# task: top_k_filter
# dialect: cpp
import torch
from torch import nn
from tvm_ffi.cpp import load_inline

SOURCE = """
#include <algorithm>
#include <cfloat>
#include <functional>
#include <vector>

void run(tvm::ffi::TensorView x, tvm::ffi::TensorView out) {
  const float* a = static_cast<const float*>(x.data_ptr());
  float* o = static_cast<float*>(out.data_ptr());
  const int64_t rows = x.size(0), cols = x.size(1);
  for (int64_t r = 0; r < rows; ++r) {
    const float* row = a + r * cols;
    std::vector<float> values(row, row + cols);
    std::nth_element(values.begin(), values.begin() + 4, values.end(), std::greater<float>());
    for (int64_t c = 0; c < cols; ++c) o[r * cols + c] = row[c] < values[4] ? -FLT_MAX : row[c];
  }
}
"""
mod = load_inline(name="lowest_of_the_dtype", cpp_sources=SOURCE, functions="run", extra_cflags=["-O2", "-fopenmp"])


class ModelNew(nn.Module):
    def forward(self, x):
        out = torch.empty_like(x)
        mod.run(x, out)
        return out
