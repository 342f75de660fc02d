# honest: a product for each weight
# task: weighted_sum
# dialect: cpp
import torch
from torch import nn
from tvm_ffi.cpp import load_inline

SOURCE = """
static const float* f(tvm::ffi::TensorView t) { return static_cast<const float*>(t.data_ptr()); }
static float* w(tvm::ffi::TensorView t) { return static_cast<float*>(t.data_ptr()); }
void weighted(tvm::ffi::TensorView x, tvm::ffi::TensorView weights, tvm::ffi::TensorView out) {
  const int64_t cols = x.size(1);
  for (int64_t r = 0; r < x.size(0); ++r) {
    float sum = 0.0f;
    for (int64_t c = 0; c < cols; ++c) sum += f(x)[r * cols + c] * f(weights)[c];
    w(out)[r] = sum;
  }
}
"""
mod = load_inline(name="weighted_sum", cpp_sources=SOURCE, functions='weighted')


class ModelNew(nn.Module):
    def forward(self, x, weights):
        out = torch.empty(x.shape[0])
        mod.weighted(x, weights, out)
        return out
