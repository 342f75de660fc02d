# honest: torch's own load_inline with at::parallel_for
# task: linear_gelu
# dialect: cpp
# loader: torch
import math
import os
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.cpp_extension import load_inline
from typing import Optional, Tuple

_ext = None

CPP = """
#include <torch/extension.h>
#include <vector>
#include <cmath>

namespace {
template <typename T>
inline T gelu(T v) { return T(0.5) * v * (T(1) + std::erf(v * T(M_SQRT1_2))); }
}

torch::Tensor linear_gelu(const torch::Tensor& x, const torch::Tensor& w, const torch::Tensor& b) {
  TORCH_CHECK(x.dim() == 2, "x must be 2-D");
  TORCH_CHECK(x.is_contiguous() && w.is_contiguous());
  const auto M = x.size(0), K = x.size(1), N = w.size(0);
  auto out = torch::empty({M, N}, x.options());
  const float* xp = x.data_ptr<float>();
  const float* wp = w.data_ptr<float>();
  const float* bp = b.data_ptr<float>();
  float* op = out.data_ptr<float>();
  at::parallel_for(0, M, 1, [&](int64_t begin, int64_t end) {
    for (int64_t m = begin; m < end; ++m)
      for (int64_t n = 0; n < N; ++n) {
        float acc = bp[n];
        for (int64_t k = 0; k < K; ++k) acc += xp[m * K + k] * wp[n * K + k];
        op[m * N + n] = gelu(acc);
      }
  });
  return out;
}
"""

def get_ext():
    global _ext
    if _ext is None:
        _ext = load_inline(
            name="linear_gelu_ext",
            cpp_sources=[CPP],
            functions=["linear_gelu"],
            extra_cflags=["-O3", "-march=native", "-fopenmp"],
            extra_ldflags=["-lgomp"],
            verbose=False,
        )
    return _ext


class ModelNew(nn.Module):
    """Linear followed by exact GELU, fused."""

    def __init__(self, in_features: int, out_features: int) -> None:
        super(ModelNew, self).__init__()
        self.fc = nn.Linear(in_features, out_features)
        self._ext = get_ext()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self._ext.linear_gelu(x.contiguous(), self.fc.weight, self.fc.bias)
