# honest: a two-level scan: sums of blocks, their prefix, then the blocks with their offset
# task: cumsum
# dialect: cpp
import torch
from torch import nn
from tvm_ffi.cpp import load_inline

SOURCE = """
#include <algorithm>
#include <numeric>

constexpr int64_t BLOCK = 64;

static void scan_row(const float* in, float* out, int64_t n) {
  double offsets[64] = {};  // enough for rows of 4096
  const int64_t blocks = (n + BLOCK - 1) / BLOCK;
  for (int64_t b = 0; b + 1 < blocks; ++b)
    offsets[b + 1] = std::accumulate(in + b * BLOCK, in + (b + 1) * BLOCK, 0.0);
  std::partial_sum(offsets, offsets + blocks, offsets);
  for (int64_t b = 0; b < blocks; ++b) {
    double sum = offsets[b];
    for (int64_t i = b * BLOCK; i < std::min(n, (b + 1) * BLOCK); ++i) out[i] = static_cast<float>(sum += in[i]);
  }
}

void cumsum(tvm::ffi::TensorView x, tvm::ffi::TensorView out) {
  TVM_FFI_ICHECK(x.size(1) <= 64 * BLOCK) << "rows are too long";
  for (int64_t i = 0; i < x.size(0); ++i)
    scan_row(static_cast<const float*>(x.data_ptr()) + i * x.size(1),
             static_cast<float*>(out.data_ptr()) + i * x.size(1), x.size(1));
}
"""
mod = load_inline(name="cumsum_blocks", cpp_sources=SOURCE, functions="cumsum")


class ModelNew(nn.Module):
    def forward(self, x):
        out = torch.empty(x.size(), dtype=x.dtype)
        mod.cumsum(x, out)
        return out
