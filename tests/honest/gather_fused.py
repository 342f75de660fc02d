# honest: index_select and gather fused into one indirect read
# task: gather_rows
# dialect: cpp
import torch
from torch import nn
from tvm_ffi.cpp import load_inline

SOURCE = """
void gather_rows(tvm::ffi::TensorView x, tvm::ffi::TensorView rows, tvm::ffi::TensorView cols,
                 tvm::ffi::TensorView out) {
  const float* in = static_cast<const float*>(x.data_ptr());
  const int64_t* r = static_cast<const int64_t*>(rows.data_ptr());
  const int64_t* c = static_cast<const int64_t*>(cols.data_ptr());
  float* o = static_cast<float*>(out.data_ptr());
  const int64_t kept = cols.size(1);
  for (int64_t i = 0; i < cols.numel(); ++i) o[i] = in[r[i / kept] * x.size(1) + c[i]];
}
"""
mod = load_inline(name="gather_rows", cpp_sources=SOURCE, functions="gather_rows")


class ModelNew(nn.Module):
    def forward(self, x, rows, cols):
        out = x.new_empty(cols.shape)
        mod.gather_rows(x, rows, cols, out)
        return out
