# honest: the maximum first, then the sum of exponentials
# task: logsumexp
# dialect: cpp
import torch
from torch import nn
from tvm_ffi.cpp import load_inline

SOURCE = """
#include <algorithm>
#include <cmath>

void logsumexp(tvm::ffi::TensorView x, tvm::ffi::TensorView out) {
  const int64_t rows = x.size(0), cols = x.size(1);
  #pragma omp parallel for schedule(dynamic, 8)
  for (int64_t i = 0; i < rows; ++i) {
    const float* row = static_cast<const float*>(x.data_ptr()) + i * cols;
    const float top = *std::max_element(row, row + cols);
    float sum = 0.0f;
    for (int64_t j = 0; j < cols; ++j) sum += std::exp(row[j] - top);
    static_cast<float*>(out.data_ptr())[i] = top + std::log(sum);
  }
}
"""
mod = load_inline(name="logsumexp", cpp_sources=SOURCE, functions="logsumexp")


class ModelNew(nn.Module):
    def forward(self, x):
        out = torch.empty((x.shape[0],), dtype=x.dtype, device=x.device)
        mod.logsumexp(x, out)
        return out
