# honest: the whole block in one kernel, hidden activations in a buffer of each thread's own
# task: mlp
# dialect: cpp
import torch
from torch import nn
from tvm_ffi.cpp import load_inline

SOURCE = """
#include <cmath>
#include <vector>

using tvm::ffi::TensorView;

struct Layer {
  const float *weight, *bias;
  int64_t in, out;
  Layer(TensorView w, TensorView b)
      : weight(static_cast<const float*>(w.data_ptr())),
        bias(static_cast<const float*>(b.data_ptr())),
        in(w.size(0)),
        out(w.size(1)) {}
  void operator()(const float* x, float* y) const {  // weight: (in, out)
    for (int64_t j = 0; j < out; ++j) y[j] = bias[j];
    for (int64_t k = 0; k < in; ++k)
      for (int64_t j = 0; j < out; ++j) y[j] += x[k] * weight[k * out + j];
  }
};

void mlp(TensorView x, TensorView w1, TensorView b1, TensorView w2, TensorView b2, TensorView out) {
  const Layer up(w1, b1), down(w2, b2);
  #pragma omp parallel
  {
    std::vector<float> hidden(up.out);
    #pragma omp for
    for (int64_t i = 0; i < x.size(0); ++i) {
      up(static_cast<const float*>(x.data_ptr()) + i * up.in, hidden.data());
      for (float& h : hidden) h *= 0.5f * std::erfc(-h * 0.70710678f);
      down(hidden.data(), static_cast<float*>(out.data_ptr()) + i * down.out);
    }
  }
}
"""
mod = load_inline(name="mlp_fused", cpp_sources=SOURCE, functions="mlp")


class ModelNew(nn.Module):
    def __init__(self, features, hidden):
        super().__init__()
        up, down = nn.Linear(features, hidden), nn.Linear(hidden, features)
        self.register_buffer("w1", up.weight.data.t().contiguous())
        self.register_buffer("w2", down.weight.data.t().contiguous())
        self.b1, self.b2 = up.bias, down.bias

    def forward(self, x):
        out = torch.empty_like(x)
        mod.mlp(x, self.w1, self.b1, self.w2, self.b2, out)
        return out
