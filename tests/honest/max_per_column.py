# honest: maximum and its first index over the first dimension, row by row; starts from the first row
# task: max_first
# dialect: cpp
import torch
from torch import nn
from tvm_ffi.cpp import load_inline

SOURCE = """
void max_first(tvm::ffi::TensorView x, tvm::ffi::TensorView values, tvm::ffi::TensorView indices) {
  const float* in = static_cast<const float*>(x.data_ptr());
  float* best = static_cast<float*>(values.data_ptr());
  int64_t* at = static_cast<int64_t*>(indices.data_ptr());
  const int64_t rows = x.size(0), cols = x.size(1);
  for (int64_t j = 0; j < cols; ++j) {
    best[j] = in[j];
    at[j] = 0;
  }
  for (int64_t i = 1; i < rows; ++i)
    for (int64_t j = 0; j < cols; ++j)
      if (in[i * cols + j] > best[j]) {
        best[j] = in[i * cols + j];
        at[j] = i;
      }
}
"""
mod = load_inline(name="max_per_column", cpp_sources=SOURCE, functions="max_first")


class ModelNew(nn.Module):
    def forward(self, x):
        values = x.new_empty(x.shape[1])
        indices = torch.empty(x.shape[1], dtype=torch.long)
        mod.max_first(x, values, indices)
        return values, indices
