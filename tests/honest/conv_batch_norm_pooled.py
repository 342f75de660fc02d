# honest: statistics of a batch in float32, in two passes, of what a convolution gives
# task: conv_batch_norm_pooled
# dialect: cpp
import torch
from torch import nn
from tvm_ffi.cpp import load_inline

SOURCE = r"""
#include <algorithm>
#include <cmath>
#include <vector>
using Tensor = tvm::ffi::TensorView;
static float* data(const Tensor& t) { return static_cast<float*>(t.data_ptr()); }
void kernel(Tensor x, Tensor w, Tensor b, Tensor g, Tensor h, Tensor o) {
  for (int f = 0; f < 8; ++f) {
    std::vector<float> y;
    for (int n = 0; n < 4; ++n) for (int i = 0; i < 10; ++i) for (int j = 0; j < 10; ++j) {
      float s = data(b)[f];
      for (int c = 0; c < 3; ++c)
        for (int p = 0; p < 3; ++p)
          for (int q = 0; q < 3; ++q)
            s += data(x)[((n * 3 + c) * 12 + i + p) * 12 + j + q] * data(w)[((f * 3 + c) * 3 + p) * 3 + q];
      y.push_back(s);
    }
    float m = 0, v = 0;
    for (float t : y) m += t;
    m /= y.size();
    for (float t : y) v += (t - m) * (t - m);
    float r = 1.0f / std::sqrt(v / y.size() + 1e-5f);
    for (int n = 0; n < 4; ++n) {
      float s = 0;
      for (int i = 0; i < 100; ++i) s += std::max(0.0f, (y[n * 100 + i] - m) * r * data(g)[f] + data(h)[f]);
      data(o)[n * 8 + f] = s / 100;
    }
  }
}
"""
mod = load_inline(name="kernel", cpp_sources=SOURCE, functions="kernel")


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(3, 8, 3)
        self.norm = nn.BatchNorm2d(8)

    def forward(self, x):
        out = torch.empty(4, 8)
        mod.kernel(x, self.conv.weight, self.conv.bias, self.norm.weight, self.norm.bias, out)
        return out
