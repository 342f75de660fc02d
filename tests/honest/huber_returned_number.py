# honest: the kernel returns a Python number, and torch makes a tensor of it
# task: huber
# dialect: cpp
import torch
from torch import nn
from tvm_ffi.cpp import load_inline

SOURCE = """
#include <cmath>

double huber_mean(tvm::ffi::TensorView prediction, tvm::ffi::TensorView target, double delta) {
  const float* p = static_cast<const float*>(prediction.data_ptr());
  const float* t = static_cast<const float*>(target.data_ptr());
  double sum = 0.0;
  for (int64_t i = 0; i < prediction.numel(); ++i) {
    const double e = std::fabs(static_cast<double>(p[i]) - t[i]), clipped = std::fmin(e, delta);
    sum += clipped * (e - 0.5 * clipped);
  }
  return sum / prediction.numel();
}
"""
mod = load_inline(name="huber_mean", cpp_sources=SOURCE, functions="huber_mean")


class ModelNew(nn.Module):
    def __init__(self, delta):
        super().__init__()
        self.delta = delta

    def forward(self, prediction, target):
        return torch.tensor(mod.huber_mean(prediction, target, self.delta), dtype=prediction.dtype)
