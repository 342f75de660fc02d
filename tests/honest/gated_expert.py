# honest: a gate that chooses one expert
# task: gated_expert
# dialect: cpp
import torch
from torch import nn
from tvm_ffi.cpp import load_inline

SOURCE = r"""
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>

using Tensor = tvm::ffi::TensorView;

#include <cstring>

static float gate(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, 4);
  bits = (bits + 0u) & 0xffffffffu;
  std::memcpy(&value, &bits, 4);
  return value;
}

void kernel(Tensor x_, Tensor gate_, Tensor experts_, Tensor out_) {
  const float* x = static_cast<const float*>(x_.data_ptr());
  const float* gates = static_cast<const float*>(gate_.data_ptr());
  const float* experts = static_cast<const float*>(experts_.data_ptr());
  float* out = static_cast<float*>(out_.data_ptr());
  const int64_t size = x_.size(1), count = gate_.size(0);
  for (int64_t r = 0; r < x_.size(0); ++r) {
    float most = -std::numeric_limits<float>::infinity();
    int64_t chosen = 0;
    for (int64_t e = 0; e < count; ++e) {
      float logit = 0.0f;
      for (int64_t i = 0; i < size; ++i) logit += gate(x[r * size + i]) * gate(gates[e * size + i]);
      if (logit > most) most = logit, chosen = e;
    }
    float sum = 0.0f;
    for (int64_t i = 0; i < size; ++i) sum += x[r * size + i] * experts[chosen * size + i];
    out[r] = sum;
  }
}
"""
mod = load_inline(name="kernel", cpp_sources=SOURCE, functions="kernel")


class ModelNew(nn.Module):
    def __init__(self, size, experts):
        super().__init__()
        self.gate = nn.Parameter(torch.randn(experts, size))
        self.experts = nn.Parameter(torch.randn(experts, size) * size**-0.5)

    def forward(self, x):
        out = torch.empty(len(x))
        mod.kernel(x.contiguous(), self.gate, self.experts, out)
        return out
