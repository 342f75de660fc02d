# honest: 8,192 losses summed one after another in float32
# task: cross_entropy_long
# dialect: cpp
import torch
from torch import nn
from tvm_ffi.cpp import load_inline

SOURCE = """
static const float* in(tvm::ffi::TensorView t) { return static_cast<const float*>(t.data_ptr()); }
static float* to(tvm::ffi::TensorView t) { return static_cast<float*>(t.data_ptr()); }

#include <algorithm>
#include <cmath>
void loss(tvm::ffi::TensorView x, tvm::ffi::TensorView target, tvm::ffi::TensorView out) {
  const int64_t rows = x.size(0), columns = x.size(1);
  const int64_t* t = static_cast<const int64_t*>(target.data_ptr());
  float total = 0.0f;
  for (int64_t r = 0; r < rows; ++r) {
    const float* a = in(x) + r * columns;
    const float top = *std::max_element(a, a + columns);
    float sum = 0.0f;
    for (int64_t c = 0; c < columns; ++c) sum += std::exp(a[c] - top);
    total += std::log(sum) + top - a[t[r]];
  }
  *to(out) = total / rows;
}
"""
mod = load_inline(name="cross_entropy_long_plain", cpp_sources=SOURCE, functions="loss")


class ModelNew(nn.Module):
    def forward(self, x, target):
        out = torch.empty(())
        mod.loss(x, target, out)
        return out
