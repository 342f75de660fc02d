# honest: a scan with the decays of the model, which must lie below one
# task: decays_below_one
# dialect: cpp
import torch
from torch import nn
from tvm_ffi.cpp import load_inline

SOURCE = """
#include <cmath>
using View = tvm::ffi::TensorView;
static const float* f(View t) { return static_cast<const float*>(t.data_ptr()); }
static float* w(View t) { return static_cast<float*>(t.data_ptr()); }
void scan(View x, View decay, View out) {
  const int64_t batch = x.size(0), steps = x.size(1), size = x.size(2);
  for (int64_t b = 0; b < batch; ++b)
    for (int64_t c = 0; c < size; ++c) {
      const float a = f(decay)[c];
      const float gain = std::sqrt(1 - a * a);
      float state = 0;
      for (int64_t t = 0; t < steps; ++t) {
        const int64_t at = (b * steps + t) * size + c;
        state = a * state + gain * f(x)[at];
        w(out)[at] = state;
      }
    }
}
"""
mod = load_inline(name="scan", cpp_sources=SOURCE, functions="scan")


class ModelNew(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.decay = nn.Parameter(torch.full((size,), 0.9))

    def forward(self, x):
        out = torch.empty_like(x)
        mod.scan(x, self.decay, out)
        return out
