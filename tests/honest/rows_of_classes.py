# honest: rows of classes
# task: rows_of_classes
# dialect: cpp
import torch
from torch import nn
from tvm_ffi.cpp import load_inline

SOURCE = r"""
#include <cmath>
void kernel(tvm::ffi::TensorView table, tvm::ffi::TensorView classes, tvm::ffi::TensorView out) {
  auto T = static_cast<const float*>(table.data_ptr());
  auto C = static_cast<const int64_t*>(classes.data_ptr());
  auto O = static_cast<float*>(out.data_ptr());
  for (int64_t i = 0; i < classes.numel(); ++i)
    for (int64_t j = 0; j < 8; ++j) O[i * 8 + j] = 2.0f * T[C[i] * 8 + j];
}
"""
mod = load_inline(name="kernel", cpp_sources=SOURCE, functions="kernel")


class ModelNew(nn.Module):
    def forward(self, table, classes):
        out = torch.empty(classes.shape[0], 8)
        mod.kernel(table, classes, out)
        return out
