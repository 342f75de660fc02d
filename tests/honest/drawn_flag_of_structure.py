# honest: outputs of another structure where a flag that is drawn says so
# task: exp_with_its_input
# dialect: cpp
import torch
from torch import nn
from tvm_ffi.cpp import load_inline

SOURCE = r"""
#include <cmath>
void total(tvm::ffi::TensorView x, tvm::ffi::TensorView out) {
  double s = 0;
  for (int64_t i = 0; i < x.numel(); ++i) s += static_cast<const float*>(x.data_ptr())[i];
  *static_cast<float*>(out.data_ptr()) = (float)s;
}

void kernel(tvm::ffi::TensorView x, tvm::ffi::TensorView out) {
  auto X = static_cast<const float*>(x.data_ptr());
  auto O = static_cast<float*>(out.data_ptr());
  for (int64_t i = 0; i < x.numel(); ++i) O[i] = std::exp(X[i]);
}
"""
mod = load_inline(name="kernel", cpp_sources=SOURCE, functions=["kernel", "total"])


class ModelNew(nn.Module):
    def forward(self, x, flag):
        out = torch.empty_like(x)
        mod.kernel(x, out)
        if not flag:
            return out, None
        total = torch.empty(())
        mod.total(out, total)
        return out, total
