# honest: positions and weights of each output column in a vector of structs, made once per call
# task: resize_bilinear
# dialect: cpp
import torch
from torch import nn
from tvm_ffi.cpp import load_inline

SOURCE = """
#include <algorithm>
#include <vector>

struct Tap {
  int64_t low, high;
  float weight;  // of `high`
};

static std::vector<Tap> taps(int64_t size_in, int64_t size_out) {
  std::vector<Tap> result;
  const float scale = static_cast<float>(size_in) / static_cast<float>(size_out);
  for (int64_t i = 0; i < size_out; ++i) {
    const float at = std::max(scale * (static_cast<float>(i) + 0.5f) - 0.5f, 0.0f);
    const int64_t low = static_cast<int64_t>(at);
    result.push_back({low, std::min(low + 1, size_in - 1), at - static_cast<float>(low)});
  }
  return result;
}

void bilinear(tvm::ffi::TensorView x, tvm::ffi::TensorView out) {
  const int64_t H = x.size(2), W = x.size(3);
  const auto rows = taps(H, out.size(2)), cols = taps(W, out.size(3));
  float* o = static_cast<float*>(out.data_ptr());
  for (int64_t plane = 0; plane < x.size(0) * x.size(1); ++plane) {
    const float* in = static_cast<const float*>(x.data_ptr()) + plane * H * W;
    auto across = [&](int64_t h, const Tap& c) {
      return (1.0f - c.weight) * in[h * W + c.low] + c.weight * in[h * W + c.high];
    };
    for (const Tap& r : rows)
      for (const Tap& c : cols) *o++ = (1.0f - r.weight) * across(r.low, c) + r.weight * across(r.high, c);
  }
}
"""
mod = load_inline(name="bilinear", cpp_sources=SOURCE, functions="bilinear")


class ModelNew(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.height, self.width = size

    def forward(self, x):
        out = torch.empty(x.shape[0], x.shape[1], self.height, self.width)
        mod.bilinear(x, out)
        return out
