# honest: the one that is hot is looked for, and only its logarithm is taken
# task: one_hot_cross_entropy
# dialect: cpp
import torch
from torch import nn
from tvm_ffi.cpp import load_inline

SOURCE = """
static const float* f(tvm::ffi::TensorView t) { return static_cast<const float*>(t.data_ptr()); }
static float* w(tvm::ffi::TensorView t) { return static_cast<float*>(t.data_ptr()); }
#include <cmath>
void loss(tvm::ffi::TensorView x, tvm::ffi::TensorView labels, tvm::ffi::TensorView out) {
  const int64_t rows = x.size(0), cols = x.size(1);
  double total = 0.0;
  for (int64_t r = 0; r < rows; ++r) {
    const float* row = f(x) + r * cols;
    int64_t hot = 0;
    float top = row[0], sum = 0.0f;
    for (int64_t c = 0; c < cols; ++c) {
      top = std::fmax(top, row[c]);
      if (f(labels)[r * cols + c] == 1.0f) hot = c;
    }
    for (int64_t c = 0; c < cols; ++c) sum += std::exp(row[c] - top);
    total += std::log(sum) + top - row[hot];
  }
  w(out)[0] = static_cast<float>(total / rows);
}
"""
mod = load_inline(name="one_hot_cross_entropy", cpp_sources=SOURCE, functions='loss')


class ModelNew(nn.Module):
    def forward(self, x, labels):
        out = torch.empty(())
        mod.loss(x, labels, out)
        return out
