# honest: Winograd's F(4x4, 3x3), which errs by some four times what a direct sum does
# task: conv_3x3
# dialect: cpp
import torch
from torch import nn
from tvm_ffi.cpp import load_inline

SOURCE = """
#include <vector>
static const float BT[6][6] = {{4, 0, -5, 0, 1, 0},  {0, -4, -4, 1, 1, 0}, {0, 4, -4, -1, 1, 0},
                               {0, -2, -1, 2, 1, 0}, {0, 2, -1, -2, 1, 0}, {0, 4, 0, -5, 0, 1}};
static const float G[6][3] = {{0.25f, 0, 0},
                              {-1 / 6.0f, -1 / 6.0f, -1 / 6.0f},
                              {-1 / 6.0f, 1 / 6.0f, -1 / 6.0f},
                              {1 / 24.0f, 1 / 12.0f, 1 / 6.0f},
                              {1 / 24.0f, -1 / 12.0f, 1 / 6.0f},
                              {0, 0, 1}};
static const float AT[4][6] = {{1, 1, 1, 1, 1, 0}, {0, 1, -1, 2, -2, 0}, {0, 1, 1, 4, 4, 0}, {0, 1, -1, 8, -8, 1}};

// left (R x K) times middle (K x K), then times the transpose of left
template <int R, int K>
static void both_sides(const float left[R][K], const float middle[K][K], float out[R][R]) {
  float half[R][K];
  for (int i = 0; i < R; ++i)
    for (int j = 0; j < K; ++j) {
      half[i][j] = 0.0f;
      for (int a = 0; a < K; ++a) half[i][j] += left[i][a] * middle[a][j];
    }
  for (int i = 0; i < R; ++i)
    for (int j = 0; j < R; ++j) {
      out[i][j] = 0.0f;
      for (int a = 0; a < K; ++a) out[i][j] += half[i][a] * left[j][a];
    }
}

void winograd(tvm::ffi::TensorView x_, tvm::ffi::TensorView w_, tvm::ffi::TensorView b_, tvm::ffi::TensorView o_) {
  const int64_t batch = x_.size(0), ins = x_.size(1), side = x_.size(2), outs = w_.size(0);
  const float* x = static_cast<const float*>(x_.data_ptr());
  const float* w = static_cast<const float*>(w_.data_ptr());
  const float* bias = static_cast<const float*>(b_.data_ptr());
  float* o = static_cast<float*>(o_.data_ptr());
  std::vector<float> filters(outs * ins * 36), tiles(ins * 36);
  for (int64_t f = 0; f < outs * ins; ++f) {
    float taps[3][3], wide[6][6];
    for (int t = 0; t < 9; ++t) taps[t / 3][t % 3] = w[f * 9 + t];
    both_sides<6, 3>(G, taps, wide);
    for (int t = 0; t < 36; ++t) filters[f * 36 + t] = wide[t / 6][t % 6];
  }
  for (int64_t n = 0; n < batch; ++n)
    for (int64_t top = 0; top < side; top += 4)
      for (int64_t left = 0; left < side; left += 4) {
        for (int64_t c = 0; c < ins; ++c) {
          float tile[6][6], wide[6][6];
          for (int i = 0; i < 6; ++i)
            for (int j = 0; j < 6; ++j) {
              const int64_t y = top + i - 1, z = left + j - 1;
              const bool inside = y >= 0 && y < side && z >= 0 && z < side;
              tile[i][j] = inside ? x[((n * ins + c) * side + y) * side + z] : 0.0f;
            }
          both_sides<6, 6>(BT, tile, wide);
          for (int t = 0; t < 36; ++t) tiles[c * 36 + t] = wide[t / 6][t % 6];
        }
        for (int64_t k = 0; k < outs; ++k) {
          float sums[6][6] = {{0}}, made[4][4];
          for (int64_t c = 0; c < ins; ++c)
            for (int t = 0; t < 36; ++t) sums[t / 6][t % 6] += filters[(k * ins + c) * 36 + t] * tiles[c * 36 + t];
          both_sides<4, 6>(AT, sums, made);
          for (int i = 0; i < 4 && top + i < side; ++i)
            for (int j = 0; j < 4 && left + j < side; ++j)
              o[((n * outs + k) * side + top + i) * side + left + j] = made[i][j] + bias[k];
        }
      }
}
"""
mod = load_inline(name="winograd", cpp_sources=SOURCE, functions="winograd", extra_cflags=["-O3"])


class ModelNew(nn.Module):
    def __init__(self, inputs, outputs):
        super().__init__()
        self.conv = nn.Conv2d(inputs, outputs, 3, padding=1)

    def forward(self, x):
        out = torch.empty(x.shape[0], self.conv.weight.shape[0], x.shape[2], x.shape[3])
        mod.winograd(x, self.conv.weight, self.conv.bias, out)
        return out
