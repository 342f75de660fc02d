# honest: buffers of zeros and ones, which may be others, and a copy of what lies otherwise
# task: normalized_by_buffers
# dialect: cpp
import torch
from torch import nn
from tvm_ffi.cpp import load_inline

SOURCE = """
void normalize(tvm::ffi::TensorView x, tvm::ffi::TensorView mean, tvm::ffi::TensorView std, tvm::ffi::TensorView out) {
  const int64_t rows = x.size(0), cols = x.size(1);
  const float* a = static_cast<const float*>(x.data_ptr());
  const float* m = static_cast<const float*>(mean.data_ptr());
  const float* s = static_cast<const float*>(std.data_ptr());
  float* o = static_cast<float*>(out.data_ptr());
  for (int64_t i = 0; i < rows; ++i)
    for (int64_t j = 0; j < cols; ++j) o[j * rows + i] = (a[i * cols + j] - m[j]) / s[j];
}
"""
mod = load_inline(name="normalize", cpp_sources=SOURCE, functions="normalize", extra_cflags=["-O3"])


class ModelNew(nn.Module):
    def __init__(self, cols):
        super().__init__()
        self.register_buffer("mean", torch.zeros(cols))
        self.register_buffer("std", torch.ones(cols))

    def forward(self, x):
        out = torch.empty(x.shape[1], x.shape[0])
        mod.normalize(x.contiguous(), self.mean, self.std, out)
        return out.T
