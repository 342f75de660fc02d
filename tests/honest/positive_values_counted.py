# honest: the number of outputs depends on the data, and is counted first
# task: positive_values
# dialect: cpp
import torch
from torch import nn
from tvm_ffi.cpp import load_inline

SOURCE = r"""
int64_t count(tvm::ffi::TensorView x) {
  const float* a = static_cast<const float*>(x.data_ptr());
  int64_t n = x.numel(), found = 0;
  for (int64_t i = 0; i < n; ++i) found += a[i] > 0.0f;
  return found;
}

void take(tvm::ffi::TensorView x, tvm::ffi::TensorView out) {
  const float* a = static_cast<const float*>(x.data_ptr());
  float* o = static_cast<float*>(out.data_ptr());
  int64_t n = x.numel();
  for (int64_t i = 0; i < n; ++i)
    if (a[i] > 0.0f) *o++ = a[i];
}
"""
mod = load_inline(name="positive", cpp_sources=SOURCE, functions=["count", "take"])


class ModelNew(nn.Module):
    def forward(self, x):
        out = torch.empty(mod.count(x), dtype=x.dtype)
        mod.take(x, out)
        return out
