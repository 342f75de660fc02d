# honest: half converted eight at a time by F16C, with a scalar tail and a scalar fallback
# task: gelu_tanh_fp16
# dialect: cpp
import torch
from torch import nn
from tvm_ffi.cpp import load_inline

SOURCE = """
#include <cmath>
#ifdef __F16C__
#include <immintrin.h>
#endif

static inline float gelu(float v) {
  return 0.5f * v * (1.0f + std::tanh(0.7978845608f * v * (1.0f + 0.044715f * v * v)));
}

void gelu_tanh(tvm::ffi::TensorView x, tvm::ffi::TensorView out) {
  const _Float16* in = static_cast<const _Float16*>(x.data_ptr());
  _Float16* o = static_cast<_Float16*>(out.data_ptr());
  const int64_t n = x.numel();
  int64_t i = 0;
#ifdef __F16C__
  for (; i + 8 <= n; i += 8) {
    alignas(32) float lane[8];
    _mm256_store_ps(lane, _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(in + i))));
    for (float& v : lane) v = gelu(v);
    const __m128i half = _mm256_cvtps_ph(_mm256_load_ps(lane), _MM_FROUND_TO_NEAREST_INT);
    _mm_storeu_si128(reinterpret_cast<__m128i*>(o + i), half);
  }
#endif
  for (; i < n; ++i) o[i] = static_cast<_Float16>(gelu(in[i]));
}
"""
mod = load_inline(name="half_intrinsics", cpp_sources=SOURCE, functions="gelu_tanh")


class ModelNew(nn.Module):
    def forward(self, x):
        out = torch.empty(x.shape, dtype=torch.float16)
        mod.gelu_tanh(x, out)
        return out
