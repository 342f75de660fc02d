# honest: the root of a parameter that may not be negative is added
# task: root_of_offset
# dialect: cpp
import torch
from torch import nn
from tvm_ffi.cpp import load_inline

SOURCE = """
#include <cmath>
using View = tvm::ffi::TensorView;
static const float* f(View t) { return static_cast<const float*>(t.data_ptr()); }
static float* w(View t) { return static_cast<float*>(t.data_ptr()); }
void rectify(View x, View offset, View out) {
  const int64_t size = x.size(1);
  for (int64_t i = 0; i < x.numel(); ++i) w(out)[i] = (f(x)[i] > 0 ? f(x)[i] : 0.0f) + std::sqrt(f(offset)[i % size]);
}
"""
mod = load_inline(name="rectify", cpp_sources=SOURCE, functions="rectify")


class ModelNew(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.offset = nn.Parameter(torch.zeros(size))

    def forward(self, x):
        out = torch.empty_like(x)
        mod.rectify(x, self.offset, out)
        return out
