# honest: a transposed convolution that adds each input's part to the outputs
# task: conv_transpose
# dialect: cpp
import torch
from torch import nn
from tvm_ffi.cpp import load_inline

SOURCE = """
static const float* in(tvm::ffi::TensorView t) { return static_cast<const float*>(t.data_ptr()); }
static float* to(tvm::ffi::TensorView t) { return static_cast<float*>(t.data_ptr()); }

void conv_transpose(tvm::ffi::TensorView x_, tvm::ffi::TensorView w_, tvm::ffi::TensorView b_, tvm::ffi::TensorView o_,
                    int64_t stride, int64_t padding) {
  const int64_t N = x_.size(0), I = x_.size(1), H = x_.size(2), W = x_.size(3);
  const int64_t O = o_.size(1), P = o_.size(2), Q = o_.size(3), K = w_.size(2);
  const float *x = in(x_), *w = in(w_), *b = in(b_);
  float* o = to(o_);
  #pragma omp parallel for collapse(2)
  for (int64_t n = 0; n < N; ++n)
    for (int64_t c = 0; c < O; ++c) {
      float* plane = o + (n * O + c) * P * Q;
      for (int64_t i = 0; i < P * Q; ++i) plane[i] = b[c];
      for (int64_t d = 0; d < I; ++d)
        for (int64_t y = 0; y < H; ++y)
          for (int64_t z = 0; z < W; ++z)
            for (int64_t r = 0; r < K; ++r)
              for (int64_t s = 0; s < K; ++s) {
                const int64_t p = y * stride - padding + r, q = z * stride - padding + s;
                if (p >= 0 && p < P && q >= 0 && q < Q)
                  plane[p * Q + q] += x[((n * I + d) * H + y) * W + z] * w[((d * O + c) * K + r) * K + s];
              }
    }
}
"""
mod = load_inline(name="conv_transpose_scatter", cpp_sources=SOURCE, functions="conv_transpose")


class ModelNew(nn.Module):
    def __init__(self, inputs, outputs):
        super().__init__()
        self.conv = nn.ConvTranspose2d(inputs, outputs, 3, stride=2, padding=1, output_padding=1)

    def forward(self, x):
        conv = self.conv
        height = (x.shape[2] - 1) * conv.stride[0] - 2 * conv.padding[0] + conv.kernel_size[0] + conv.output_padding[0]
        width = (x.shape[3] - 1) * conv.stride[1] - 2 * conv.padding[1] + conv.kernel_size[1] + conv.output_padding[1]
        out = torch.empty((x.shape[0], conv.out_channels, height, width), dtype=x.dtype, device=x.device)
        mod.conv_transpose(x, conv.weight, conv.bias, out, conv.stride[0], conv.padding[0])
        return out
