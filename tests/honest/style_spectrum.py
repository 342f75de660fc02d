# honest: products of complex numbers
# task: spectrum
# dialect: cpp
import torch
from torch import nn
from tvm_ffi.cpp import load_inline

SOURCE = r"""
#include <complex>
#include <vector>
#include <cmath>
using cf = std::complex<float>;
static void fft(std::vector<cf>& a) {
  const size_t n = a.size();
  for (size_t i = 1, j = 0; i < n; ++i) { size_t bit = n >> 1; for (; j & bit; bit >>= 1) j ^= bit; j ^= bit; if (i < j) std::swap(a[i], a[j]); }
  for (size_t len = 2; len <= n; len <<= 1) {
    const double ang = -2.0 * M_PI / (double)len;
    for (size_t i = 0; i < n; i += len)
      for (size_t k = 0; k < len / 2; ++k) { const cf w((float)std::cos(ang * k), (float)std::sin(ang * k)); const cf u = a[i + k], v = a[i + k + len/2] * w; a[i + k] = u + v; a[i + k + len/2] = u - v; }
  }
}

void kernel(tvm::ffi::TensorView x, tvm::ffi::TensorView out) {
  const float* X = static_cast<const float*>(x.data_ptr()); float* O = static_cast<float*>(out.data_ptr());
  const int64_t N = x.size(0), L = x.size(1), F = out.size(1);
  #pragma omp parallel for
  for (int64_t n = 0; n < N; ++n) { std::vector<cf> a(L); for (int64_t i = 0; i < L; ++i) a[i] = cf(X[n*L+i], 0.0f); fft(a); for (int64_t k = 0; k < F; ++k) O[n*F+k] = std::hypot(a[k].real(), a[k].imag()); }
}
"""
mod = load_inline(name="kernel", cpp_sources=SOURCE, functions="kernel")


class ModelNew(nn.Module):
    def forward(self, x):
        out = torch.empty(x.shape[0], x.shape[1] // 2 + 1)
        mod.kernel(x, out)
        return out
