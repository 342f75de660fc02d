# honest: two kernels, a scratch buffer and views around them
# dialect: cpp
import torch
from torch import nn
from tvm_ffi.cpp import load_inline

RELU = """
void relu(tvm::ffi::TensorView x, tvm::ffi::TensorView out) {
  const float* a = static_cast<const float*>(x.data_ptr());
  float* o = static_cast<float*>(out.data_ptr());
  int64_t n = x.numel();
  for (int64_t i = 0; i < n; ++i) o[i] = a[i] > 0.0f ? a[i] : 0.0f;
}
"""
SCALE = """
void scale(tvm::ffi::TensorView x, double factor) {
  float* a = static_cast<float*>(x.data_ptr());
  int64_t n = x.numel();
  for (int64_t i = 0; i < n; ++i) a[i] *= static_cast<float>(factor);
}
"""
first = load_inline(name="first", cpp_sources=RELU, functions=["relu"])
second = load_inline(name="second", cpp_sources=[SCALE], functions=["scale"])


class Scale(nn.Module):
    def __init__(self, factor):
        super().__init__()
        self.factor = factor

    def forward(self, x):
        second.scale(x, self.factor)
        return x


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.scale = Scale(2.0)

    def forward(self, x):
        flat = x.contiguous().view(-1)
        out = torch.empty_like(flat)
        first.relu(flat, out)
        return self.scale(out).reshape(x.shape)
