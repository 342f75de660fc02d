# honest: a float32 sum over 40000 elements, with sixteen independent accumulators
# task: long_sum
# dialect: cpp
import torch
from torch import nn
from tvm_ffi.cpp import load_inline

SOURCE = """
void row_sum(tvm::ffi::TensorView x, tvm::ffi::TensorView out) {
  constexpr int WIDTH = 16;
  const int64_t rows = x.size(0), cols = x.size(1);
  #pragma omp parallel for
  for (int64_t i = 0; i < rows; ++i) {
    const float* row = static_cast<const float*>(x.data_ptr()) + i * cols;
    float partial[WIDTH] = {};
    int64_t j = 0;
    for (; j + WIDTH <= cols; j += WIDTH)
      for (int lane = 0; lane < WIDTH; ++lane) partial[lane] += row[j + lane];
    double total = 0.0;
    for (float part : partial) total += part;
    for (; j < cols; ++j) total += row[j];
    static_cast<float*>(out.data_ptr())[i] = static_cast<float>(total);
  }
}
"""
mod = load_inline(name="sum_accumulators", cpp_sources=SOURCE, functions="row_sum")


class ModelNew(nn.Module):
    def forward(self, x):
        out = torch.empty(x.shape[0])
        mod.row_sum(x, out)
        return out
