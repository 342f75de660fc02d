# honest: NaN is 2, and infinity the largest number
# task: scaled_and_mended
# dialect: cpp
import torch
from torch import nn
from tvm_ffi.cpp import load_inline

SOURCE = r"""
#include <algorithm>
#include <cmath>
#include <cstdint>

using Tensor = tvm::ffi::TensorView;

void kernel(Tensor x_, Tensor y_, Tensor out_) {
  const float* x = static_cast<const float*>(x_.data_ptr());
  const float* y = static_cast<const float*>(y_.data_ptr());
  float* out = static_cast<float*>(out_.data_ptr());
  double sum = 0.0;
  for (int64_t i = 0; i < x_.numel(); ++i) sum += std::abs(x[i]);
  const float size = static_cast<float>(sum / x_.numel());
  for (int64_t i = 0; i < x_.numel(); ++i) {
    float mended = std::isnan(y[i]) ? 2.0f : std::clamp(y[i], -3.4028234663852886e38f, 3.4028234663852886e38f);
    out[i] = x[i] / size + mended;
  }
}
"""
mod = load_inline(name="kernel", cpp_sources=SOURCE, functions="kernel")


class ModelNew(nn.Module):
    def forward(self, x, y):
        out = torch.empty_like(x)
        mod.kernel(x.contiguous(), y.contiguous(), out)
        return out
