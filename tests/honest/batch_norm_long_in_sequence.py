# honest: statistics of four million numbers in float32, a sum of each image's in sequence, in two passes
# task: batch_norm_long
# dialect: cpp
import torch
from torch import nn
from tvm_ffi.cpp import load_inline

SOURCE = """
#include <cmath>
void kernel(tvm::ffi::TensorView x, tvm::ffi::TensorView weight, tvm::ffi::TensorView bias, tvm::ffi::TensorView out) {
  const int64_t num = x.size(0), channels = x.size(1), size = x.size(2) * x.size(3);
  for (int64_t c = 0; c < channels; ++c) {
    float mean = 0.0f, var = 0.0f;
    for (int pass = 0; pass < 2; ++pass) {
      float total = 0.0f;
      #pragma omp parallel for reduction(+ : total)
      for (int64_t i = 0; i < num; ++i) {
        const float* a = static_cast<const float*>(x.data_ptr()) + (i * channels + c) * size;
        float sum = 0.0f;
        for (int64_t k = 0; k < size; ++k) sum += pass ? (a[k] - mean) * (a[k] - mean) : a[k];
        total += sum;
      }
      (pass ? var : mean) = total / (num * size);
    }
    float scale = static_cast<const float*>(weight.data_ptr())[c] / std::sqrt(var + 1e-5f);
    float shift = static_cast<const float*>(bias.data_ptr())[c] - mean * scale;
    #pragma omp parallel for
    for (int64_t i = 0; i < num; ++i) {
      const float* a = static_cast<const float*>(x.data_ptr()) + (i * channels + c) * size;
      float* o = static_cast<float*>(out.data_ptr()) + (i * channels + c) * size;
      for (int64_t k = 0; k < size; ++k) o[k] = a[k] * scale + shift;
    }
  }
}
"""
mod = load_inline(name="kernel", cpp_sources=SOURCE, functions="kernel")


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.BatchNorm2d(1)

    def forward(self, x):
        out = torch.empty_like(x)
        mod.kernel(x, self.norm.weight, self.norm.bias, out)
        return out
