# honest: a plain field of a format string holds the block size
# task: outer_expand
# dialect: cpp
import torch
from torch import nn
from tvm_ffi.cpp import load_inline

SOURCE = """
void outer(tvm::ffi::TensorView column, tvm::ffi::TensorView row, tvm::ffi::TensorView offset, tvm::ffi::TensorView out) {{
  const float* c = static_cast<const float*>(column.data_ptr());
  const float* r = static_cast<const float*>(row.data_ptr());
  const float* b = static_cast<const float*>(offset.data_ptr());
  float* o = static_cast<float*>(out.data_ptr());
  const int64_t rows = column.size(0), cols = row.size(0);
  #pragma omp parallel for schedule(static, {chunk})
  for (int64_t i = 0; i < rows; ++i)
    for (int64_t j = 0; j < cols; ++j) o[i * cols + j] = c[i] * r[j] + b[i * cols + j];
}}
""".format(chunk=16)

mod = load_inline(name="outer", cpp_sources=SOURCE, functions="outer")


class ModelNew(nn.Module):
    def forward(self, column, row, offset):
        out = torch.empty(row.shape, dtype=row.dtype)
        mod.outer(column, row[0].contiguous(), offset.contiguous(), out)
        return out
