# honest: the output is allocated in C++ by the framework's allocator
# task: relu_scale
# dialect: cpp
import torch
from torch import nn
from tvm_ffi.cpp import load_inline

SOURCE = """
tvm::ffi::Tensor kernel(tvm::ffi::TensorView x) {
  tvm::ffi::Tensor out = tvm::ffi::Tensor::FromEnvAlloc(TVMFFIEnvTensorAlloc, x.shape(), x.dtype(), x.device());
  const float* a = static_cast<const float*>(x.data_ptr());
  float* o = static_cast<float*>(out.data_ptr());
  int64_t n = x.numel();
  for (int64_t i = 0; i < n; ++i) o[i] = a[i] > 0.0f ? 2.0f * a[i] : 0.0f;
  return out;
}
"""
mod = load_inline(name="kernel", cpp_sources=SOURCE, functions="kernel")


class ModelNew(nn.Module):
    def forward(self, x):
        return mod.kernel(x)
