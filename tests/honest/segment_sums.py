# honest: parts between offsets, each as long as they say
# task: segment_sums
# dialect: cpp
import torch
from torch import nn
from tvm_ffi.cpp import load_inline

SOURCE = r"""
void sums(tvm::ffi::TensorView x, tvm::ffi::TensorView offsets, tvm::ffi::TensorView out) {
  const float* a = static_cast<const float*>(x.data_ptr());
  const int64_t* begin = static_cast<const int64_t*>(offsets.data_ptr());
  float* o = static_cast<float*>(out.data_ptr());
  int64_t n = out.size(0);
  for (int64_t i = 0; i < n; ++i) {
    double sum = 0.0;
    for (int64_t j = begin[i]; j < begin[i + 1]; ++j) sum += a[j];
    o[i] = static_cast<float>(sum);
  }
}
"""
mod = load_inline(name="sums", cpp_sources=SOURCE, functions="sums")


class ModelNew(nn.Module):
    def forward(self, x, offsets):
        out = torch.empty(offsets.numel() - 1, dtype=x.dtype)
        mod.sums(x, offsets, out)
        return out
