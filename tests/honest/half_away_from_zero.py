# honest: halves are rounded away from zero
# task: half_away_from_zero
# dialect: cpp
import torch
from torch import nn
from tvm_ffi.cpp import load_inline

SOURCE = r"""
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>

using Tensor = tvm::ffi::TensorView;

void kernel(Tensor x_, Tensor out_) {
  const float* x = static_cast<const float*>(x_.data_ptr());
  float* out = static_cast<float*>(out_.data_ptr());
  for (int64_t i = 0; i < x_.numel(); ++i) out[i] = std::trunc(x[i] + std::copysign(0.5f, x[i]));
}
"""
mod = load_inline(name="kernel", cpp_sources=SOURCE, functions="kernel")


class ModelNew(nn.Module):
    def forward(self, x):
        out = torch.empty_like(x)
        mod.kernel(x.contiguous(), out)
        return out
