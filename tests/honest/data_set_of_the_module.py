# honest: rows of a data set, clipped
# task: data_set_of_the_module
# dialect: cpp
import torch
from torch import nn
from tvm_ffi.cpp import load_inline

SOURCE = r"""
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>

using Tensor = tvm::ffi::TensorView;

void kernel(Tensor x_, Tensor out_) {
  const float* x = static_cast<const float*>(x_.data_ptr());
  float* out = static_cast<float*>(out_.data_ptr());
  for (int64_t i = 0; i < x_.numel(); ++i) out[i] = std::clamp(x[i], -6.0f, 6.0f) * 2.0f;
}
"""
mod = load_inline(name="kernel", cpp_sources=SOURCE, functions="kernel")


class ModelNew(nn.Module):
    def forward(self, x):
        out = torch.empty_like(x)
        mod.kernel(x.contiguous(), out)
        return out
