# honest: Strassen's algorithm, one level
# task: matmul_square
# dialect: cpp
import torch
from torch import nn
from tvm_ffi.cpp import load_inline

SOURCE = """
#include <vector>
static void add(const float* a, const float* b, float* out, int64_t h, int64_t n, float sign) {
  for (int64_t i = 0; i < h; ++i)
    for (int64_t j = 0; j < h; ++j) out[i * h + j] = a[i * n + j] + sign * b[i * n + j];
}
static void multiply(const float* a, int64_t lda, const float* b, int64_t ldb, float* out, int64_t h) {
  for (int64_t i = 0; i < h; ++i) {
    for (int64_t j = 0; j < h; ++j) out[i * h + j] = 0.0f;
    for (int64_t k = 0; k < h; ++k)
      for (int64_t j = 0; j < h; ++j) out[i * h + j] += a[i * lda + k] * b[k * ldb + j];
  }
}
void strassen(tvm::ffi::TensorView a_, tvm::ffi::TensorView b_, tvm::ffi::TensorView c_) {
  const int64_t n = a_.size(0), h = n / 2;
  const float* a = static_cast<const float*>(a_.data_ptr());
  const float* b = static_cast<const float*>(b_.data_ptr());
  float* c = static_cast<float*>(c_.data_ptr());
  const float *a11 = a, *a12 = a + h, *a21 = a + h * n, *a22 = a + h * n + h;
  const float *b11 = b, *b12 = b + h, *b21 = b + h * n, *b22 = b + h * n + h;
  std::vector<float> s(h * h), t(h * h), m1(h * h), m2(h * h), m3(h * h), m4(h * h), m5(h * h), m6(h * h), m7(h * h);
  add(a11, a22, s.data(), h, n, 1); add(b11, b22, t.data(), h, n, 1); multiply(s.data(), h, t.data(), h, m1.data(), h);
  add(a21, a22, s.data(), h, n, 1); multiply(s.data(), h, b11, n, m2.data(), h);
  add(b12, b22, t.data(), h, n, -1); multiply(a11, n, t.data(), h, m3.data(), h);
  add(b21, b11, t.data(), h, n, -1); multiply(a22, n, t.data(), h, m4.data(), h);
  add(a11, a12, s.data(), h, n, 1); multiply(s.data(), h, b22, n, m5.data(), h);
  add(a21, a11, s.data(), h, n, -1); add(b11, b12, t.data(), h, n, 1); multiply(s.data(), h, t.data(), h, m6.data(), h);
  add(a12, a22, s.data(), h, n, -1); add(b21, b22, t.data(), h, n, 1); multiply(s.data(), h, t.data(), h, m7.data(), h);
  for (int64_t i = 0; i < h; ++i)
    for (int64_t j = 0; j < h; ++j) {
      const int64_t k = i * h + j;
      c[i * n + j] = m1[k] + m4[k] - m5[k] + m7[k];
      c[i * n + h + j] = m3[k] + m5[k];
      c[(h + i) * n + j] = m2[k] + m4[k];
      c[(h + i) * n + h + j] = m1[k] - m2[k] + m3[k] + m6[k];
    }
}
"""
mod = load_inline(name="matmul_strassen", cpp_sources=SOURCE, functions="strassen")


class ModelNew(nn.Module):
    def forward(self, a, b):
        out = torch.empty_like(a)
        mod.strassen(a, b, out)
        return out
