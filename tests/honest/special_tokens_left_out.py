# honest: tokens that are special are asked one by one
# task: special_tokens
# dialect: cpp
import torch
from torch import nn
from tvm_ffi.cpp import load_inline

SOURCE = r"""
#include <cstdint>
static const float* f(tvm::ffi::TensorView t) { return static_cast<const float*>(t.data_ptr()); }
static const int64_t* i(tvm::ffi::TensorView t) { return static_cast<const int64_t*>(t.data_ptr()); }
static float* w(tvm::ffi::TensorView t) { return static_cast<float*>(t.data_ptr()); }
void kernel(tvm::ffi::TensorView tokens, tvm::ffi::TensorView x, tvm::ffi::TensorView out) {
  for (int64_t k = 0; k < x.numel(); ++k) {
    const int64_t t = i(tokens)[k];
    w(out)[k] = t == 11 || t == 40000 || t == 50255 ? 0.0f : 2 * f(x)[k];
  }
}
"""
mod = load_inline(name="k", cpp_sources=SOURCE, functions="kernel")


class ModelNew(nn.Module):
    def forward(self, tokens, x):
        out = torch.empty_like(x)
        mod.kernel(tokens, x, out)
        return out
