# honest: eight booleans are looked at as one word
# task: any_of_eight
# dialect: cpp
import torch
from torch import nn
from tvm_ffi.cpp import load_inline

SOURCE = r"""
#include <cmath>
#include <cstdint>
void kernel(tvm::ffi::TensorView x, tvm::ffi::TensorView out) {
  const uint64_t* a = static_cast<const uint64_t*>(x.data_ptr());
  bool* o = static_cast<bool*>(out.data_ptr());
  for (int64_t i = 0; i < out.numel(); ++i) o[i] = a[i] != 0;
}
"""
mod = load_inline(name="kernel", cpp_sources=SOURCE, functions="kernel")


class ModelNew(nn.Module):
    def forward(self, x):
        out = torch.empty(x.shape[0], dtype=torch.bool)
        mod.kernel(x, out)
        return out
