# honest: equal values keep their order
# task: sort_rows
# dialect: cpp
import torch
from torch import nn
from tvm_ffi.cpp import load_inline

SOURCE = """
static const float* f(tvm::ffi::TensorView t) { return static_cast<const float*>(t.data_ptr()); }
static float* w(tvm::ffi::TensorView t) { return static_cast<float*>(t.data_ptr()); }
#include <algorithm>
#include <numeric>
void sort_rows(tvm::ffi::TensorView x, tvm::ffi::TensorView values, tvm::ffi::TensorView indices) {
  const int64_t cols = x.size(1);
  for (int64_t r = 0; r < x.size(0); ++r) {
    const float* row = f(x) + r * cols;
    int64_t* order = static_cast<int64_t*>(indices.data_ptr()) + r * cols;
    std::iota(order, order + cols, 0);
    std::sort(order, order + cols, [row](int64_t p, int64_t q) { return row[p] < row[q] || (row[p] == row[q] && p < q); });
    for (int64_t c = 0; c < cols; ++c) w(values)[r * cols + c] = row[order[c]];
  }
}
"""
mod = load_inline(name="sort_rows", cpp_sources=SOURCE, functions='sort_rows')


class ModelNew(nn.Module):
    def forward(self, x):
        values = torch.empty_like(x)
        indices = torch.empty(x.shape, dtype=torch.int64)
        mod.sort_rows(x, values, indices)
        return values, indices
