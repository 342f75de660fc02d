# honest: LU with partial pivoting, and two triangles solved
# task: linear_systems
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

void solve(tvm::ffi::TensorView a_, tvm::ffi::TensorView b_, tvm::ffi::TensorView x_) {
  const int64_t count = a_.size(0), n = a_.size(1), columns = b_.size(2);
  const float* a = static_cast<const float*>(a_.data_ptr());
  const float* right = static_cast<const float*>(b_.data_ptr());
  std::vector<int64_t> pivots(n);
  for (int64_t m = 0; m < count; ++m) {
    std::vector<float> lu(a + m * n * n, a + (m + 1) * n * n);
    factorise(lu.data(), n, pivots.data());
    float* x = static_cast<float*>(x_.data_ptr()) + m * n * columns;
    for (int64_t i = 0; i < n * columns; ++i) x[i] = right[m * n * columns + i];
    for (int64_t c = 0; c < columns; ++c) {
      for (int64_t k = 0; k < n; ++k) std::swap(x[k * columns + c], x[pivots[k] * columns + c]);
      for (int64_t i = 0; i < n; ++i)
        for (int64_t k = 0; k < i; ++k) x[i * columns + c] -= lu[i * n + k] * x[k * columns + c];
      for (int64_t i = n - 1; i >= 0; --i) {
        for (int64_t k = i + 1; k < n; ++k) x[i * columns + c] -= lu[i * n + k] * x[k * columns + c];
        x[i * columns + c] /= lu[i * n + i];
      }
    }
  }
}
"""
mod = load_inline(name="solve", cpp_sources=SOURCE, functions="solve", extra_cflags=["-O3"])


class ModelNew(nn.Module):
    def forward(self, a, b):
        out = torch.empty_like(b)
        mod.solve(a, b, out)
        return out
