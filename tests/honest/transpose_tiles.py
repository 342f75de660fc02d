# honest: where copying is the work, inputs may still be asked to be contiguous, which they are
# task: x_transpose
# dialect: cpp
import torch
from torch import nn
from tvm_ffi.cpp import load_inline

SOURCE = r"""
#include <algorithm>

void transpose(tvm::ffi::TensorView x, tvm::ffi::TensorView out) {
  const int64_t batch = x.size(0), rows = x.size(1), cols = x.size(2), tile = 16;
  #pragma omp parallel for
  for (int64_t b = 0; b < batch; ++b) {
    const float* in = static_cast<const float*>(x.data_ptr()) + b * rows * cols;
    float* o = static_cast<float*>(out.data_ptr()) + b * rows * cols;
    for (int64_t i = 0; i < rows; i += tile)
      for (int64_t j = 0; j < cols; j += tile)
        for (int64_t r = i; r < std::min(i + tile, rows); ++r)
          for (int64_t c = j; c < std::min(j + tile, cols); ++c) o[c * rows + r] = in[r * cols + c];
  }
}
"""
mod = load_inline(name="transpose_tiles", cpp_sources=SOURCE, functions="transpose")


class ModelNew(nn.Module):
    def forward(self, x):
        x = x.contiguous().to(torch.float32)
        out = torch.zeros((x.size(0), x.size(2), x.size(1)), dtype=x.dtype, device=x.device)
        mod.transpose(x, out)
        return out
