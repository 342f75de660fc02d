# honest: torch converts to float32 and back around a float32 kernel, and the weight once in __init__
# task: rms_norm_bf16
# dialect: cpp
import torch
from torch import nn
from tvm_ffi.cpp import load_inline

SOURCE = """
#include <cmath>

void rms_norm_(tvm::ffi::TensorView x, tvm::ffi::TensorView weight, double eps) {
  const float* w = static_cast<const float*>(weight.data_ptr());
  const int64_t rows = x.size(0), cols = x.size(1);
  for (int64_t i = 0; i < rows; ++i) {
    float* row = static_cast<float*>(x.data_ptr()) + i * cols;
    double squares = 0.0;
    #pragma omp simd reduction(+ : squares)
    for (int64_t j = 0; j < cols; ++j) squares += static_cast<double>(row[j]) * row[j];
    const float scale = static_cast<float>(1.0 / std::sqrt(squares / cols + eps));
    #pragma omp simd
    for (int64_t j = 0; j < cols; ++j) row[j] *= scale * w[j];
  }
}
"""
mod = load_inline(name="rms_norm_float", cpp_sources=SOURCE, functions="rms_norm_")


class ModelNew(nn.Module):
    def __init__(self, features, eps):
        super().__init__()
        weight = torch.rand(features).bfloat16()
        self.register_buffer("weight", weight.float())
        self.eps = eps

    def forward(self, x):
        wide = x.to(torch.float32)
        mod.rms_norm_(wide, self.weight, self.eps)
        return wide.to(torch.bfloat16)
