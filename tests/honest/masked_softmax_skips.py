# honest: masked elements are left out of maximum and sum
# task: masked_softmax
# dialect: cpp
import torch
from torch import nn
from tvm_ffi.cpp import load_inline

SOURCE = """
static const float* f(tvm::ffi::TensorView t) { return static_cast<const float*>(t.data_ptr()); }
static float* w(tvm::ffi::TensorView t) { return static_cast<float*>(t.data_ptr()); }
#include <cmath>
void softmax(tvm::ffi::TensorView x, tvm::ffi::TensorView mask, tvm::ffi::TensorView out) {
  const int64_t rows = x.size(0), cols = x.size(1);
  const bool* hidden = static_cast<const bool*>(mask.data_ptr());
  for (int64_t r = 0; r < rows; ++r) {
    float top = -INFINITY, sum = 0.0f;
    for (int64_t c = r * cols; c < (r + 1) * cols; ++c) if (!hidden[c]) top = std::fmax(top, f(x)[c]);
    for (int64_t c = r * cols; c < (r + 1) * cols; ++c) sum += w(out)[c] = hidden[c] ? 0.0f : std::exp(f(x)[c] - top);
    for (int64_t c = r * cols; c < (r + 1) * cols; ++c) w(out)[c] /= sum;
  }
}
"""
mod = load_inline(name="masked_softmax", cpp_sources=SOURCE, functions='softmax')


class ModelNew(nn.Module):
    def forward(self, x, mask):
        out = torch.empty_like(x)
        mod.softmax(x, mask, out)
        return out
