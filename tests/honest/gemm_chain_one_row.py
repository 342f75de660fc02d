# honest: a chain of a product, scaling, clamping, logsumexp and mish, row by row
# task: gemm_chain
# dialect: cpp
import torch
from torch import nn
from tvm_ffi.cpp import load_inline

SOURCE = """
static const float* in(tvm::ffi::TensorView t) { return static_cast<const float*>(t.data_ptr()); }
static float* to(tvm::ffi::TensorView t) { return static_cast<float*>(t.data_ptr()); }

#include <algorithm>
#include <cmath>
#include <vector>
void chain(tvm::ffi::TensorView x_, tvm::ffi::TensorView w_, tvm::ffi::TensorView b_, tvm::ffi::TensorView o_) {
  const int64_t rows = x_.size(0), width = x_.size(1), hidden = w_.size(0);
  #pragma omp parallel for
  for (int64_t i = 0; i < rows; ++i) {
    float top = -INFINITY, sum = 0.0f;
    for (int64_t j = 0; j < hidden; ++j) {
      float v = in(b_)[j];
      for (int64_t k = 0; k < width; ++k) v += in(x_)[i * width + k] * in(w_)[j * width + k];
      v = std::min(10.0f, std::max(-10.0f, 4.0f * v));
      const float next = std::max(top, v);
      sum = sum * std::exp(top - next) + std::exp(v - next);
      top = next;
    }
    const float y = top + std::log(sum);
    const float softplus = y > 20.0f ? y : std::log1p(std::exp(y));
    to(o_)[i] = y * y * std::tanh(softplus);
  }
}
"""
mod = load_inline(name="gemm_chain_one_row", cpp_sources=SOURCE, functions="chain")


class ModelNew(nn.Module):
    def __init__(self, width, hidden):
        super().__init__()
        self.linear = nn.Linear(width, hidden)

    def forward(self, x):
        out = torch.empty(x.shape[0], 1)
        mod.chain(x, self.linear.weight, self.linear.bias, out)
        return out
