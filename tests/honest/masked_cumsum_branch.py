# honest: the mask is 0 or 1: a branch instead of a product
# task: masked_cumsum
# dialect: cpp
import torch
from torch import nn
from tvm_ffi.cpp import load_inline

SOURCE = """
static const float* f(tvm::ffi::TensorView t) { return static_cast<const float*>(t.data_ptr()); }
static float* w(tvm::ffi::TensorView t) { return static_cast<float*>(t.data_ptr()); }
void scan(tvm::ffi::TensorView x, tvm::ffi::TensorView mask, tvm::ffi::TensorView out) {
  const int64_t cols = x.size(1);
  for (int64_t r = 0; r < x.size(0); ++r) {
    float sum = 0.0f;
    for (int64_t i = r * cols; i < (r + 1) * cols; ++i) {
      if (static_cast<const bool*>(mask.data_ptr())[i]) sum += f(x)[i];
      w(out)[i] = sum;
    }
  }
}
"""
mod = load_inline(name="masked_cumsum", cpp_sources=SOURCE, functions='scan')


class ModelNew(nn.Module):
    def forward(self, x, mask):
        out = torch.empty_like(x)
        mod.scan(x, mask, out)
        return out
