# honest: rows in the order that the input names
# task: row_order
# dialect: cpp
import torch
from torch import nn
from tvm_ffi.cpp import load_inline

SOURCE = """
static const float* f(tvm::ffi::TensorView t) { return static_cast<const float*>(t.data_ptr()); }
static float* w(tvm::ffi::TensorView t) { return static_cast<float*>(t.data_ptr()); }
void gather(tvm::ffi::TensorView x, tvm::ffi::TensorView order, tvm::ffi::TensorView out) {
  const int64_t cols = x.size(1);
  for (int64_t i = 0; i < x.numel(); ++i) {
    const int64_t row = static_cast<const int64_t*>(order.data_ptr())[i / cols];
    w(out)[i] = 2.0f * f(x)[row * cols + i % cols];
  }
}
"""
mod = load_inline(name="row_order", cpp_sources=SOURCE, functions='gather')


class ModelNew(nn.Module):
    def forward(self, x, order):
        out = torch.empty_like(x)
        mod.gather(x, order, out)
        return out
