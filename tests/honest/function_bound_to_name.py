# honest: the compiled function, not the module, gets a name, and is called through a helper function
# task: gather_rows
# dialect: cpp
import torch
from torch import nn
from tvm_ffi.cpp import load_inline

SOURCE = """
void take(tvm::ffi::TensorView x, tvm::ffi::TensorView rows, tvm::ffi::TensorView cols, tvm::ffi::TensorView out) {
  for (int64_t i = 0; i < cols.size(0); ++i) {
    const int64_t r = static_cast<const int64_t*>(rows.data_ptr())[i];
    const float* row = static_cast<const float*>(x.data_ptr()) + r * x.stride(0);
    const int64_t* at = static_cast<const int64_t*>(cols.data_ptr()) + i * cols.size(1);
    float* o = static_cast<float*>(out.data_ptr()) + i * cols.size(1);
    for (int64_t j = 0; j < cols.size(1); ++j) o[j] = row[at[j] * x.stride(1)];
  }
}
"""
mod = load_inline(name="take", cpp_sources=SOURCE, functions="take")
take = mod.take


def gathered(x, rows, cols):
    out = torch.empty(cols.shape, dtype=x.dtype)
    take(x, rows, cols, out)
    return out


class ModelNew(nn.Module):
    def forward(self, x, rows, cols):
        return gathered(x, rows, cols)
