# honest: statistics of 36,864 values, summed one after another in float32, of layer norm
# task: layer_norm_large
# dialect: cpp
import torch
from torch import nn
from tvm_ffi.cpp import load_inline

SOURCE = """
static const float* in(tvm::ffi::TensorView t) { return static_cast<const float*>(t.data_ptr()); }
static float* to(tvm::ffi::TensorView t) { return static_cast<float*>(t.data_ptr()); }

#include <cmath>
void norm(tvm::ffi::TensorView x, tvm::ffi::TensorView w, tvm::ffi::TensorView b, tvm::ffi::TensorView out, double eps) {
  const int64_t count = w.numel(), rows = x.numel() / count;
  for (int64_t p = 0; p < rows; ++p) {
    const float* a = in(x) + p * count;
    float sum = 0.0f, squares = 0.0f;
    for (int64_t i = 0; i < count; ++i) sum += a[i];
    const float mean = sum / count;
    for (int64_t i = 0; i < count; ++i) squares += (a[i] - mean) * (a[i] - mean);
    const float rstd = 1.0f / std::sqrt(squares / count + static_cast<float>(eps));
    for (int64_t i = 0; i < count; ++i) to(out)[p * count + i] = (a[i] - mean) * rstd * in(w)[i] + in(b)[i];
  }
}
"""
mod = load_inline(name="layer_norm_large_plain", cpp_sources=SOURCE, functions="norm")


class ModelNew(nn.Module):
    def __init__(self, shape):
        super().__init__()
        self.norm = nn.LayerNorm(shape)

    def forward(self, x):
        out = torch.empty_like(x)
        mod.norm(x, self.norm.weight, self.norm.bias, out, self.norm.eps)
        return out
