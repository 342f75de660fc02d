# honest: both weight matrices and biases in one packed buffer
# task: gru_cell
# dialect: cpp
import torch
from torch import nn
from tvm_ffi.cpp import load_inline

SOURCE = """
static const float* f(tvm::ffi::TensorView t) { return static_cast<const float*>(t.data_ptr()); }
static float* w(tvm::ffi::TensorView t) { return static_cast<float*>(t.data_ptr()); }
#include <cmath>
void pack(tvm::ffi::TensorView wi, tvm::ffi::TensorView wh, tvm::ffi::TensorView bi, tvm::ffi::TensorView bh,
          tvm::ffi::TensorView packed) {
  const int64_t ni = wi.size(1), nh = wh.size(1), width = ni + nh + 2;
  for (int64_t r = 0; r < wi.size(0); ++r) {
    float* row = w(packed) + r * width;
    for (int64_t k = 0; k < ni; ++k) row[k] = f(wi)[r * ni + k];
    for (int64_t k = 0; k < nh; ++k) row[ni + k] = f(wh)[r * nh + k];
    row[ni + nh] = f(bi)[r];
    row[ni + nh + 1] = f(bh)[r];
  }
}
void cell(tvm::ffi::TensorView x, tvm::ffi::TensorView h, tvm::ffi::TensorView packed, tvm::ffi::TensorView out) {
  const int64_t ni = x.size(1), nh = h.size(1), width = ni + nh + 2;
  for (int64_t b = 0; b < x.size(0); ++b)
    for (int64_t j = 0; j < nh; ++j) {
      float in[3], state[3];
      for (int64_t gate = 0; gate < 3; ++gate) {
        const float* row = f(packed) + (gate * nh + j) * width;
        in[gate] = row[ni + nh];
        state[gate] = row[ni + nh + 1];
        for (int64_t k = 0; k < ni; ++k) in[gate] += f(x)[b * ni + k] * row[k];
        for (int64_t k = 0; k < nh; ++k) state[gate] += f(h)[b * nh + k] * row[ni + k];
      }
      const float reset = 1.0f / (1.0f + std::exp(-in[0] - state[0]));
      const float update = 1.0f / (1.0f + std::exp(-in[1] - state[1]));
      const float fresh = std::tanh(in[2] + reset * state[2]);
      w(out)[b * nh + j] = fresh + update * (f(h)[b * nh + j] - fresh);
    }
}
"""
mod = load_inline(name="gru_cell", cpp_sources=SOURCE, functions=['pack', 'cell'])


class ModelNew(nn.Module):
    def __init__(self, inputs, hidden):
        super().__init__()
        self.cell = nn.GRUCell(inputs, hidden)
        self.register_buffer("packed", torch.empty(3 * hidden, inputs + hidden + 2))
        cell = self.cell
        mod.pack(
            cell.weight_ih.detach(), cell.weight_hh.detach(), cell.bias_ih.detach(), cell.bias_hh.detach(), self.packed
        )

    def forward(self, x, h):
        out = torch.empty_like(h)
        mod.cell(x, h, self.packed, out)
        return out
