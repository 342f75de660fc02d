# honest: bits of each check, one after another
# task: parities_of_bits
# dialect: cpp
import torch
from torch import nn
from tvm_ffi.cpp import load_inline

SOURCE = r"""
#include <algorithm>
#include <cmath>
#include <cstdint>

using Tensor = tvm::ffi::TensorView;

void kernel(Tensor words_, Tensor out_) {
  const float* words = static_cast<const float*>(words_.data_ptr());
  bool* out = static_cast<bool*>(out_.data_ptr());
  for (int64_t r = 0; r < words_.size(0); ++r)
    for (int64_t check = 0; check < 32; ++check) {
      bool odd = false;
      for (int64_t i = 6 * check; i < 6 * check + 6; ++i) odd ^= words[r * 64 + i * 37 % 64] != 0.0f;
      out[r * 32 + check] = odd;
    }
}
"""
mod = load_inline(name="kernel", cpp_sources=SOURCE, functions="kernel")


class ModelNew(nn.Module):
    def forward(self, words):
        out = torch.empty(len(words), 32, dtype=torch.bool)
        mod.kernel(words.contiguous(), out)
        return out
