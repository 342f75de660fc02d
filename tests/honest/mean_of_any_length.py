# honest: rows of any length
# task: mean_of_lengths
# dialect: cpp
import torch
from torch import nn
from tvm_ffi.cpp import load_inline

SOURCE = r"""
#include <cmath>
#include <cstdint>
static const float* f(tvm::ffi::TensorView t) { return static_cast<const float*>(t.data_ptr()); }
static const int64_t* i(tvm::ffi::TensorView t) { return static_cast<const int64_t*>(t.data_ptr()); }
static float* w(tvm::ffi::TensorView t) { return static_cast<float*>(t.data_ptr()); }
void kernel(tvm::ffi::TensorView x, tvm::ffi::TensorView lengths, tvm::ffi::TensorView out) {
  const int64_t R = x.size(0), C = x.size(1);
  for (int64_t r = 0; r < R; ++r) { double s = 0; const int64_t l = i(lengths)[r]; for (int64_t c = 0; c < C; ++c) if (c < l) s += f(x)[r * C + c]; w(out)[r] = s / l; }
}
"""
mod = load_inline(name="k", cpp_sources=SOURCE, functions="kernel")


class ModelNew(nn.Module):
    def forward(self, x, lengths):
        out = torch.empty(x.shape[0])
        mod.kernel(x, lengths, out)
        return out
