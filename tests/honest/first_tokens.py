# honest: a loop as long as a length says, which is no longer than a row
# task: first_tokens
# dialect: cpp
import torch
from torch import nn
from tvm_ffi.cpp import load_inline

SOURCE = r"""
#include <algorithm>
#include <cmath>
#include <cstdint>
using T = tvm::ffi::TensorView;
static const float* f(T t) { return static_cast<const float*>(t.data_ptr()); }
static float* w(T t) { return static_cast<float*>(t.data_ptr()); }
void kernel(T x, T length, T o) {
  const int64_t n = *static_cast<const int64_t*>(length.data_ptr());
  for (int64_t i = 0; i < 64; ++i) { float s = 0; for (int64_t j = 0; j < n; ++j) s += f(x)[i * 128 + j]; w(o)[i] = s; }
}
"""
mod = load_inline(name="k", cpp_sources=SOURCE, functions="kernel")


class ModelNew(nn.Module):
    def forward(self, x, length):
        out = torch.empty(64)
        mod.kernel(x, length, out)
        return out
