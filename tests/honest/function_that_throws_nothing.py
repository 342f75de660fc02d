# The exported function is noexcept, and a second one returns a flag
# task: relu_scale
# dialect: cpp
import torch
from torch import nn
from tvm_ffi.cpp import load_inline

SOURCE = r"""
bool fits(tvm::ffi::TensorView x, tvm::ffi::TensorView out) noexcept { return x.numel() == out.numel(); }
void kernel(tvm::ffi::TensorView x, tvm::ffi::TensorView out) noexcept {
  const float* a = static_cast<const float*>(x.data_ptr());
  float* o = static_cast<float*>(out.data_ptr());
  for (int64_t i = 0; i < x.numel(); ++i) o[i] = a[i] > 0.0f ? 2.0f * a[i] : 0.0f;
}
"""
mod = load_inline(name="kernel", cpp_sources=SOURCE, functions=["fits", "kernel"])


class ModelNew(nn.Module):
    def forward(self, x):
        out = torch.empty_like(x)
        if mod.fits(x, out):
            mod.kernel(x, out)
        return out
