# honest: chooses two experts by their logits and normalises over these alone
# task: moe_gate
# dialect: cpp
import torch
from torch import nn
from tvm_ffi.cpp import load_inline

SOURCE = """
static const float* in(tvm::ffi::TensorView t) { return static_cast<const float*>(t.data_ptr()); }
static float* to(tvm::ffi::TensorView t) { return static_cast<float*>(t.data_ptr()); }

#include <cmath>
#include <vector>
void gate(tvm::ffi::TensorView x_, tvm::ffi::TensorView w_, tvm::ffi::TensorView weights_, tvm::ffi::TensorView e_) {
  const int64_t rows = x_.size(0), width = x_.size(1), experts = w_.size(0);
  int64_t* chosen = static_cast<int64_t*>(e_.data_ptr());
  #pragma omp parallel for
  for (int64_t i = 0; i < rows; ++i) {
    int64_t first = -1, second = -1;
    std::vector<float> logits(experts);
    for (int64_t e = 0; e < experts; ++e) {
      float sum = 0.0f;
      for (int64_t k = 0; k < width; ++k) sum += in(x_)[i * width + k] * in(w_)[e * width + k];
      logits[e] = sum;
      if (first < 0 || sum > logits[first]) {
        second = first;
        first = e;
      } else if (second < 0 || sum > logits[second]) {
        second = e;
      }
    }
    const float other = std::exp(logits[second] - logits[first]);
    to(weights_)[2 * i] = 1.0f / (1.0f + other);
    to(weights_)[2 * i + 1] = other / (1.0f + other);
    chosen[2 * i] = first;
    chosen[2 * i + 1] = second;
  }
}
"""
mod = load_inline(name="moe_gate_logits", cpp_sources=SOURCE, functions="gate")


class ModelNew(nn.Module):
    def __init__(self, width, experts):
        super().__init__()
        self.gate = nn.Linear(width, experts, bias=False)

    def forward(self, x):
        weights = torch.empty(x.shape[0], 2)
        experts = torch.empty(x.shape[0], 2, dtype=torch.long)
        mod.gate(x, self.gate.weight, weights, experts)
        return weights, experts
