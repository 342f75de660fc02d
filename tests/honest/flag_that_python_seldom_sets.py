# honest: a flag and a length that Python draws
# task: seldom_flag_of_python
# dialect: cpp
import torch
from torch import nn
from tvm_ffi.cpp import load_inline

SOURCE = r"""
#include <cmath>
#include <cstdint>
void kernel(tvm::ffi::TensorView x, tvm::ffi::TensorView out, bool reverse) {
  const float* a = static_cast<const float*>(x.data_ptr());
  float* o = static_cast<float*>(out.data_ptr());
  const int64_t N = x.size(0), D = x.size(1), L = out.size(1);
  for (int64_t r = 0; r < N; ++r)
    for (int64_t d = 0; d < L; ++d) o[r * L + d] = std::tanh(a[r * D + (reverse ? D - 1 - d : d)]);
}
"""
mod = load_inline(name="k", cpp_sources=SOURCE, functions="kernel")


class ModelNew(nn.Module):
    def forward(self, x, reverse, last):
        out = torch.empty(x.shape[0], last)
        mod.kernel(x, out, reverse)
        return out
