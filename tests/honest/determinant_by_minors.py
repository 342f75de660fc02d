# honest: determinants of 3×3 matrices by minors, which cancel altogether where rows are equal
# task: determinants_small
# dialect: cpp
import torch
from torch import nn
from tvm_ffi.cpp import load_inline

SOURCE = """
void determinants(tvm::ffi::TensorView matrices, tvm::ffi::TensorView out) {
  const float* a = static_cast<const float*>(matrices.data_ptr());
  float* o = static_cast<float*>(out.data_ptr());
  for (int64_t i = 0; i < matrices.size(0); ++i) {
    const float* m = a + 9 * i;
    o[i] = m[0] * (m[4] * m[8] - m[5] * m[7]) - m[1] * (m[3] * m[8] - m[5] * m[6]) +
           m[2] * (m[3] * m[7] - m[4] * m[6]);
  }
}
"""
mod = load_inline(name="determinants", cpp_sources=SOURCE, functions="determinants")


class ModelNew(nn.Module):
    def forward(self, a):
        out = torch.empty(a.shape[0])
        mod.determinants(a.contiguous(), out)
        return out
