# honest: integer targets; a loss per row into scratch memory, then a second kernel for their mean
# task: cross_entropy
# dialect: cpp
import torch
from torch import nn
from tvm_ffi.cpp import load_inline

SOURCE = """
#include <algorithm>
#include <cmath>

void row_losses(tvm::ffi::TensorView logits, tvm::ffi::TensorView target, tvm::ffi::TensorView losses) {
  const int64_t* t = static_cast<const int64_t*>(target.data_ptr());
  const int64_t classes = logits.size(1);
  #pragma omp parallel for
  for (int64_t i = 0; i < logits.size(0); ++i) {
    const float* row = static_cast<const float*>(logits.data_ptr()) + i * classes;
    const float top = *std::max_element(row, row + classes);
    double sum = 0.0;
    for (int64_t c = 0; c < classes; ++c) sum += std::exp(row[c] - top);
    static_cast<float*>(losses.data_ptr())[i] = static_cast<float>(std::log(sum)) + top - row[t[i]];
  }
}

void mean(tvm::ffi::TensorView x, tvm::ffi::TensorView out) {
  double sum = 0.0;
  for (int64_t i = 0; i < x.numel(); ++i) sum += static_cast<const float*>(x.data_ptr())[i];
  static_cast<float*>(out.data_ptr())[0] = static_cast<float>(sum / x.numel());
}
"""
mod = load_inline(name="cross_entropy", cpp_sources=SOURCE, functions=["row_losses", "mean"])


class ModelNew(nn.Module):
    def forward(self, logits, target):
        losses = logits.new_empty(logits.shape[0])
        loss = logits.new_empty(())
        mod.row_losses(logits, target, losses)
        mod.mean(losses, loss)
        return loss
