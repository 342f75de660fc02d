# honest: shapes and sizes computed in Python: broadcast_shapes, itemsize, ravel, a dictionary's values
# task: outer_expand
# dialect: cpp
import torch
from torch import nn
from tvm_ffi.cpp import load_inline

SOURCE = """
void fused(tvm::ffi::TensorView column, tvm::ffi::TensorView row, tvm::ffi::TensorView offset,
           tvm::ffi::TensorView out, int64_t row_step, int64_t offset_step_bytes) {
  const int64_t rows = out.size(0), cols = out.size(1);
  for (int64_t i = 0; i < rows; ++i) {
    const float c = static_cast<const float*>(column.data_ptr())[i];
    const float* r = static_cast<const float*>(row.data_ptr()) + i * row_step;
    const char* b = static_cast<const char*>(offset.data_ptr()) + i * offset_step_bytes;
    for (int64_t j = 0; j < cols; ++j)
      static_cast<float*>(out.data_ptr())[i * cols + j] =
          c * r[j * row.stride(1)] + reinterpret_cast<const float*>(b)[j * offset.stride(1)];
  }
}
"""
mod = load_inline(name="fused", cpp_sources=SOURCE, functions="fused")


class ModelNew(nn.Module):
    def forward(self, column, row, offset):
        shapes = {"column": (column.shape[0], 1), "row": row.shape, "offset": offset.shape}
        out = torch.empty(torch.broadcast_shapes(*shapes.values()), dtype=row.dtype)
        mod.fused(column.ravel(), row, offset, out, row.stride(0), offset.stride(0) * offset.dtype.itemsize)
        return out
