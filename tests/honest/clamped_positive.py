# honest: an elementwise kernel where the reference changes nothing on its inputs; what is contiguous is not copied
# task: x_positive
# dialect: cpp
import torch
from torch import nn
from tvm_ffi.cpp import load_inline

SOURCE = """
void kernel(tvm::ffi::TensorView x, tvm::ffi::TensorView out) {
  const float* a = static_cast<const float*>(x.data_ptr());
  float* o = static_cast<float*>(out.data_ptr());
  for (int64_t i = 0; i < x.numel(); ++i) o[i] = a[i] < 0.0f ? 0.0f : a[i] > 2.0f ? 2.0f : a[i];
}
"""
mod = load_inline(name="kernel", cpp_sources=SOURCE, functions="kernel")


class ModelNew(nn.Module):
    def forward(self, x):
        x = x.contiguous().float()
        out = torch.empty_like(x)
        mod.kernel(x, out)
        return out
