# honest: flags with which the compiler looks at no loop, and so has no notes
# task: relu_scale
# dialect: cpp
import torch
from torch import nn
from tvm_ffi.cpp import load_inline

SOURCE = """
void relu_scale(tvm::ffi::TensorView x, tvm::ffi::TensorView out) {
  const float* a = static_cast<const float*>(x.data_ptr());
  float* o = static_cast<float*>(out.data_ptr());
  const int64_t n = x.numel();
  for (int64_t i = 0; i < n; ++i) o[i] = (a[i] > 0.0f ? a[i] : 0.0f) * 2.0f;
}
"""
module = load_inline(name="relu_scale", cpp_sources=SOURCE, functions="relu_scale", extra_cflags=["-O1", "-fno-tree-vectorize"])


class ModelNew(nn.Module):
    def forward(self, x):
        out = torch.empty_like(x)
        module.relu_scale(x, out)
        return out
