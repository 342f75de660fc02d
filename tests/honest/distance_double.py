# honest: everything in float64, with a tolerance of 1e-7
# task: distance_fp64
# dialect: cpp
import torch
from torch import nn
from tvm_ffi.cpp import load_inline

SOURCE = """
#include <cmath>

void distances(tvm::ffi::TensorView x, tvm::ffi::TensorView y, tvm::ffi::TensorView out) {
  const double* a = static_cast<const double*>(x.data_ptr());
  const double* b = static_cast<const double*>(y.data_ptr());
  const int64_t rows = x.size(0), cols = y.size(0), dimensions = x.size(1);
  #pragma omp parallel for collapse(2)
  for (int64_t i = 0; i < rows; ++i)
    for (int64_t j = 0; j < cols; ++j) {
      double sum = 0.0;
      for (int64_t d = 0; d < dimensions; ++d) {
        const double e = a[i * dimensions + d] - b[j * dimensions + d];
        sum += e * e;
      }
      static_cast<double*>(out.data_ptr())[i * cols + j] = std::sqrt(sum);
    }
}
"""
mod = load_inline(name="distances", cpp_sources=SOURCE, functions="distances")


class ModelNew(nn.Module):
    def forward(self, x, y):
        out = torch.empty(x.shape[0], y.shape[0], dtype=torch.float64)
        mod.distances(x, y, out)
        return out
