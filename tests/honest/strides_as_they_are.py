# honest: an expanded and a sliced input, read through their own strides
# task: outer_expand
# dialect: cpp
import torch
from torch import nn
from tvm_ffi.cpp import load_inline

SOURCE = """
struct Matrix {
  const float* data;
  int64_t down, right;
  explicit Matrix(tvm::ffi::TensorView t)
      : data(static_cast<const float*>(t.data_ptr())), down(t.stride(0)), right(t.stride(1)) {}
  float operator()(int64_t i, int64_t j) const { return data[i * down + j * right]; }
};

void outer(tvm::ffi::TensorView column, tvm::ffi::TensorView row, tvm::ffi::TensorView offset,
           tvm::ffi::TensorView out) {
  const float* c = static_cast<const float*>(column.data_ptr());
  const Matrix r(row), b(offset);
  float* o = static_cast<float*>(out.data_ptr());
  const int64_t rows = out.size(0), cols = out.size(1);
  #pragma omp parallel for
  for (int64_t i = 0; i < rows; ++i)
    for (int64_t j = 0; j < cols; ++j) o[i * cols + j] = c[i] * r(i, j) + b(i, j);
}
"""
mod = load_inline(name="outer", cpp_sources=SOURCE, functions="outer")


class ModelNew(nn.Module):
    def forward(self, column, row, offset):
        out = torch.empty(row.shape, dtype=row.dtype)
        mod.outer(column, row, offset, out)
        return out
