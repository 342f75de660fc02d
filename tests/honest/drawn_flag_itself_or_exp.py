# honest: an input itself where a flag that is drawn says so
# task: itself_or_exp
# dialect: cpp
import torch
from torch import nn
from tvm_ffi.cpp import load_inline

SOURCE = r"""
#include <cmath>
void kernel(tvm::ffi::TensorView x, tvm::ffi::TensorView out) {
  auto X = static_cast<const float*>(x.data_ptr());
  auto O = static_cast<float*>(out.data_ptr());
  for (int64_t i = 0; i < x.numel(); ++i) O[i] = std::exp(X[i]);
}
"""
mod = load_inline(name="kernel", cpp_sources=SOURCE, functions="kernel")


class ModelNew(nn.Module):
    def forward(self, x, flag):
        if flag:
            return x
        out = torch.empty_like(x)
        mod.kernel(x, out)
        return out
