# honest: the compiled module becomes an attribute in __init__, as in KernelBench's own example
# task: relu_scale
# dialect: cpp
import torch
from torch import nn
from tvm_ffi.cpp import load_inline

source = """
void relu_scale(tvm::ffi::TensorView x, tvm::ffi::TensorView out) {
  const float* a = static_cast<const float*>(x.data_ptr());
  float* o = static_cast<float*>(out.data_ptr());
  #pragma omp parallel for
  for (int64_t i = 0; i < x.numel(); ++i) o[i] = a[i] > 0.0f ? a[i] * 2.0f : 0.0f;
}
"""
relu_scale = load_inline(name="relu_scale", cpp_sources=source, functions=["relu_scale"])


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.relu_scale = relu_scale

    def forward(self, x):
        out = torch.empty_like(x)
        self.relu_scale.relu_scale(x, out)
        return out
