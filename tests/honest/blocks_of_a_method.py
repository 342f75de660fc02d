# honest: a method reads the parameters of a block that it is given
# task: blocks_of_a_class
# dialect: cpp
import torch
from torch import nn
from tvm_ffi.cpp import load_inline

SOURCE = r"""
#include <algorithm>
#include <cstdint>

void layer(tvm::ffi::TensorView x_, tvm::ffi::TensorView w_, tvm::ffi::TensorView b_, tvm::ffi::TensorView out_) {
  const float* x = static_cast<const float*>(x_.data_ptr());
  const float* w = static_cast<const float*>(w_.data_ptr());
  const float* b = static_cast<const float*>(b_.data_ptr());
  float* out = static_cast<float*>(out_.data_ptr());
  const int64_t size = w_.size(1), width = w_.size(0);
  for (int64_t r = 0; r < x_.size(0); ++r)
    for (int64_t o = 0; o < width; ++o) {
      float sum = b[o];
      for (int64_t i = 0; i < size; ++i) sum += x[r * size + i] * w[o * size + i];
      out[r * width + o] = std::max(sum, 0.0f);
    }
}
"""
mod = load_inline(name="layer", cpp_sources=SOURCE, functions="layer")


class Block(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.up = nn.Linear(size, size)


class ModelNew(nn.Module):
    def __init__(self, size, depth):
        super().__init__()
        self.blocks = nn.ModuleList([Block(size) for _ in range(depth)])

    def run(self, x, block):
        out = torch.empty_like(x)
        mod.layer(x.contiguous(), block.up.weight, block.up.bias, out)
        return out

    def forward(self, x):
        for block in self.blocks:
            x = self.run(x, block)
        return x
