# honest: quantised with the zero point that the model holds
# task: zero_point
# dialect: cpp
import torch
from torch import nn
from tvm_ffi.cpp import load_inline

SOURCE = """
#include <cmath>
using View = tvm::ffi::TensorView;
static const float* f(View t) { return static_cast<const float*>(t.data_ptr()); }
static float* w(View t) { return static_cast<float*>(t.data_ptr()); }
void quantize(View x, View zero_point, View out) {
  const int32_t zero = *static_cast<const int32_t*>(zero_point.data_ptr());
  for (int64_t i = 0; i < x.numel(); ++i) {
    const float level = std::nearbyint(f(x)[i] * 20.0f) + zero;
    static_cast<int8_t*>(out.data_ptr())[i] = static_cast<int8_t>(level < -128 ? -128 : level > 127 ? 127 : level);
  }
}
"""
mod = load_inline(name="quantize", cpp_sources=SOURCE, functions="quantize")


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("zero_point", torch.zeros(1, dtype=torch.int32))

    def forward(self, x):
        out = torch.empty(x.shape, dtype=torch.int8)
        mod.quantize(x, self.zero_point, out)
        return out
