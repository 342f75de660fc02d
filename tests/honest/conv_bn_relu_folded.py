# honest: folds batch norm into scale and shift after the convolution, and relu with it
# task: conv_bn_relu
# dialect: cpp
import torch
from torch import nn
from tvm_ffi.cpp import load_inline

SOURCE = """
static const float* in(tvm::ffi::TensorView t) { return static_cast<const float*>(t.data_ptr()); }
static float* to(tvm::ffi::TensorView t) { return static_cast<float*>(t.data_ptr()); }

#include <algorithm>
#include <cmath>
void conv_bn_relu(tvm::ffi::TensorView x_, tvm::ffi::TensorView w_, tvm::ffi::TensorView g_, tvm::ffi::TensorView b_,
                  tvm::ffi::TensorView m_, tvm::ffi::TensorView v_, tvm::ffi::TensorView o_, double eps) {
  const int64_t N = x_.size(0), I = x_.size(1), H = x_.size(2), W = x_.size(3), O = w_.size(0);
  const float *x = in(x_), *w = in(w_), *g = in(g_), *b = in(b_), *m = in(m_), *v = in(v_);
  float* o = to(o_);
  #pragma omp parallel for collapse(2)
  for (int64_t n = 0; n < N; ++n)
    for (int64_t c = 0; c < O; ++c) {
      const float scale = g[c] / std::sqrt(v[c] + static_cast<float>(eps)), shift = b[c] - m[c] * scale;
      for (int64_t y = 0; y < H; ++y)
        for (int64_t z = 0; z < W; ++z) {
          float sum = 0.0f;
          for (int64_t d = 0; d < I; ++d)
            for (int64_t r = std::max<int64_t>(0, 1 - y); r < std::min<int64_t>(3, H + 1 - y); ++r)
              for (int64_t s = std::max<int64_t>(0, 1 - z); s < std::min<int64_t>(3, W + 1 - z); ++s)
                sum += x[((n * I + d) * H + y + r - 1) * W + z + s - 1] * w[((c * I + d) * 3 + r) * 3 + s];
          o[((n * O + c) * H + y) * W + z] = std::max(0.0f, sum * scale + shift);
        }
    }
}
"""
mod = load_inline(name="conv_bn_relu_folded", cpp_sources=SOURCE, functions="conv_bn_relu")


class ModelNew(nn.Module):
    def __init__(self, inputs, outputs):
        super().__init__()
        self.conv = nn.Conv2d(inputs, outputs, 3, padding=1, bias=False)
        self.bn = nn.BatchNorm2d(outputs)
        self.eval()

    def forward(self, x):
        bn = self.bn
        out = torch.empty(x.shape[0], self.conv.out_channels, *x.shape[2:])
        mod.conv_bn_relu(x, self.conv.weight, bn.weight, bn.bias, bn.running_mean, bn.running_var, out, bn.eps)
        return out
