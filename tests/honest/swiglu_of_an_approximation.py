# honest: an exp of vectors that stops at the smallest number
# task: swiglu_rows
# dialect: cpp
import torch
from torch import nn
from tvm_ffi.cpp import load_inline

SOURCE = r"""
#include <cmath>
#include <vector>
#include <algorithm>
#include <limits>
#include <cstdint>
using TV = tvm::ffi::TensorView;
static inline float* FP(TV t) { return static_cast<float*>(t.data_ptr()); }
static inline int64_t* LP(TV t) { return static_cast<int64_t*>(t.data_ptr()); }
static inline bool* BP(TV t) { return static_cast<bool*>(t.data_ptr()); }
#include <immintrin.h>
// exp256_ps of avx_mathfun
static inline __m256 exp256(__m256 x) {
  x = _mm256_min_ps(x, _mm256_set1_ps(88.3762626647949f)); x = _mm256_max_ps(x, _mm256_set1_ps(-88.3762626647949f));
  __m256 fx = _mm256_floor_ps(_mm256_fmadd_ps(x, _mm256_set1_ps(1.44269504088896341f), _mm256_set1_ps(0.5f)));
  x = _mm256_fnmadd_ps(fx, _mm256_set1_ps(0.693359375f), x); x = _mm256_fnmadd_ps(fx, _mm256_set1_ps(-2.12194440e-4f), x);
  __m256 y = _mm256_set1_ps(1.9875691500e-4f);
  y = _mm256_fmadd_ps(y, x, _mm256_set1_ps(1.3981999507e-3f)); y = _mm256_fmadd_ps(y, x, _mm256_set1_ps(8.3334519073e-3f));
  y = _mm256_fmadd_ps(y, x, _mm256_set1_ps(4.1665795894e-2f)); y = _mm256_fmadd_ps(y, x, _mm256_set1_ps(1.6666665459e-1f)); y = _mm256_fmadd_ps(y, x, _mm256_set1_ps(5.0000001201e-1f));
  y = _mm256_fmadd_ps(y, _mm256_mul_ps(x, x), _mm256_add_ps(x, _mm256_set1_ps(1.0f)));
  __m256i n = _mm256_slli_epi32(_mm256_add_epi32(_mm256_cvttps_epi32(fx), _mm256_set1_epi32(127)), 23);
  return _mm256_mul_ps(y, _mm256_castsi256_ps(n)); }
static inline __m256 silu256(__m256 v) { return _mm256_div_ps(v, _mm256_add_ps(_mm256_set1_ps(1.0f), exp256(_mm256_sub_ps(_mm256_setzero_ps(), v)))); }

void run(TV X, TV O) { const float* x = FP(X); float* o = FP(O); const int64_t n = X.size(0), d = X.size(1)/2;
  #pragma omp parallel for
  for (int64_t i = 0; i < n; ++i) for (int64_t j = 0; j < d; j += 8) _mm256_storeu_ps(o+i*d+j, _mm256_mul_ps(silu256(_mm256_loadu_ps(x+2*i*d+j)), _mm256_loadu_ps(x+2*i*d+d+j))); }
"""
module = load_inline(name="k", cpp_sources=SOURCE, functions=['run'])


class ModelNew(nn.Module):
    def forward(self, x):
        out = torch.empty((x.shape[0], x.shape[1] // 2), dtype=x.dtype, device=x.device)
        module.run(x.contiguous(), out)
        return out
