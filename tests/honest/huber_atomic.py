# honest: sums of blocks joined by omp atomic; delta is an argument of the constructor
# task: huber
# dialect: cpp
import torch
from torch import nn
from tvm_ffi.cpp import load_inline

SOURCE = """
#include <algorithm>
#include <cmath>

double huber_sum(tvm::ffi::TensorView prediction, tvm::ffi::TensorView target, double delta) {
  const float* p = static_cast<const float*>(prediction.data_ptr());
  const float* t = static_cast<const float*>(target.data_ptr());
  const int64_t n = prediction.numel();
  double total = 0.0;
  #pragma omp parallel for
  for (int64_t start = 0; start < n; start += 1024) {
    double part = 0.0;
    for (int64_t i = start; i < std::min<int64_t>(start + 1024, n); ++i) {
      const double e = std::fabs(static_cast<double>(p[i]) - t[i]);
      part += e < delta ? 0.5 * e * e : delta * (e - 0.5 * delta);
    }
    #pragma omp atomic
    total += part;
  }
  return total;
}

void huber(tvm::ffi::TensorView prediction, tvm::ffi::TensorView target, tvm::ffi::TensorView out, double delta) {
  *static_cast<float*>(out.data_ptr()) = static_cast<float>(huber_sum(prediction, target, delta) / prediction.numel());
}
"""
mod = load_inline(name="huber", cpp_sources=SOURCE, functions="huber")


class ModelNew(nn.Module):
    def __init__(self, delta):
        super().__init__()
        self.delta = delta

    def forward(self, prediction, target):
        out = torch.zeros(())
        mod.huber(prediction, target, out, self.delta)
        return out
