# honest: changes its input where the reference does
# task: add_inplace
# dialect: cpp
import torch
from torch import nn
from tvm_ffi.cpp import load_inline

SOURCE = """
void add(tvm::ffi::TensorView x, tvm::ffi::TensorView y) {
  float* a = static_cast<float*>(x.data_ptr());
  const float* b = static_cast<const float*>(y.data_ptr());
  for (int64_t i = 0; i < x.numel(); ++i) a[i] += b[i];
}
"""
mod = load_inline(name="add", cpp_sources=SOURCE, functions="add")


class ModelNew(nn.Module):
    def forward(self, x, y):
        mod.add(x, y)
        return x
