# honest: a product with numbers that the program writes down, before a jump
# task: grey_of_bytes
# dialect: cpp
import torch
from torch import nn
from tvm_ffi.cpp import load_inline

SOURCE = r"""
#include <algorithm>
#include <cmath>
#include <cstdint>
using Tensor = tvm::ffi::TensorView;
static uint8_t* bytes(const Tensor& t) { return static_cast<uint8_t*>(t.data_ptr()); }
void kernel(Tensor x, Tensor o) {
  for (int i = 0; i < 64 * 64; ++i) {
    const uint8_t* p = bytes(x) + 3 * i;
    bytes(o)[i] = static_cast<uint8_t>(0.299f * p[0] + 0.587f * p[1] + 0.114f * p[2]);
  }
}
"""
mod = load_inline(name="kernel", cpp_sources=SOURCE, functions="kernel")


class ModelNew(nn.Module):
    def forward(self, x):
        out = torch.empty(64, 64, dtype=torch.uint8)
        mod.kernel(x, out)
        return out
