# honest: two modules: one finds maximum and sum online, the other divides
# task: softmax
# dialect: cpp
import torch
from torch import nn
from tvm_ffi.cpp import load_inline

STATISTICS = """
#include <cmath>

void statistics(tvm::ffi::TensorView x, tvm::ffi::TensorView top, tvm::ffi::TensorView sum) {
  for (int64_t i = 0; i < x.size(0); ++i) {
    const float* in = static_cast<const float*>(x.data_ptr()) + i * x.size(1);
    float m = -INFINITY, s = 0.0f;
    for (int64_t j = 0; j < x.size(1); ++j) {
      const float larger = std::fmax(m, in[j]);
      s = s * std::exp(m - larger) + std::exp(in[j] - larger);
      m = larger;
    }
    static_cast<float*>(top.data_ptr())[i] = m;
    static_cast<float*>(sum.data_ptr())[i] = s;
  }
}
"""
NORMALISE = """
#include <cmath>

void normalise(tvm::ffi::TensorView x, tvm::ffi::TensorView top, tvm::ffi::TensorView sum, tvm::ffi::TensorView out) {
  const float* m = static_cast<const float*>(top.data_ptr());
  const float* s = static_cast<const float*>(sum.data_ptr());
  const int64_t cols = x.size(1);
  for (int64_t i = 0; i < x.numel(); ++i) {
    const float v = static_cast<const float*>(x.data_ptr())[i];
    static_cast<float*>(out.data_ptr())[i] = std::exp(v - m[i / cols]) / s[i / cols];
  }
}
"""
first = load_inline(name="first", cpp_sources=STATISTICS, functions="statistics")
second = load_inline(name="second", cpp_sources=NORMALISE, functions="normalise")


class ModelNew(nn.Module):
    def forward(self, x):
        scratch = torch.empty(2, x.shape[0])
        out = torch.empty_like(x)
        first.statistics(x, scratch[0], scratch[1])
        second.normalise(x, scratch[0], scratch[1], out)
        return out
