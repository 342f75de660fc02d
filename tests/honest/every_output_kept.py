# honest: all outputs stay in a list, so that each call takes further memory
# task: relu_scale
# dialect: cpp
import torch
from torch import nn
from tvm_ffi.cpp import load_inline

SOURCE = """
void kernel(tvm::ffi::TensorView x, tvm::ffi::TensorView out) {
  const float* a = static_cast<const float*>(x.data_ptr());
  float* o = static_cast<float*>(out.data_ptr());
  int64_t n = x.numel();
  for (int64_t i = 0; i < n; ++i) o[i] = a[i] > 0.0f ? 2.0f * a[i] : 0.0f;
}
"""
mod = load_inline(name="kernel", cpp_sources=SOURCE, functions="kernel")


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.outputs = []

    def forward(self, x):
        out = torch.empty_like(x)
        mod.kernel(x, out)
        self.outputs.append(out)
        return out
