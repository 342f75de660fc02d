# honest: layers that do nothing are called: a dropout of nothing, nn.Identity, nn.Flatten
# task: relu_scale
# dialect: cpp
import torch
from torch import nn
from tvm_ffi.cpp import load_inline

SOURCE = r"""
void relu_scale(tvm::ffi::TensorView x, tvm::ffi::TensorView out) {
  const float* a = static_cast<const float*>(x.data_ptr());
  float* o = static_cast<float*>(out.data_ptr());
  const int64_t n = x.numel();
  for (int64_t i = 0; i < n; ++i) o[i] = (a[i] > 0.0f ? a[i] : 0.0f) * 2.0f;
}
"""
mod = load_inline(name="relu_scale", cpp_sources=SOURCE, functions="relu_scale")


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.flatten = nn.Flatten(0)
        self.dropout = nn.Dropout(p=0.0)
        self.identity = nn.Identity()

    def forward(self, x):
        out = torch.empty_like(x)
        mod.relu_scale(self.flatten(x), out)
        return self.identity(self.dropout(out))
