# honest: running sums of 32,768 terms in float32
# task: cumsum_long
# dialect: cpp
import torch
from torch import nn
from tvm_ffi.cpp import load_inline

SOURCE = """
static const float* in(tvm::ffi::TensorView t) { return static_cast<const float*>(t.data_ptr()); }
static float* to(tvm::ffi::TensorView t) { return static_cast<float*>(t.data_ptr()); }

void cumsum(tvm::ffi::TensorView x, tvm::ffi::TensorView out) {
  const int64_t rows = x.size(0), columns = x.size(1);
  for (int64_t r = 0; r < rows; ++r) {
    float sum = 0.0f;
    for (int64_t c = 0; c < columns; ++c) to(out)[r * columns + c] = sum += in(x)[r * columns + c];
  }
}
"""
mod = load_inline(name="cumsum_long_plain", cpp_sources=SOURCE, functions="cumsum")


class ModelNew(nn.Module):
    def forward(self, x):
        out = torch.empty_like(x)
        mod.cumsum(x, out)
        return out
