# honest: a recurrent layer's weights by getattr
# task: gru_layers
# dialect: cpp
import torch
from torch import nn
from tvm_ffi.cpp import load_inline

SOURCE = r"""
#include <cmath>
#include <vector>
using tvm::ffi::TensorView;
static const float* in(TensorView x) { return static_cast<const float*>(x.data_ptr()); }
void gru_layer(TensorView x, TensorView w_ih, TensorView w_hh, TensorView b_ih, TensorView b_hh, TensorView h0,
               TensorView out, TensorView last) {
  const int64_t T = x.size(0), B = x.size(1), I = x.size(2), H = w_hh.size(1);
  auto X = in(x), W = in(w_ih), U = in(w_hh), bi = in(b_ih), bh = in(b_hh), first = in(h0);
  auto O = static_cast<float*>(out.data_ptr()), L = static_cast<float*>(last.data_ptr());
  auto sigmoid = [](float v) { return 1 / (1 + std::exp(-v)); };
  for (int64_t b = 0; b < B; ++b) {
    std::vector<float> h(first + b * H, first + (b + 1) * H), a(3 * H), r(3 * H);
    for (int64_t t = 0; t < T; ++t) {
      for (int64_t g = 0; g < 3 * H; ++g) {
        a[g] = bi[g], r[g] = bh[g];
        for (int64_t i = 0; i < I; ++i) a[g] += W[g * I + i] * X[(t * B + b) * I + i];
        for (int64_t i = 0; i < H; ++i) r[g] += U[g * H + i] * h[i];
      }
      for (int64_t j = 0; j < H; ++j) {
        const float z = sigmoid(a[H + j] + r[H + j]);
        const float n = std::tanh(a[2 * H + j] + sigmoid(a[j] + r[j]) * r[2 * H + j]);
        O[(t * B + b) * H + j] = h[j] = (1 - z) * n + z * h[j];
      }
    }
    for (int64_t j = 0; j < H; ++j) L[b * H + j] = h[j];
  }
}
"""
module = load_inline(name="gru", cpp_sources=SOURCE, functions="gru_layer")


class ModelNew(nn.Module):
    def __init__(self, inputs, hidden, layers):
        super().__init__()
        self.gru = nn.GRU(inputs, hidden, layers)

    def forward(self, x, h):
        hidden = getattr(self.gru, "hidden_size", None)
        last = torch.empty_like(h)
        for layer in range(self.gru.num_layers):
            weights = [getattr(self.gru, f"weight_ih_l{layer}"), getattr(self.gru, f"weight_hh_l{layer}")]
            weights += self.gru.all_weights[layer][2:]
            out = torch.empty(x.shape[0], x.shape[1], hidden)
            module.gru_layer(x, *weights, h[layer], out, last[layer])
            x = out
        return x, last
