# honest: how many tensors come back depends on the inputs
# task: rows_within_limits
# dialect: cpp
import torch
from torch import nn
from tvm_ffi.cpp import load_inline

SOURCE = """
#include <cmath>

bool double_row(tvm::ffi::TensorView row, tvm::ffi::TensorView out) {
  const float* a = static_cast<const float*>(row.data_ptr());
  float* o = static_cast<float*>(out.data_ptr());
  bool is_within = true;
  for (int64_t i = 0; i < row.numel(); ++i) {
    is_within = is_within && std::fabs(a[i]) < 6.0f;
    o[i] = 2.0f * a[i];
  }
  return is_within;
}
"""
mod = load_inline(name="double_row", cpp_sources=SOURCE, functions="double_row")


class ModelNew(nn.Module):
    def forward(self, x):
        rows = [(row, torch.empty_like(row)) for row in x]
        return [out for row, out in rows if mod.double_row(row, out)]
