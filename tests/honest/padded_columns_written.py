# task: padded_columns
# dialect: cpp
import torch
from torch import nn
from tvm_ffi.cpp import load_inline

SOURCE = r"""
#include <cmath>
#include <cstdint>
#include <cstring>

static float* floats(tvm::ffi::TensorView t) { return static_cast<float*>(t.data_ptr()); }

void kernel(tvm::ffi::TensorView x, tvm::ffi::TensorView out) {
  int64_t batch = x.size(0), rows = x.size(1), columns = x.size(2);
  float* o = floats(out);
  for (int64_t b = 0; b < batch; ++b)
    for (int64_t j = 0; j < columns; ++j) {
      *o++ = 0.0f;
      for (int64_t i = 0; i < rows; ++i) *o++ = std::fmax(floats(x)[(b * rows + i) * columns + j], 0.0f);
      *o++ = 0.0f;
    }
}
"""
mod = load_inline(name="kernel", cpp_sources=SOURCE, functions="kernel")


class ModelNew(nn.Module):
    def forward(self, x):
        out = torch.empty(x.shape[0], x.shape[2], x.shape[1] + 2)
        mod.kernel(x, out)
        return out
