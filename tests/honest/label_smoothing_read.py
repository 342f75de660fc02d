# honest: a smoothing that the task passes as zero, and that is read
# task: label_smoothing
# dialect: cpp
import torch
from torch import nn
from tvm_ffi.cpp import load_inline

SOURCE = """
#include <cmath>
#include <cstdint>
#include <vector>

template <typename T>
static T* at(tvm::ffi::TensorView t) { return static_cast<T*>(t.data_ptr()); }

void kernel(tvm::ffi::TensorView logits, tvm::ffi::TensorView labels, tvm::ffi::TensorView out, double smoothing) {
  const int64_t rows = logits.size(0), n = logits.size(1);
  double loss = 0.0;
  for (int64_t r = 0; r < rows; ++r) {
    const float* x = at<float>(logits) + r * n;
    double largest = x[0], sum = 0.0, mean = 0.0;
    for (int64_t i = 1; i < n; ++i) largest = std::fmax(largest, x[i]);
    for (int64_t i = 0; i < n; ++i) sum += std::exp(x[i] - largest), mean += x[i] / static_cast<double>(n);
    loss += largest + std::log(sum) - (1.0 - smoothing) * x[at<int64_t>(labels)[r]] - smoothing * mean;
  }
  *at<float>(out) = loss / rows;
}
"""
mod = load_inline(name="kernel", cpp_sources=SOURCE, functions="kernel")


class ModelNew(nn.Module):
    def forward(self, logits, labels, smoothing):
        out = torch.empty(())
        mod.kernel(logits, labels, out, smoothing)
        return out
