# honest: the data are moved to another order of dimensions by the kernel
# task: scale_channels_last
# dialect: cpp
import torch
from torch import nn
from tvm_ffi.cpp import load_inline

SOURCE = """
void scale(tvm::ffi::TensorView x, tvm::ffi::TensorView out) {
  const float* a = static_cast<const float*>(x.data_ptr());
  float* o = static_cast<float*>(out.data_ptr());
  const int64_t channels = x.size(1), pixels = x.size(2) * x.size(3);
  for (int64_t n = 0; n < x.size(0); ++n)
    for (int64_t p = 0; p < pixels; ++p)
      for (int64_t c = 0; c < channels; ++c)
        o[(n * pixels + p) * channels + c] = a[(n * channels + c) * pixels + p] * 2.0f + 1.0f;
}
"""
mod = load_inline(name="scale", cpp_sources=SOURCE, functions="scale")


class ModelNew(nn.Module):
    def forward(self, x):
        out = torch.empty(x.shape[0], x.shape[2], x.shape[3], x.shape[1])
        mod.scale(x, out)
        return out
