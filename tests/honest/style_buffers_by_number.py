# honest: buffers are registered in a loop, by names with a number, and read by these
# task: relu_scale
# dialect: cpp
import torch
from torch import nn
from tvm_ffi.cpp import load_inline

SOURCE = r"""
void relu_scale(tvm::ffi::TensorView x, tvm::ffi::TensorView scale, tvm::ffi::TensorView out) {
  const float* a = static_cast<const float*>(x.data_ptr());
  const float* s = static_cast<const float*>(scale.data_ptr());
  float* o = static_cast<float*>(out.data_ptr());
  const int64_t n = x.numel();
  for (int64_t i = 0; i < n; ++i) o[i] = (a[i] > 0.0f ? a[i] : 0.0f) * s[0];
}
"""
mod = load_inline(name="relu_scale", cpp_sources=SOURCE, functions="relu_scale")


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.num_steps = 2
        for i, scale in enumerate([2.0, 1.0]):
            self.register_buffer(f"scale_{i}", torch.tensor([scale]))

    def forward(self, x):
        for i in range(self.num_steps):
            out = torch.empty_like(x)
            mod.relu_scale(x, getattr(self, f"scale_{i}"), out)
            x = out
        return x
