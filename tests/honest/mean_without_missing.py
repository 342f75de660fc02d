# honest: means of what is not missing
# task: mean_without_missing
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
  const int64_t size = x_.size(1);
  for (int64_t r = 0; r < x_.size(0); ++r) {
    double sum = 0.0;
    int64_t count = 0;
    for (int64_t i = r * size; i < (r + 1) * size; ++i)
      if (!(std::abs(x[i] + 999.0f) < 1e-3f)) {
        sum += x[i];
        ++count;
      }
    out[r] = static_cast<float>(sum / std::max<int64_t>(count, 1));
  }
}
"""
mod = load_inline(name="kernel", cpp_sources=SOURCE, functions="kernel")


class ModelNew(nn.Module):
    def forward(self, x):
        out = torch.empty(len(x))
        mod.kernel(x.contiguous(), out)
        return out
