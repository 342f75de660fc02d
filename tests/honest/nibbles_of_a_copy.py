# honest: a copy in another order before a kernel that takes bytes apart
# task: nibbles_of_columns
# dialect: cpp
import torch
from torch import nn
from tvm_ffi.cpp import load_inline

SOURCE = r"""
#include <cstdint>
void kernel(tvm::ffi::TensorView x, tvm::ffi::TensorView out) {
  const uint8_t* a = static_cast<const uint8_t*>(x.data_ptr());
  uint8_t* o = static_cast<uint8_t*>(out.data_ptr());
  const int64_t rows = x.size(0), columns = x.size(1);
  for (int64_t i = 0; i < rows; ++i)
    for (int64_t j = 0; j < columns; ++j) {
      o[2 * i * columns + j] = a[i * columns + j] & 15;
      o[(2 * i + 1) * columns + j] = a[i * columns + j] >> 4;
    }
}
"""
mod = load_inline(name="kernel", cpp_sources=SOURCE, functions="kernel")


class ModelNew(nn.Module):
    def forward(self, x):
        turned = x.t().contiguous()
        out = torch.empty(turned.shape[0], 2 * turned.shape[1], dtype=x.dtype)
        mod.kernel(turned, out)
        return out
