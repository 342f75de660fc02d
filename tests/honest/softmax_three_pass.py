# honest: maximum, exponentials and scaling, each a simd loop
# task: softmax
# dialect: cpp
import torch
from torch import nn
from tvm_ffi.cpp import load_inline

SOURCE = """
#include <cmath>

void softmax(tvm::ffi::TensorView x, tvm::ffi::TensorView out) {
  const int64_t cols = x.size(-1), rows = x.numel() / cols;
  #pragma omp parallel for
  for (int64_t i = 0; i < rows; ++i) {
    const float* in = static_cast<const float*>(x.data_ptr()) + i * cols;
    float* o = static_cast<float*>(out.data_ptr()) + i * cols;
    float top = in[0], sum = 0.0f;
    #pragma omp simd reduction(max : top)
    for (int64_t j = 1; j < cols; ++j) top = in[j] > top ? in[j] : top;
    #pragma omp simd reduction(+ : sum)
    for (int64_t j = 0; j < cols; ++j) sum += o[j] = std::exp(in[j] - top);
    const float scale = 1.0f / sum;
    #pragma omp simd
    for (int64_t j = 0; j < cols; ++j) o[j] *= scale;
  }
}
"""
mod = load_inline(name="softmax", cpp_sources=SOURCE, functions="softmax")


class ModelNew(nn.Module):
    def forward(self, x):
        out = torch.empty_like(x)
        mod.softmax(x, out)
        return out
