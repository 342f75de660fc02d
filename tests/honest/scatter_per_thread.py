# honest: thousands of terms of each bin are summed in a table for each thread, which are added at the end
# task: scatter_long
# dialect: cpp
import torch
from torch import nn
from tvm_ffi.cpp import load_inline

SOURCE = """
#include <vector>
void scatter(tvm::ffi::TensorView x, tvm::ffi::TensorView index, tvm::ffi::TensorView out) {
  const int64_t rows = x.size(0), columns = x.size(1), bins = out.size(0);
  const float* in = static_cast<const float*>(x.data_ptr());
  const int64_t* at = static_cast<const int64_t*>(index.data_ptr());
  float* o = static_cast<float*>(out.data_ptr());
  for (int64_t i = 0; i < bins * columns; ++i) o[i] = 0.0f;
  #pragma omp parallel
  {
    std::vector<float> mine(bins * columns, 0.0f);
    #pragma omp for
    for (int64_t r = 0; r < rows; ++r)
      for (int64_t c = 0; c < columns; ++c) mine[at[r] * columns + c] += in[r * columns + c];
    #pragma omp critical
    for (int64_t i = 0; i < bins * columns; ++i) o[i] += mine[i];
  }
}
"""
mod = load_inline(name="scatter_per_thread", cpp_sources=SOURCE, functions="scatter")


class ModelNew(nn.Module):
    def forward(self, x, index):
        out = torch.empty(8, x.shape[1])
        mod.scatter(x, index, out)
        return out
