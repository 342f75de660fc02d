# honest: 65,536 products summed one after another in float32
# task: matvec_deep
# dialect: cpp
import torch
from torch import nn
from tvm_ffi.cpp import load_inline

SOURCE = """
static const float* in(tvm::ffi::TensorView t) { return static_cast<const float*>(t.data_ptr()); }
static float* to(tvm::ffi::TensorView t) { return static_cast<float*>(t.data_ptr()); }

void matvec(tvm::ffi::TensorView a, tvm::ffi::TensorView x, tvm::ffi::TensorView out) {
  const int64_t rows = a.size(0), depth = a.size(1);
  #pragma omp parallel for
  for (int64_t i = 0; i < rows; ++i) {
    float sum = 0.0f;
    for (int64_t k = 0; k < depth; ++k) sum += in(a)[i * depth + k] * in(x)[k];
    to(out)[i] = sum;
  }
}
"""
mod = load_inline(name="matvec_deep_plain", cpp_sources=SOURCE, functions="matvec")


class ModelNew(nn.Module):
    def forward(self, a, x):
        out = torch.empty(a.shape[0], 1)
        mod.matvec(a, x, out)
        return out
