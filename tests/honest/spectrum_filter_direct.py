# honest: a discrete Fourier transform by its formula, a filter, and back
# task: spectrum_filter
# dialect: cpp
import torch
from torch import nn
from tvm_ffi.cpp import load_inline

SOURCE = """
#include <cmath>
#include <vector>
void filter(tvm::ffi::TensorView x, tvm::ffi::TensorView f, tvm::ffi::TensorView out) {
  const int64_t rows = x.size(0), n = x.size(1), half = n / 2 + 1;
  const float* a = static_cast<const float*>(x.data_ptr());
  const float* w = static_cast<const float*>(f.data_ptr());
  float* o = static_cast<float*>(out.data_ptr());
  std::vector<float> c(n), s(n), re(half), im(half);
  for (int64_t i = 0; i < n; ++i) {
    c[i] = std::cos(2 * M_PI * i / n);
    s[i] = std::sin(2 * M_PI * i / n);
  }
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t k = 0; k < half; ++k) {
      float x_re = 0, x_im = 0;
      for (int64_t i = 0; i < n; ++i) {
        x_re += a[r * n + i] * c[(i * k) % n];
        x_im -= a[r * n + i] * s[(i * k) % n];
      }
      re[k] = x_re * w[k];
      im[k] = x_im * w[k];
    }
    for (int64_t i = 0; i < n; ++i) {
      float sum = re[0] + (i % 2 ? -re[half - 1] : re[half - 1]);
      for (int64_t k = 1; k < half - 1; ++k) sum += 2 * (re[k] * c[(i * k) % n] - im[k] * s[(i * k) % n]);
      o[r * n + i] = sum / n;
    }
  }
}
"""
mod = load_inline(name="spectrum_filter_direct", cpp_sources=SOURCE, functions="filter")


class ModelNew(nn.Module):
    def __init__(self, length):
        super().__init__()
        self.filter = nn.Parameter(torch.randn(length // 2 + 1))

    def forward(self, x):
        out = torch.empty_like(x)
        mod.filter(x, self.filter, out)
        return out
