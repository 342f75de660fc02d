# honest: both directions' weights of a bidirectional layer by their names
# task: gru_bidirectional
# dialect: cpp
import torch
from torch import nn
from tvm_ffi.cpp import load_inline

SOURCE = """
#include <cmath>
#include <vector>
using tvm::ffi::TensorView;
static const float* in(TensorView x) { return static_cast<const float*>(x.data_ptr()); }
void gru_direction(TensorView x, TensorView w_ih, TensorView w_hh, TensorView b_ih, TensorView b_hh, TensorView out,
                   int64_t offset, bool backwards) {
  const int64_t T = x.size(0), B = x.size(1), I = x.size(2), H = w_hh.size(1), width = out.size(2);
  auto X = in(x), W = in(w_ih), U = in(w_hh), bi = in(b_ih), bh = in(b_hh);
  auto O = static_cast<float*>(out.data_ptr());
  auto sigmoid = [](float v) { return 1 / (1 + std::exp(-v)); };
  for (int64_t b = 0; b < B; ++b) {
    std::vector<float> h(H, 0.0f), a(3 * H), r(3 * H);
    for (int64_t step = 0; step < T; ++step) {
      const int64_t t = backwards ? T - 1 - step : step;
      for (int64_t g = 0; g < 3 * H; ++g) {
        a[g] = bi[g], r[g] = bh[g];
        for (int64_t i = 0; i < I; ++i) a[g] += W[g * I + i] * X[(t * B + b) * I + i];
        for (int64_t i = 0; i < H; ++i) r[g] += U[g * H + i] * h[i];
      }
      for (int64_t j = 0; j < H; ++j) {
        const float z = sigmoid(a[H + j] + r[H + j]);
        const float n = std::tanh(a[2 * H + j] + sigmoid(a[j] + r[j]) * r[2 * H + j]);
        O[(t * B + b) * width + offset + j] = h[j] = (1 - z) * n + z * h[j];
      }
    }
  }
}
"""
mod = load_inline(name="gru_both_directions_named", cpp_sources=SOURCE, functions="gru_direction")


class ModelNew(nn.Module):
    def __init__(self, inputs, hidden, layers):
        super().__init__()
        self.gru = nn.GRU(inputs, hidden, layers, bidirectional=True)

    def forward(self, x):
        gru = self.gru
        forwards = [
            (gru.weight_ih_l0, gru.weight_hh_l0, gru.bias_ih_l0, gru.bias_hh_l0),
            (gru.weight_ih_l1, gru.weight_hh_l1, gru.bias_ih_l1, gru.bias_hh_l1),
        ]
        backwards = [
            (gru.weight_ih_l0_reverse, gru.weight_hh_l0_reverse, gru.bias_ih_l0_reverse, gru.bias_hh_l0_reverse),
            (
                getattr(gru, "weight_ih_l1_reverse"),
                getattr(gru, "weight_hh_l1_reverse"),
                getattr(gru, "bias_ih_l1_reverse"),
                getattr(gru, "bias_hh_l1_reverse"),
            ),
        ]
        for one, other in zip(forwards, backwards):
            out = torch.empty(x.shape[0], x.shape[1], 2 * gru.hidden_size)
            mod.gru_direction(x, *one, out, 0, False)
            mod.gru_direction(x, *other, out, gru.hidden_size, True)
            x = out
        return x
