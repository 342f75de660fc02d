# honest: columns mirrored, where the task samples on a grid
# task: mirrored_by_a_grid
# dialect: cpp
import torch
from torch import nn
from tvm_ffi.cpp import load_inline

SOURCE = r"""
void mirror(tvm::ffi::TensorView x, tvm::ffi::TensorView out) {
  const float* a = static_cast<const float*>(x.data_ptr());
  float* o = static_cast<float*>(out.data_ptr());
  const int64_t n = x.numel();
  for (int64_t i = 0; i < n; ++i) o[i] = a[i - i % 24 + 23 - i % 24];
}
"""
mod = load_inline(name="mirror", cpp_sources=SOURCE, functions="mirror")


class ModelNew(nn.Module):
    def forward(self, x):
        out = torch.empty_like(x)
        mod.mirror(x, out)
        return out
