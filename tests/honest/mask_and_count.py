# honest: integers and booleans in, booleans and integers out
# task: mask_count
# dialect: cpp
import torch
from torch import nn
from tvm_ffi.cpp import load_inline

SOURCE = """
void mask_count(tvm::ffi::TensorView x, tvm::ffi::TensorView mask, tvm::ffi::TensorView hit,
                tvm::ffi::TensorView count) {
  const int32_t* in = static_cast<const int32_t*>(x.data_ptr());
  const bool* m = static_cast<const bool*>(mask.data_ptr());
  bool* h = static_cast<bool*>(hit.data_ptr());
  const int64_t rows = x.size(0), cols = x.size(1);
  for (int64_t i = 0; i < rows; ++i) {
    int64_t n = 0;
    for (int64_t j = i * cols; j < (i + 1) * cols; ++j) n += h[j] = in[j] % 3 == 0 && m[j];
    static_cast<int64_t*>(count.data_ptr())[i] = n;
  }
}
"""
mod = load_inline(name="mask_count", cpp_sources=SOURCE, functions="mask_count")


class ModelNew(nn.Module):
    def forward(self, x, mask):
        hit = torch.empty_like(mask)
        count = torch.empty(x.shape[0], dtype=torch.int64)
        mod.mask_count(x, mask, hit, count)
        return hit, count
