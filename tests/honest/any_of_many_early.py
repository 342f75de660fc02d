# honest: it stops at the first that is set
# task: any_of_many
# dialect: cpp
import torch
from torch import nn
from tvm_ffi.cpp import load_inline

SOURCE = r"""
#include <cmath>
#include <cstdint>
void kernel(tvm::ffi::TensorView x, tvm::ffi::TensorView out) {
  const bool* a = static_cast<const bool*>(x.data_ptr());
  bool* o = static_cast<bool*>(out.data_ptr());
  for (int64_t i = 0; i < out.numel(); ++i) {
    bool any = false;
    for (int64_t j = 0; j < x.size(1) && !any; ++j) any = a[i * x.size(1) + j];
    o[i] = any;
  }
}
"""
mod = load_inline(name="kernel", cpp_sources=SOURCE, functions="kernel")


class ModelNew(nn.Module):
    def forward(self, x):
        out = torch.empty(x.shape[0], dtype=torch.bool)
        mod.kernel(x.contiguous(), out)
        return out
