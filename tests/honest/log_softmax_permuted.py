# honest: torch permutes and copies, the kernel works in place on rows, and the output is a permuted view
# task: log_softmax_middle
# dialect: cpp
import torch
from torch import nn
from tvm_ffi.cpp import load_inline

SOURCE = """
#include <algorithm>
#include <cmath>

void log_softmax_rows_(tvm::ffi::TensorView x) {
  const int64_t cols = x.size(-1), rows = x.numel() / cols;
  for (int64_t i = 0; i < rows; ++i) {
    float* row = static_cast<float*>(x.data_ptr()) + i * cols;
    const float top = *std::max_element(row, row + cols);
    double sum = 0.0;
    std::for_each(row, row + cols, [&](float v) { sum += std::exp(v - top); });
    const float shift = static_cast<float>(std::log(sum));
    std::transform(row, row + cols, row, [=](float v) { return v - top - shift; });
  }
}
"""
mod = load_inline(name="log_softmax_rows", cpp_sources=SOURCE, functions="log_softmax_rows_")


class ModelNew(nn.Module):
    def forward(self, x):
        rows = x.permute(0, 2, 1).clone(memory_format=torch.contiguous_format)
        mod.log_softmax_rows_(rows)
        return rows.permute(0, 2, 1)
