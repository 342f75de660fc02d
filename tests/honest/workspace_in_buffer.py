# honest: a work space of its own, registered as a buffer
# task: linear_gelu
# dialect: cpp
import torch
from torch import nn
from tvm_ffi.cpp import load_inline

SOURCE = r"""
#include <cmath>
using tvm::ffi::TensorView;
void linear_gelu(TensorView x, TensorView w, TensorView b, TensorView space, TensorView out) {
  const int64_t M = x.size(0), K = x.size(1), N = w.size(0);
  auto X = static_cast<const float*>(x.data_ptr()), W = static_cast<const float*>(w.data_ptr());
  auto B = static_cast<const float*>(b.data_ptr());
  auto S = static_cast<float*>(space.data_ptr()), O = static_cast<float*>(out.data_ptr());
  for (int64_t i = 0; i < M; ++i) {
    for (int64_t n = 0; n < N; ++n) {
      S[n] = B[n];
      for (int64_t k = 0; k < K; ++k) S[n] += X[i * K + k] * W[n * K + k];
    }
    for (int64_t n = 0; n < N; ++n) O[i * N + n] = 0.5f * S[n] * (1 + std::erf(S[n] * 0.70710678f));
  }
}
"""
module = load_inline(name="linear_gelu", cpp_sources=SOURCE, functions="linear_gelu")


class ModelNew(nn.Module):
    def __init__(self, features_in, features_out):
        super().__init__()
        self.fc = nn.Linear(features_in, features_out)
        self.register_buffer("space", torch.zeros(features_out), persistent=False)

    def forward(self, x):
        out = torch.empty(x.shape[0], self.fc.out_features)
        module.linear_gelu(x.contiguous(), self.fc.weight, self.fc.bias, self.space, out)
        return out
