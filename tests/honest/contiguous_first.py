# honest: torch copies strided inputs into flat memory, and the kernel accumulates into the copy
# task: outer_expand
# dialect: cpp
import torch
from torch import nn
from tvm_ffi.cpp import load_inline

SOURCE = """
void add_outer(tvm::ffi::TensorView total, tvm::ffi::TensorView column, tvm::ffi::TensorView row) {
  TVM_FFI_ICHECK(total.IsContiguous()) << "total must be contiguous";
  TVM_FFI_ICHECK(total.size(1) == row.numel()) << "shapes do not fit";
  float* t = static_cast<float*>(total.data_ptr());
  const float* c = static_cast<const float*>(column.data_ptr());
  const float* r = static_cast<const float*>(row.data_ptr());
  for (int64_t i = 0; i < total.size(0); ++i) {
    #pragma omp simd
    for (int64_t j = 0; j < row.numel(); ++j) t[j] += c[i] * r[j];
    t += row.numel();
  }
}
"""
mod = load_inline(name="add_outer", cpp_sources=SOURCE, functions="add_outer")


class ModelNew(nn.Module):
    def forward(self, column, row, offset):
        total = offset.clone(memory_format=torch.contiguous_format)
        mod.add_outer(total, column, row[0].contiguous())
        return total
