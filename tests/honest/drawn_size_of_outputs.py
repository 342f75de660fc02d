# honest: outputs of a size that is drawn
# task: squares_up_to
# dialect: cpp
import torch
from torch import nn
from tvm_ffi.cpp import load_inline

SOURCE = r"""
#include <cmath>
void kernel(tvm::ffi::TensorView x, tvm::ffi::TensorView out) {
  float a = *static_cast<const float*>(x.data_ptr());
  auto O = static_cast<float*>(out.data_ptr());
  for (int64_t i = 0; i < out.numel(); ++i) O[i] = (float)i * (float)i + a;
}
"""
mod = load_inline(name="kernel", cpp_sources=SOURCE, functions="kernel")


class ModelNew(nn.Module):
    def forward(self, x, n):
        out = torch.empty(n)
        mod.kernel(x, out)
        return out
