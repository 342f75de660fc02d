# honest: only the chosen expert is computed
# task: switch_gate
# dialect: cpp
import torch
from torch import nn
from tvm_ffi.cpp import load_inline

SOURCE = r"""
#include <cmath>
#include <limits>
#include <vector>
using T = tvm::ffi::TensorView;
static float* f(T t) { return static_cast<float*>(t.data_ptr()); }
void kernel(T x, T wg, T bg, T w, T o) {
  int64_t n = x.size(0), d = x.size(1), e = wg.size(0), h = w.size(2);
  for (int64_t i = 0; i < n; ++i) {
    std::vector<float> score(e);
    float most = -std::numeric_limits<float>::infinity(), sum = 0.0f;
    for (int64_t k = 0; k < e; ++k) {
      float s = f(bg)[k];
      for (int64_t j = 0; j < d; ++j) s += f(x)[i * d + j] * f(wg)[k * d + j];
      score[k] = s;
      if (s > most) most = s;
    }
    for (float s : score) sum += std::exp(s - most);
    for (int64_t c = 0; c < h; ++c) f(o)[i * h + c] = 0.0f;
    for (int64_t k = 0; k < e; ++k) {
      if (score[k] < most) continue;
      for (int64_t c = 0; c < h; ++c) {
        float y = 0.0f;
        for (int64_t j = 0; j < d; ++j) y += f(x)[i * d + j] * f(w)[(k * d + j) * h + c];
        f(o)[i * h + c] += y * (std::exp(score[k] - most) / sum);
      }
    }
  }
}
"""
mod = load_inline(name="kernel", cpp_sources=SOURCE, functions="kernel")


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.gate = nn.Linear(16, 4)
        self.w = nn.Parameter(torch.randn(4, 16, 16) * 0.2)

    def forward(self, x):
        out = torch.empty_like(x)
        mod.kernel(x, self.gate.weight, self.gate.bias, self.w, out)
        return out
