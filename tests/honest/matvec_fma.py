# honest: dot products by AVX2 fused multiply-add, or a simd reduction without it
# task: matvec
# dialect: cpp
import torch
from torch import nn
from tvm_ffi.cpp import load_inline

SOURCE = """
#if defined(__AVX2__) && defined(__FMA__)
#include <immintrin.h>
#endif

static float dot(const float* a, const float* b, int64_t n) {
  float total = 0.0f;
  int64_t i = 0;
#if defined(__AVX2__) && defined(__FMA__)
  __m256 sum = _mm256_setzero_ps();
  for (; i + 8 <= n; i += 8) sum = _mm256_fmadd_ps(_mm256_loadu_ps(a + i), _mm256_loadu_ps(b + i), sum);
  alignas(32) float lanes[8];
  _mm256_store_ps(lanes, sum);
  for (float lane : lanes) total += lane;
#endif
  #pragma omp simd reduction(+ : total)
  for (int64_t k = i; k < n; ++k) total += a[k] * b[k];
  return total;
}

void matvec(tvm::ffi::TensorView a, tvm::ffi::TensorView v, tvm::ffi::TensorView out) {
  const int64_t rows = a.size(0), cols = a.size(1);
  #pragma omp parallel for
  for (int64_t i = 0; i < rows; ++i)
    static_cast<float*>(out.data_ptr())[i] =
        dot(static_cast<const float*>(a.data_ptr()) + i * cols, static_cast<const float*>(v.data_ptr()), cols);
}
"""
mod = load_inline(name="matvec", cpp_sources=SOURCE, functions="matvec", extra_cflags=["-O3", "-mavx2", "-mfma"])


class ModelNew(nn.Module):
    def forward(self, a, v):
        out = torch.empty(a.shape[0])
        mod.matvec(a, v, out)
        return out
