# honest: complex parameters are registered as pairs of real numbers
# task: filter_of_complex_ones
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

void kernel(Tensor x_, Tensor filter_, Tensor out_) {
  const float* x = static_cast<const float*>(x_.data_ptr());
  const float* filter = static_cast<const float*>(filter_.data_ptr());
  float* out = static_cast<float*>(out_.data_ptr());
  const int64_t size = filter_.size(0);
  for (int64_t i = 0; i < x_.numel() / 2; ++i) {
    const float re = filter[2 * (i % size)], im = filter[2 * (i % size) + 1];
    out[2 * i] = x[2 * i] * re - x[2 * i + 1] * im;
    out[2 * i + 1] = x[2 * i] * im + x[2 * i + 1] * re;
  }
}
"""
mod = load_inline(name="kernel", cpp_sources=SOURCE, functions="kernel")


class ModelNew(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.filter = nn.Parameter(torch.stack([torch.ones(size), torch.zeros(size)], dim=-1))

    def forward(self, x):
        out = torch.empty_like(x)
        mod.kernel(x.contiguous(), self.filter, out)
        return out
