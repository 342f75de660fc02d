# honest: eigenvalues of symmetric 2×2 matrices by their formula; LAPACK makes numbers of NaN, which no task asks for
# task: eigenvalues_symmetric
# dialect: cpp
import torch
from torch import nn
from tvm_ffi.cpp import load_inline

SOURCE = """
#include <cmath>

void eigenvalues(tvm::ffi::TensorView matrices, tvm::ffi::TensorView out) {
  const float* a = static_cast<const float*>(matrices.data_ptr());
  float* o = static_cast<float*>(out.data_ptr());
  for (int64_t i = 0; i < matrices.size(0); ++i) {
    const float* m = a + 4 * i;
    const float centre = m[0] + m[3], reach = std::hypot(m[0] - m[3], m[1] + m[2]);
    o[2 * i] = centre - reach;
    o[2 * i + 1] = centre + reach;
  }
}
"""
mod = load_inline(name="eigenvalues", cpp_sources=SOURCE, functions="eigenvalues")


class ModelNew(nn.Module):
    def forward(self, x):
        out = torch.empty(x.shape[0], 2)
        mod.eigenvalues(x.contiguous(), out)
        return out
