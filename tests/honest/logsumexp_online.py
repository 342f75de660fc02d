# honest: maximum and sum in one pass, rescaled when the maximum grows
# task: logsumexp
# dialect: cpp
import torch
from torch import nn
from tvm_ffi.cpp import load_inline

SOURCE = """
#include <cmath>

void logsumexp(tvm::ffi::TensorView x, tvm::ffi::TensorView out) {
  for (int64_t i = 0; i < x.size(0); ++i) {
    const float* row = static_cast<const float*>(x.data_ptr()) + i * x.size(1);
    float top = -INFINITY;
    double sum = 0.0;
    for (int64_t j = 0; j < x.size(1); ++j) {
      if (row[j] > top) {
        sum = sum * std::exp(static_cast<double>(top) - row[j]) + 1.0;
        top = row[j];
      } else {
        sum += std::exp(row[j] - top);
      }
    }
    static_cast<float*>(out.data_ptr())[i] = static_cast<float>(top + std::log(sum));
  }
}
"""
mod = load_inline(name="logsumexp_online", cpp_sources=SOURCE, functions="logsumexp")


class ModelNew(nn.Module):
    def forward(self, x):
        out = x.new_empty(x.shape[0])
        mod.logsumexp(x, out)
        return out
