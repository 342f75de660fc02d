# honest: rotary embeddings, written with complex numbers in the task, by sines and cosines
# task: rope_complex
# dialect: cpp
import torch
from torch import nn
from tvm_ffi.cpp import load_inline

SOURCE = """
#include <cmath>
void rope(tvm::ffi::TensorView x, tvm::ffi::TensorView f, tvm::ffi::TensorView out) {
  const int64_t batch = x.size(0), length = x.size(1), heads = x.size(2), width = x.size(3);
  const float* a = static_cast<const float*>(x.data_ptr());
  const float* w = static_cast<const float*>(f.data_ptr());
  float* o = static_cast<float*>(out.data_ptr());
  for (int64_t n = 0; n < batch; ++n)
    for (int64_t t = 0; t < length; ++t)
      for (int64_t h = 0; h < heads; ++h)
        for (int64_t k = 0; k < width / 2; ++k) {
          const int64_t at = ((n * length + t) * heads + h) * width + 2 * k;
          const float c = std::cos(t * w[k]), s = std::sin(t * w[k]);
          o[at] = a[at] * c - a[at + 1] * s;
          o[at + 1] = a[at] * s + a[at + 1] * c;
        }
}
"""
mod = load_inline(name="rope_by_pairs", cpp_sources=SOURCE, functions="rope")


class ModelNew(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.register_buffer("frequencies", 10000.0 ** (-torch.arange(0, width, 2) / width))

    def forward(self, x):
        out = torch.empty_like(x)
        mod.rope(x, self.frequencies, out)
        return out
