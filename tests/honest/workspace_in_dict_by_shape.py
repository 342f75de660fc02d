# honest: workspaces kept in a dict by shape
# task: relu_scale
# dialect: cpp
import torch
from torch import nn
from tvm_ffi.cpp import load_inline

SOURCE = """
void kernel(tvm::ffi::TensorView x, tvm::ffi::TensorView out, tvm::ffi::TensorView work) {
  const float* a = static_cast<const float*>(x.data_ptr());
  float* o = static_cast<float*>(out.data_ptr());
  float* w = static_cast<float*>(work.data_ptr());
  int64_t n = x.numel();
  for (int64_t i = 0; i < n; ++i) w[i] = a[i] > 0.0f ? a[i] : 0.0f;
  for (int64_t i = 0; i < n; ++i) o[i] = 2.0f * w[i];
}
"""
mod = load_inline(name="kernel", cpp_sources=SOURCE, functions="kernel")


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.works = {}

    def forward(self, x):
        key = (x.shape[0], x.shape[1])
        if key not in self.works:
            self.works[key] = torch.empty(x.shape)
        out = torch.empty_like(x)
        mod.kernel(x, out, self.works[key])
        return out
