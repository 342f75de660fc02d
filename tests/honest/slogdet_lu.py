# honest: LU with partial pivoting, by rows
# task: slogdet
# dialect: cpp
import torch
from torch import nn
from tvm_ffi.cpp import load_inline

SOURCE = """
#include <cmath>
#include <utility>
#include <vector>

// Gaussian elimination with partial pivoting, in place; the sign of the permutation.
static float factorise(float* a, int64_t n, int64_t* pivots) {
  float sign = 1.0f;
  for (int64_t k = 0; k < n; ++k) {
    int64_t p = k;
    for (int64_t i = k + 1; i < n; ++i)
      if (std::fabs(a[i * n + k]) > std::fabs(a[p * n + k])) p = i;
    pivots[k] = p;
    if (p != k) {
      sign = -sign;
      for (int64_t j = 0; j < n; ++j) std::swap(a[p * n + j], a[k * n + j]);
    }
    if (a[k * n + k] == 0.0f) continue;
    for (int64_t i = k + 1; i < n; ++i) {
      const float m = a[i * n + k] /= a[k * n + k];
      for (int64_t j = k + 1; j < n; ++j) a[i * n + j] -= m * a[k * n + j];
    }
  }
  return sign;
}

void slogdet(tvm::ffi::TensorView a_, tvm::ffi::TensorView sign_, tvm::ffi::TensorView log_) {
  const int64_t count = a_.size(0), n = a_.size(1);
  const float* a = static_cast<const float*>(a_.data_ptr());
  std::vector<int64_t> pivots(n);
  for (int64_t b = 0; b < count; ++b) {
    std::vector<float> lu(a + b * n * n, a + (b + 1) * n * n);
    float sign = factorise(lu.data(), n, pivots.data()), log = 0.0f;
    for (int64_t k = 0; k < n; ++k) {
      const float d = lu[k * n + k];
      sign = d < 0.0f ? -sign : d == 0.0f ? 0.0f : sign;
      log += std::log(std::fabs(d));
    }
    static_cast<float*>(sign_.data_ptr())[b] = sign;
    static_cast<float*>(log_.data_ptr())[b] = log;
  }
}
"""
mod = load_inline(name="slogdet", cpp_sources=SOURCE, functions="slogdet", extra_cflags=["-O3"])


class ModelNew(nn.Module):
    def forward(self, a):
        sign, log = torch.empty(a.shape[0]), torch.empty(a.shape[0])
        mod.slogdet(a, sign, log)
        return sign, log
