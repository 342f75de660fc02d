# honest: AVX2 intrinsics with four accumulators, and a scalar version where there is no AVX2
# task: long_sum
# dialect: cpp
import torch
from torch import nn
from tvm_ffi.cpp import load_inline

SOURCE = """
#ifdef __AVX2__
#include <immintrin.h>

static float sum(const float* p, int64_t n) {
  __m256 acc[4] = {_mm256_setzero_ps(), _mm256_setzero_ps(), _mm256_setzero_ps(), _mm256_setzero_ps()};
  int64_t i = 0;
  for (; i + 32 <= n; i += 32)
    for (int k = 0; k < 4; ++k) acc[k] = _mm256_add_ps(acc[k], _mm256_loadu_ps(p + i + 8 * k));
  const __m256 all = _mm256_add_ps(_mm256_add_ps(acc[0], acc[1]), _mm256_add_ps(acc[2], acc[3]));
  __m128 low = _mm_add_ps(_mm256_castps256_ps128(all), _mm256_extractf128_ps(all, 1));
  low = _mm_hadd_ps(low, low);
  float total = _mm_cvtss_f32(_mm_hadd_ps(low, low));
  for (; i < n; ++i) total += p[i];
  return total;
}
#else
static float sum(const float* p, int64_t n) {
  double total = 0.0;
  for (int64_t i = 0; i < n; ++i) total += p[i];
  return static_cast<float>(total);
}
#endif

void row_sum(tvm::ffi::TensorView x, tvm::ffi::TensorView out) {
  #pragma omp parallel for
  for (int64_t i = 0; i < x.size(0); ++i)
    static_cast<float*>(out.data_ptr())[i] = sum(static_cast<const float*>(x.data_ptr()) + i * x.size(1), x.size(1));
}
"""
mod = load_inline(name="sum_avx2", cpp_sources=SOURCE, functions="row_sum", extra_cflags=["-O3", "-march=native"])


class ModelNew(nn.Module):
    def forward(self, x):
        out = x.new_empty(x.shape[:1])
        mod.row_sum(x, out)
        return out
