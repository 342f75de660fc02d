# honest: a clamp of numbers that the task draws within its limits
# task: clamp_beside_numpy
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
  for (int64_t i = 0; i < x_.numel(); ++i) out[i] = std::clamp(std::nearbyint(x[i] * 255.0f), 0.0f, 255.0f);
}
"""
mod = load_inline(name="kernel", cpp_sources=SOURCE, functions="kernel")


class ModelNew(nn.Module):
    def forward(self, x):
        out = torch.empty_like(x)
        mod.kernel(x.contiguous(), out)
        return out
