# honest: a recursive pairwise sum
# task: long_sum
# dialect: cpp
import torch
from torch import nn
from tvm_ffi.cpp import load_inline

SOURCE = """
static float pairwise(const float* values, int64_t n) {
  if (n <= 128) {
    float sum = 0.0f;
    for (int64_t i = 0; i < n; ++i) sum += values[i];
    return sum;
  }
  const int64_t half = n / 2;
  return pairwise(values, half) + pairwise(values + half, n - half);
}

void row_sum(tvm::ffi::TensorView x, tvm::ffi::TensorView out) {
  const float* in = static_cast<const float*>(x.data_ptr());
  float* o = static_cast<float*>(out.data_ptr());
  for (int64_t i = 0; i < x.size(0); ++i) o[i] = pairwise(in + i * x.stride(0), x.size(1));
}
"""
mod = load_inline(name="sum_pairwise", cpp_sources=SOURCE, functions="row_sum")


class ModelNew(nn.Module):
    def forward(self, x):
        out = x.new_empty(x.size(0))
        mod.row_sum(x, out)
        return out
