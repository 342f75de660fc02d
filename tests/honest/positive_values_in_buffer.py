# honest: the output is a view of a buffer with room for all inputs; how much is used depends on the data
# task: positive_values
# dialect: cpp
import torch
from torch import nn
from tvm_ffi.cpp import load_inline

SOURCE = r"""
int64_t take(tvm::ffi::TensorView x, tvm::ffi::TensorView out) {
  const float* a = static_cast<const float*>(x.data_ptr());
  float* o = static_cast<float*>(out.data_ptr());
  int64_t n = x.numel(), found = 0;
  for (int64_t i = 0; i < n; ++i)
    if (a[i] > 0.0f) o[found++] = a[i];
  return found;
}
"""
mod = load_inline(name="positive", cpp_sources=SOURCE, functions="take")


class ModelNew(nn.Module):
    def forward(self, x):
        out = torch.empty(x.numel(), dtype=x.dtype)
        found = mod.take(x, out)
        return out[:found]
