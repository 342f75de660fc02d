# honest: words taken apart by shifts
# task: bytes_unpacked
# dialect: cpp
import torch
from torch import nn
from tvm_ffi.cpp import load_inline

SOURCE = r"""
#include <cstdint>
void kernel(tvm::ffi::TensorView x, tvm::ffi::TensorView out) {
  const int32_t* a = static_cast<const int32_t*>(x.data_ptr());
  int32_t* o = static_cast<int32_t*>(out.data_ptr());
  const int64_t n = x.numel();
  #pragma omp parallel for
  for (int64_t i = 0; i < n; ++i)
    for (int place = 0; place < 4; ++place) o[4 * i + place] = (a[i] >> (8 * place)) & 255;
}
"""
mod = load_inline(name="kernel", cpp_sources=SOURCE, functions="kernel")


class ModelNew(nn.Module):
    def forward(self, x):
        out = torch.empty(*x.shape, 4, dtype=x.dtype)
        mod.kernel(x, out)
        return out
