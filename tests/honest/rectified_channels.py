# honest: rectifies and moves the channels, by the strides of the input
# task: x_rectified_channels
# dialect: cpp
import torch
from torch import nn
from tvm_ffi.cpp import load_inline

SOURCE = """
void kernel(tvm::ffi::TensorView x, tvm::ffi::TensorView out) {
  const float* a = static_cast<const float*>(x.data_ptr());
  float* o = static_cast<float*>(out.data_ptr());
  int64_t channels = x.size(1), plane = x.size(2) * x.size(3);
  for (int64_t n = 0; n < x.size(0); ++n)
    for (int64_t i = 0; i < plane; ++i)
      for (int64_t c = 0; c < channels; ++c) {
        float value = a[(n * channels + c) * plane + i];
        o[(n * plane + i) * channels + c] = value > 0.0f ? value : 0.0f;
      }
}
"""
mod = load_inline(name="kernel", cpp_sources=SOURCE, functions="kernel")


class ModelNew(nn.Module):
    def forward(self, x):
        x = x.contiguous()
        out = torch.empty(x.shape[0], x.shape[2], x.shape[3], x.shape[1])
        mod.kernel(x, out)
        return out
