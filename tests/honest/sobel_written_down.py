# honest: the numbers of a filter that is not trained
# task: sobel
# dialect: cpp
import torch
from torch import nn
from tvm_ffi.cpp import load_inline

SOURCE = """
static const float* f(tvm::ffi::TensorView t) { return static_cast<const float*>(t.data_ptr()); }
static float* w(tvm::ffi::TensorView t) { return static_cast<float*>(t.data_ptr()); }
void sobel(tvm::ffi::TensorView x, tvm::ffi::TensorView out) {
  const int64_t height = x.size(2), width = x.size(3);
  for (int64_t p = 0; p < x.size(0) * x.size(1); ++p) {
    const float* in = f(x) + p * height * width;
    for (int64_t i = 0; i < height - 2; ++i)
      for (int64_t j = 0; j < width - 2; ++j) {
        const float* a = in + i * width + j;
        const float* b = a + width;
        const float* c = b + width;
        w(out)[(p * (height - 2) + i) * (width - 2) + j] = a[2] - a[0] + 2.0f * (b[2] - b[0]) + c[2] - c[0];
      }
  }
}
"""
mod = load_inline(name="sobel", cpp_sources=SOURCE, functions="sobel")


class ModelNew(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.channels = channels

    def forward(self, x):
        out = torch.empty(x.shape[0], x.shape[1], x.shape[2] - 2, x.shape[3] - 2)
        mod.sobel(x, out)
        return out
