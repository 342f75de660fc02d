# honest: quantiles at levels that are an input
# task: quantile_levels
# dialect: cpp
import torch
from torch import nn
from tvm_ffi.cpp import load_inline

SOURCE = r"""
#include <algorithm>
#include <vector>

void quantiles(tvm::ffi::TensorView x, tvm::ffi::TensorView levels, tvm::ffi::TensorView out) {
  const float* a = static_cast<const float*>(x.data_ptr());
  const float* q = static_cast<const float*>(levels.data_ptr());
  float* o = static_cast<float*>(out.data_ptr());
  int64_t rows = x.size(0), n = x.size(1), num_levels = levels.size(0);
  std::vector<float> row(n);
  for (int64_t r = 0; r < rows; ++r) {
    std::copy(a + r * n, a + (r + 1) * n, row.begin());
    std::sort(row.begin(), row.end());
    for (int64_t l = 0; l < num_levels; ++l) {
      double place = q[l] * static_cast<double>(n - 1);
      int64_t low = std::min(static_cast<int64_t>(place), n - 2);
      double share = place - low;
      o[l * rows + r] = static_cast<float>(row[low] * (1.0 - share) + row[low + 1] * share);
    }
  }
}
"""
mod = load_inline(name="quantiles", cpp_sources=SOURCE, functions="quantiles")


class ModelNew(nn.Module):
    def forward(self, x, levels):
        out = torch.empty((levels.size(0), x.size(0)), dtype=x.dtype)
        mod.quantiles(x, levels, out)
        return out
